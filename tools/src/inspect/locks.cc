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

/// How many keys of a dictionary are read in one step.
constexpr std::uint32_t kKeysAtOnce = 1000;
/// Most locks have at most this number of holders and of waiters. Only locks with more are read a second time.
constexpr std::size_t kFew = 16;

/// A buffer for one lock's holders and waiters, which is reused for all locks of a dictionary.
struct Room {
  std::vector<holdfast_holder> holders;
  std::vector<holdfast_waiter> waiters;
};

/// Returns a copy of the first items, without unused capacity.
template <class Item>
std::vector<Item> first_of(const std::vector<Item>& items, std::uint32_t count) {
  return {items.begin(), items.begin() + std::min<std::ptrdiff_t>(std::ssize(items), count)};
}

int read_lock_once(holdfast_dict* dict, Lock& lock, std::size_t most, Room& room) {
  room.holders.resize(std::min<std::size_t>(most, Lock::kHoldersShown));
  room.waiters.resize(std::min<std::size_t>(most, Lock::kWaitersShown));
  const int code =
      holdfast_look(dict, lock.key.data(), lock.key.size(), room.holders.data(),
                    static_cast<std::uint32_t>(room.holders.size()), &lock.holder_count, room.waiters.data(),
                    sizeof(holdfast_waiter), static_cast<std::uint32_t>(room.waiters.size()), &lock.waiter_count);
  if (code != HOLDFAST_OK) lock.holder_count = lock.waiter_count = 0;
  lock.holders = first_of(room.holders, lock.holder_count);
  lock.waiters = first_of(room.waiters, lock.waiter_count);
  return code;
}

Lock look_at_lock(holdfast_dict* dict, const std::string& dictionary, const std::string& key, Room& room, int& code) {
  Lock lock;
  lock.dictionary = dictionary;
  lock.key = key;
  code = read_lock_once(dict, lock, kFew, room);
  // Make room for twice the number, because more holders and waiters may arrive before the lock is read again.
  if (code == HOLDFAST_OK && std::max(lock.holder_count, lock.waiter_count) > kFew)
    code = read_lock_once(dict, lock, std::size_t{2} * std::max(lock.holder_count, lock.waiter_count), room);
  if (code != HOLDFAST_OK) lock.trouble = sentence(code);
  return lock;
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

std::string token_in_words(const holdfast_holder& holder) {
  return holder.sequence != 0 ? std::to_string(holder.sequence) : "-";
}

Lock look_at_lock(holdfast_dict* dict, const std::string& dictionary, const std::string& key) {
  Room room;
  int code = HOLDFAST_OK;
  return look_at_lock(dict, dictionary, key, room, code);
}

Status gather_locks(const std::string& name, const std::string& prefix, Which which, std::size_t max,
                    std::vector<Lock>& locks) {
  auto dict = attach(name);
  if (!dict) return dict.status();
  return gather_locks(*dict, name, prefix, which, max, locks);
}

Status gather_locks(holdfast_dict* dict, const std::string& name, const std::string& prefix, Which which,
                    std::size_t max, std::vector<Lock>& locks) {
  const std::size_t known = locks.size();
  LockScan scan(dict, name, prefix);
  while (!scan.done() && locks.size() < max) {
    Status looked = scan.next(which, max, locks);
    if (looked.code == Code::removed) locks.resize(known);  // the locks were removed with the dictionary
    if (!looked.ok()) return looked;
  }
  return {};
}

Status LockScan::next(Which which, std::size_t max, std::vector<Lock>& locks) {
  std::vector<std::string> keys;
  const int code = unpack(keys, [&](holdfast_value* packed, std::uint32_t* count) {
    return holdfast_scan_locks(dict_, &cursor_, kKeysAtOnce, prefix_.data(), prefix_.size(), packed, count);
  });
  if (code != HOLDFAST_OK) return {static_cast<Code>(code), sentence(code)};
  done_ = cursor_ == 0;
  std::sort(keys.begin(), keys.end());
  Room room;
  for (const std::string& key : keys) {
    if (locks.size() >= max) return {};
    int looked = HOLDFAST_OK;
    Lock lock = look_at_lock(dict_, name_, key, room, looked);
    if (looked == HOLDFAST_REMOVED) return {Code::removed, lock.trouble};
    const bool is_over = lock.holder_count == 0 && lock.waiter_count == 0 && lock.trouble.empty();
    if (is_over || (which == Which::waited_for && lock.waiter_count == 0)) continue;
    locks.push_back(std::move(lock));
  }
  return {};
}

const holdfast_holder* living_holder(const Lock& lock, Processes& processes) {
  const auto living = std::find_if(lock.holders.begin(), lock.holders.end(), [&](const holdfast_holder& holder) {
    return processes.of(holder.owner).life != Life::dead;
  });
  return living != lock.holders.end() ? &*living : nullptr;
}

std::string trouble_of_holders(const Lock& lock) {
  if (!lock.trouble.empty() || lock.holders.size() >= lock.holder_count) return lock.trouble;
  return fmt::format("only {} of {} holders were checked", lock.holders.size(), lock.holder_count);
}

WaitsNow waits_now(const Lock& lock) noexcept {
  WaitsNow waits{lock.waiter_count};
  for (const holdfast_waiter& waiter : lock.waiters) {
    if (waiter.watches != 0) --waits.count;
    if (waiter.watches == 0) waits.longest = std::max(waits.longest, waiter.waited);
  }
  return waits;
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
