// Calls for the library itself and its world: versions, texts, clock, runtime directory, processes.
#include <algorithm>

#include "base/parse.h"
#include "base/version.h"
#include "capi/handle.h"
#include "dict/check.h"
#include "dict/expiry.h"
#include "platform/platform.h"
#include "world/process_table.h"
#include "world/world.h"

using namespace holdfast;
using namespace holdfast::capi;

static_assert(HOLDFAST_PROCESSES_MAX == kSlots);

namespace {

void fill(holdfast_process& out, Token owner, const ProcessSlot& slot) {
  const auto entered = static_cast<double>(slot.entered_ns.load(kRelaxed)) / 1e9;
  out = {};
  out.owner = owner;
  out.entered = std::max(static_cast<double>(platform::monotonic_ns()) / 1e9 - entered, 0.0);
  out.pid_namespace = slot.pid_namespace.load(kRelaxed);
  out.pid = slot.pid.load(kRelaxed);
  out.worker = slot.worker.load(kRelaxed);
  copy_text(slot.comm, out.program);
  copy_text(slot.host, out.host);
}

}  // namespace

uint32_t holdfast_abi(void) { return HOLDFAST_ABI; }

const char* holdfast_version(void) { return kVersion; }

const char* holdfast_code_text(int code) {
  static_assert(static_cast<int>(Code::deadlock) == HOLDFAST_DEADLOCK &&
                static_cast<int>(Code::not_found) == HOLDFAST_NOT_FOUND &&
                static_cast<int>(Code::locked) == HOLDFAST_LOCKED && static_cast<int>(Code::system) == HOLDFAST_SYSTEM);
  switch (code) {
    case HOLDFAST_OK:
      return "ok";
    case HOLDFAST_NOT_FOUND:
      return "not found";
    case HOLDFAST_EXISTS:
      return "exists";
    case HOLDFAST_NO_MEMORY:
      return "no memory";
    case HOLDFAST_TIMEOUT:
      return "timeout";
    case HOLDFAST_NOT_A_NUMBER:
      return "not a number";
    case HOLDFAST_LOCKED:
      return "locked";
    case HOLDFAST_NOT_OWNER:
      return "not owner";
    case HOLDFAST_TOO_LARGE:
      return "too large";
    case HOLDFAST_BUFFER:
      return "buffer too small";
    case HOLDFAST_INVALID:
      return "invalid argument";
    case HOLDFAST_SYSTEM:
      return "system error";
    case HOLDFAST_MISMATCH:
      return "mismatch";
    case HOLDFAST_CORRUPT:
      return "corrupt";
    case HOLDFAST_PERMISSION:
      return "permission denied";
    case HOLDFAST_BUSY:
      return "busy";
    case HOLDFAST_REMOVED:
      return "removed";
    case HOLDFAST_NOT_A_LIST:
      return "value not a list";
    case HOLDFAST_IS_A_LIST:
      return "value is a list";
    case HOLDFAST_DIFFERS:
      return "value differs";
    case HOLDFAST_DEADLOCK:
      return "deadlock";
    case HOLDFAST_ELSEWHERE:
      return "locked on another machine";
    case HOLDFAST_UNSUPPORTED:
      return "not supported in a cluster dictionary";
    case HOLDFAST_UNAVAILABLE:
      return "unavailable";
    case HOLDFAST_UNCHANGED:
      return "unchanged";
    default:
      return "unknown code";
  }
}

double holdfast_now(void) { return static_cast<double>(platform::monotonic_ns()) / 1e9; }

int holdfast_follow_clock(const volatile uintptr_t* milliseconds) {
  return guarded([&]() -> int {
    if (milliseconds != nullptr && !is_loop_clock(milliseconds))
      return fail(Code::invalid, "bad clock: expected a past time in milliseconds of CLOCK_MONOTONIC");
    follow_clock(milliseconds);
    return HOLDFAST_OK;
  });
}

const char* holdfast_directory(void) {
  return guarded_or<const char*>(nullptr, []() -> const char* {
    auto world = World::current();
    if (world) return (*world)->directory().path().c_str();
    fail(world.status());
    return nullptr;
  });
}

int holdfast_guard_sigbus(void) {
  return guarded([]() -> int {
    const int error = platform::install_bus_guard();
    if (error == 0) return HOLDFAST_OK;
    return fail({Code::system, "cannot install a SIGBUS handler: " + platform::error_text(error)});
  });
}

int holdfast_name_program(const char* name, size_t length) {
  return guarded([&]() -> int {
    if (name == nullptr || length == 0) return fail(Code::invalid, "bad program name: expected 1 or more bytes");
    return name_program({name, length}) ? static_cast<int>(HOLDFAST_OK) : fail(Code::exists);
  });
}

int holdfast_show_as(int pid) {
  return guarded([&]() -> int {
    if (pid <= 0) return fail({Code::invalid, "bad pid: expected 1 or more, got " + std::to_string(pid)});
    show_as(pid);
    return HOLDFAST_OK;
  });
}

int holdfast_hold_over_exec(int* fd) {
  return guarded([&]() -> int {
    *fd = -1;
    auto life = World::enter_to_exec();
    if (!life) return fail(life.status());
    *fd = life->program.release();
    return HOLDFAST_OK;
  });
}

int holdfast_hold_with_keeper(int fds[2]) {
  return guarded([&]() -> int {
    fds[0] = fds[1] = -1;
    auto life = World::enter_to_exec();
    if (!life) return fail(life.status());
    fds[0] = life->program.release();
    fds[1] = life->keeper.release();
    return HOLDFAST_OK;
  });
}

int holdfast_use_over_exec(holdfast_dict* dict, int fds[2]) {
  return guarded([&]() -> int {
    fds[0] = fds[1] = -1;
    const EpochGuard inside;
    const Segment* const segment = unwrap(dict).segment(inside);
    if (segment == nullptr) return outcome(Code::removed, unwrap(dict));
    auto kept = segment->keep_use();
    if (!kept) return fail(kept.status());
    fds[0] = kept->release();
    return HOLDFAST_OK;
  });
}

int holdfast_end_hold(int fd) {
  return guarded([&]() -> int {
    const Status ended = end_kept_description(fd);
    return ended.ok() ? static_cast<int>(HOLDFAST_OK) : fail(ended);
  });
}

int holdfast_keep_for(int parent) {
  return guarded([&]() -> int {
    auto world = World::current();
    if (!world) return fail(world.status());
    const Status kept = (*world)->keep_for(parent);
    return kept.ok() ? static_cast<int>(HOLDFAST_OK) : fail(kept);
  });
}

int holdfast_parse_size(const char* text, size_t length, uint64_t* bytes) {
  return guarded([&]() -> int {
    auto size = parse_size({text, length});
    if (!size) return fail(size.status());
    *bytes = *size;
    return HOLDFAST_OK;
  });
}

int holdfast_observe(void) {
  return guarded([]() -> int {
    const Status observes = World::observe();
    return observes.ok() ? static_cast<int>(HOLDFAST_OK) : fail(observes);
  });
}

int holdfast_processes(holdfast_process* processes, size_t struct_size, uint32_t max, uint32_t* count) {
  return guarded([&]() -> int {
    *count = 0;
    if (struct_size != sizeof(holdfast_process))
      return fail_number("struct_size", struct_size, "sizeof(holdfast_process)");
    auto world = World::current();
    if (!world) return fail(world.status());
    for (std::uint32_t index = 0; index < kSlots; ++index) {
      const Token owner = (*world)->token_at(index);
      if (owner == kNobody) continue;
      if (*count < max) fill(processes[*count], owner, *(*world)->slot_at(index));
      ++*count;
    }
    return HOLDFAST_OK;
  });
}

int holdfast_process_lives(uint64_t owner) {
  return guarded([&]() -> int {
    auto world = World::current();
    if (!world) return fail(world.status());
    switch ((*world)->judge(owner)) {
      case Liveness::alive:
        return HOLDFAST_OK;
      case Liveness::dead:
        return fail(Code::not_found);
      case Liveness::unknown:
        break;
    }
    const Status trouble = (*world)->judge_trouble();
    return trouble.ok() ? fail(Code::system, "cannot tell whether the process is alive") : fail(trouble);
  });
}

int holdfast_check(holdfast_dict* dict, holdfast_health* health, size_t struct_size) {
  return guarded([&]() -> int {
    if (struct_size != sizeof(holdfast_health))
      return fail_number("struct_size", struct_size, "sizeof(holdfast_health)");
    return outcome(check(unwrap(dict), *health), unwrap(dict));
  });
}
