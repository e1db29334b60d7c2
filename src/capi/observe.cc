// Looking at a world: check the arguments, call one thing, map the result.
#include <algorithm>

#include "capi/handle.h"
#include "dict/check.h"
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
        return fail(Code::not_found, "");
      case Liveness::unknown:
        break;
    }
    const Status trouble = (*world)->judge_trouble();
    return trouble.ok() ? fail(Code::system, "it cannot be told whether the process lives") : fail(trouble);
  });
}

int holdfast_check(holdfast_dict* dict, holdfast_health* health, size_t struct_size) {
  return guarded([&]() -> int {
    if (struct_size != sizeof(holdfast_health))
      return fail_number("struct_size", struct_size, "sizeof(holdfast_health)");
    Health found;
    const Code code = check(unwrap(dict), found);
    *health = {.used = found.used,
               .damaged = found.damaged,
               .uncertain = found.uncertain,
               .held = found.held,
               .held_by_dead = found.held_by_dead,
               .held_by_idle = found.held_by_idle,
               .holder = found.holder};
    return outcome(code, unwrap(dict));
  });
}
