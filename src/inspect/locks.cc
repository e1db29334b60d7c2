#include "inspect/locks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "inspect/dictionaries.h"
#include "inspect/packed.h"
#include "inspect/text.h"
#include "inspect/world.h"

namespace holdfast::inspect {

namespace {

/// Keys of one step.
constexpr std::uint32_t kKeysAtOnce = 1000;
/// Most locks have few holders and waiters: only those with more are looked at twice.
constexpr std::size_t kFew = 16;

/// A lock takes no more memory than what was found of it.
int look(holdfast_dict* dict, Lock& lock, std::size_t room) {
  std::vector<holdfast_holder> holders(std::min<std::size_t>(room, Lock::kHoldersShown));
  std::vector<holdfast_waiter> waiters(std::min<std::size_t>(room, Lock::kWaitersShown));
  const int code =
      holdfast_look(dict, lock.key.data(), lock.key.size(), holders.data(), static_cast<std::uint32_t>(holders.size()),
                    &lock.holder_count, waiters.data(), sizeof(holdfast_waiter),
                    static_cast<std::uint32_t>(waiters.size()), &lock.waiter_count);
  if (code != HOLDFAST_OK) lock.holder_count = lock.waiter_count = 0;
  lock.holders.assign(holders.begin(), holders.begin() + std::min<std::ptrdiff_t>(std::ssize(holders), lock.holder_count));
  lock.waiters.assign(waiters.begin(), waiters.begin() + std::min<std::ptrdiff_t>(std::ssize(waiters), lock.waiter_count));
  return code;
}

}  // namespace

const char* kind_in_words(const Lock& lock) noexcept {
  constexpr std::array<const char*, 3> kNames{"lock", "rwlock", "semaphore"};
  if (lock.holders.empty()) return "-";
  const std::uint32_t kind = lock.holders.front().kind;
  return kind < kNames.size() ? kNames[kind] : "-";
}

std::string share_in_words(const holdfast_holder& holder) {
  if (holder.kind == HOLDFAST_HELD_LOCK) return "lock";
  if (holder.kind == HOLDFAST_HELD_RWLOCK) return holder.permits == HOLDFAST_ALL_PERMITS ? "write" : "read";
  return counted(holder.permits, "permit", "permits");
}

Lock look_at_lock(holdfast_dict* dict, const std::string& dictionary, const std::string& key) {
  Lock lock;
  lock.dictionary = dictionary;
  lock.key = key;
  int code = look(dict, lock, kFew);
  // More may come while it is looked at again.
  if (code == HOLDFAST_OK && std::max(lock.holder_count, lock.waiter_count) > kFew)
    code = look(dict, lock, std::size_t{2} * std::max(lock.holder_count, lock.waiter_count));
  if (code != HOLDFAST_OK) lock.trouble = sentence(code);
  return lock;
}

Status gather_locks(const std::string& name, const std::string& prefix, Which which, std::size_t max,
                    std::vector<Lock>& locks) {
  auto dict = attach(name);
  if (!dict) return dict.status();
  return gather_locks(*dict, name, prefix, which, max, locks);
}

Status gather_locks(holdfast_dict* dict, const std::string& name, const std::string& prefix, Which which,
                    std::size_t max, std::vector<Lock>& locks) {
  std::uint64_t cursor = 0;
  do {
    std::vector<std::string> keys;
    const int code = unpack(keys, [&](holdfast_value* packed, std::uint32_t* count) {
      return holdfast_scan_locks(dict, &cursor, kKeysAtOnce, prefix.data(), prefix.size(), packed, count);
    });
    if (code != HOLDFAST_OK) return {static_cast<Code>(code), sentence(code)};
    std::sort(keys.begin(), keys.end());
    for (const std::string& key : keys) {
      if (locks.size() == max) return {};
      Lock lock = look_at_lock(dict, name, key);
      const bool is_over = lock.holder_count == 0 && lock.waiter_count == 0 && lock.trouble.empty();
      if (is_over || (which == Which::waited_for && lock.waiter_count == 0)) continue;
      locks.push_back(std::move(lock));
    }
  } while (cursor != 0);
  return {};
}

void drop_dead_waiters(std::vector<Lock>& locks, Processes& processes) {
  for (Lock& lock : locks) {
    const auto dropped = std::erase_if(
        lock.waiters, [&](const holdfast_waiter& waiter) { return processes.of(waiter.owner).life == Life::dead; });
    lock.waiter_count -= std::min(lock.waiter_count, static_cast<std::uint32_t>(dropped));
  }
  std::erase_if(
      locks, [](const Lock& lock) { return lock.holder_count == 0 && lock.waiter_count == 0 && lock.trouble.empty(); });
}

}  // namespace holdfast::inspect
