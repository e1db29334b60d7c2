#include "capi/handle.h"

#include <cmath>
#include <exception>
#include <new>
#include <type_traits>

#include "platform/sentences.h"
#include "sync/shmtx.h"
#include "world/process_table.h"
#include "world/world.h"

namespace holdfast::capi {

namespace {

// The code of this thread's last failed call.
constinit thread_local int code_of_failure = HOLDFAST_OK;
static_assert(std::is_trivially_destructible_v<decltype(code_of_failure)>);

int note(Code code) noexcept { return code_of_failure = static_cast<int>(code); }

}  // namespace

int fail(const Status& status) noexcept {
  platform::keep_sentence(status.message);
  return note(status.code);
}

int fail(Code code, const char* message) noexcept {
  platform::keep_literal(message);
  return note(code);
}

int fail(Code code) noexcept {
  platform::keep_nothing();
  return note(code);
}

namespace {

int fail_timeout(World& world) noexcept {
  constexpr const char* kUnnamed =
      "a process was stopped while changing this part of the dictionary; continue or kill it";
  const ProcessSlot* const slot = world.owner_slot(shmtx_blocker());
  if (slot == nullptr) return fail(Code::timeout, kUnnamed);
  platform::keep_formatted(kUnnamed,
                           "process %u was stopped while changing this part of the dictionary; continue or kill it",
                           slot->pid.load(std::memory_order_relaxed));
  return note(Code::timeout);
}

void fail_too_large(Dictionary& dictionary) noexcept {
  constexpr const char* kUnnamed = "key and value are too large";
  const auto size = static_cast<unsigned long long>(dictionary.capacity());
  const auto room = static_cast<unsigned long long>(dictionary.room_for_one());
  const auto most = static_cast<unsigned long long>(dictionary.value_max_if_asked_for());
  if (most > dictionary.value_max())
    platform::keep_formatted(kUnnamed,
                             "key and value are too large: a dictionary of %llu bytes takes at most %llu for both; "
                             "the option largest allows values of up to %llu",
                             size, room, most);
  else
    platform::keep_formatted(
        kUnnamed, "key and value are too large: a dictionary of %llu bytes takes at most %llu for both", size, room);
}

bool has_file_mutex(Dictionary& dictionary) noexcept {
  const EpochGuard inside;
  const Segment* const segment = dictionary.segment(inside);
  return segment != nullptr && segment->strategy() == MutexStrategy::file;
}

[[gnu::noinline]] int fail_with_reason(Code code, Dictionary& dictionary) noexcept {
  switch (code) {
    case Code::removed:
      if (dictionary.was_cut_short()) {
        platform::keep_formatted("the dictionary's file was cut short, so the dictionary was removed",
                                 "the file of dictionary %s was cut short, so the dictionary was removed",
                                 dictionary.quoted_name());
        break;
      }
      platform::keep_formatted("the dictionary was removed", "dictionary %s was removed", dictionary.quoted_name());
      break;
    case Code::too_large:
      fail_too_large(dictionary);
      break;
    case Code::timeout:
      return fail_timeout(dictionary.world());
    case Code::busy:
      return fail(code, "this thread is already inside a holdfast call");
    case Code::system:
      if (dictionary.world().known_token() == kNobody) {
        World::keep_last_failure();
        return note(World::last_failure_code());
      }
      if (!has_file_mutex(dictionary)) {
        const Status trouble = dictionary.world().judge_trouble();
        return trouble.ok() ? fail(code, "cannot tell whether the blocking process is alive") : fail(trouble);
      }
      platform::keep_formatted("cannot lock the file of a dictionary with the mutex \"file\"",
                               "cannot lock the file of dictionary %s with the mutex \"file\": no descriptor is "
                               "left, or this process can no longer open the file",
                               dictionary.quoted_name());
      break;
    case Code::corrupt:
      return fail(code, World::observes() ? "part of the dictionary is damaged; the next change repairs it"
                                          : "another process is overwriting the dictionary");
    default:
      return fail(code);
  }
  return note(code);
}

}  // namespace

// The most frequent failures do not reach the switch, for which the compiler saves registers.
int fail_outcome(Code code, Dictionary& dictionary) noexcept {
  const bool says_everything = code == Code::locked || code == Code::not_found || code == Code::exists;
  return says_everything ? fail(code) : fail_with_reason(code, dictionary);
}

int outcome_of_keys(const PackedKeys& packed, holdfast_value& keys, std::uint32_t& count) noexcept {
  keys.size = packed.size();
  count = packed.count();
  return packed.fit() ? static_cast<int>(HOLDFAST_OK) : fail(Code::buffer);
}

int fail_key(const char* key, std::size_t length) noexcept {
  if (key == nullptr) return fail(Code::invalid, "nil key");
  if (length == 0) return fail(Code::invalid, "empty key");
  return fail(Code::invalid, "key too long");
}

int fail_seconds(const char* name, double seconds) noexcept {
  platform::keep_formatted("bad number of seconds: expected 0 or more",
                           "bad \"%s\": expected a number of seconds, 0 or more, got %f", name, seconds);
  return note(Code::invalid);
}

int check_timeout(double timeout) noexcept {
  return std::isnan(timeout) ? fail(Code::invalid, "bad timeout: expected a number of seconds") : HOLDFAST_OK;
}

int fail_number(const char* name, std::uint64_t given, const char* expected) noexcept {
  platform::keep_formatted("bad number", "bad %s: expected %s, got %llu", name, expected,
                           static_cast<unsigned long long>(given));
  return note(Code::invalid);
}

int fail_exception() noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return fail(Code::no_memory, "out of memory");
  } catch (const std::exception& error) {
    platform::keep_sentence(error.what());
  } catch (...) {
    platform::keep_literal("an unexpected error");
  }
  return note(Code::system);
}

}  // namespace holdfast::capi

const char* holdfast_error(void) { return holdfast::platform::lasting_sentence(); }

const char* holdfast_strerror(int code) {
  const char* const sentence = holdfast::platform::kept_sentence();
  const bool is_about_it = code != HOLDFAST_OK && code == holdfast::capi::code_of_failure && *sentence != '\0';
  return is_about_it ? sentence : holdfast_code_text(code);
}
