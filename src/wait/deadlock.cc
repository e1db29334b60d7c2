#include "wait/deadlock.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <span>
#include <tuple>

#include "dict/expiry.h"
#include "platform/platform.h"
#include "wait/task_id.h"

namespace holdfast {

namespace {

using Found = WaitTable::Found;

/// The delay before the next attempt to take a record after the table of waits was full. No benchmark covers this
/// constant, because only deadlock_test.cc fills the table.
constexpr std::uint64_t kRecordRetryNs = 100'000'000;

/// Finds the wait that blocks the task: its own wait, or the wait of its whole Lua state.
Found find_wait(const WaitTable& table, Token token, std::uint32_t task, Wait& wait) noexcept {
  const Found found = table.find(token, task, wait);
  if (found != Found::no || whole_state(task) == task) return found;
  return table.find(token, whole_state(task), wait);
}

bool is_same_task(const Wait& a, const Wait& b) noexcept { return a.token == b.token && a.task == b.task; }

bool is_same_grant(const Blocker& a, const Blocker& b) noexcept {
  return a.token == b.token && a.task == b.task && a.sequence == b.sequence;
}

bool is_same_wait(const Wait& a, const Wait& b) noexcept {
  return is_same_task(a, b) && a.since == b.since && is_same_grant(a.blocker, b.blocker);
}

/// Returns whether `a` becomes the victim before `b`.
bool is_later(const Wait& a, const Wait& b) noexcept {
  return std::tie(a.since, a.token, a.task) > std::tie(b.since, b.token, b.task);
}

/// A walk along the holders, beginning with `own`. `outcome` is `deadlock` if the walk returned to `own`, and `there`
/// if a wait could not be read.
struct Walk {
  std::array<Wait, kCycleMax> waits;
  std::size_t length = 0;
  Cycle outcome = Cycle::none;
};

void walk(const WaitTable& table, const Wait& own, Alone alone, Walk& walk) noexcept {
  walk.waits[0] = own;
  for (walk.length = 1;; ++walk.length) {
    const Blocker& blocker = walk.waits[walk.length - 1].blocker;
    Wait next;
    if (!blocker.known()) return;
    const Found found = find_wait(table, blocker.token, blocker.task, next);
    if (found == Found::unreadable) walk.outcome = Cycle::there;  // the walk may have met a cycle
    if (found != Found::yes) return;
    if (is_same_task(next, own)) break;
    if (walk.length == kCycleMax) return;
    walk.waits[walk.length] = next;
  }
  if (walk.length > 1 || alone == Alone::counts) walk.outcome = Cycle::deadlock;
}

/// Checks whether waits that were read once satisfy the conditions of the proof in deadlock.h.
bool is_proved(const WaitTable& table, std::span<const Wait> waits, const std::function<Liveness(Token)>& judge) {
  std::uint64_t last = 0;
  for (const Wait& wait : waits) last = std::max(last, wait.since);
  for (const Wait& wait : waits)
    if (wait.seen <= last) return false;
  for (const Wait& wait : waits) {
    const bool expired = wait.blocker.end_ms != kExpiryNever && time_passed(wait.blocker.end_ms);
    if (expired || judge(wait.token) != Liveness::alive) return false;
  }
  for (const Wait& wait : waits) {
    Wait again;
    if (table.find(wait.token, wait.task, again) != Found::yes || !is_same_wait(wait, again)) return false;
  }
  return true;
}

/// Returns whether `waits[0]` is the victim now.
bool is_victim(std::span<const Wait> waits, std::uint64_t now_ns) noexcept {
  std::uint64_t last = 0;
  std::uint64_t later = 0;
  for (const Wait& wait : waits) {
    last = std::max(last, wait.since);
    if (is_later(wait, waits[0])) ++later;
  }
  return now_ns - last >= later * kVictimPatienceNs;
}

}  // namespace

std::uint32_t new_task_ids() noexcept {
  static std::atomic<std::uint32_t> given{0};
  constexpr std::uint32_t kRanges = (std::uint32_t{1} << (32 - kTaskBits)) - 1;
  std::uint32_t last = given.load(std::memory_order_relaxed);
  do {
    if (last == kRanges) return kNoTask;
  } while (!given.compare_exchange_weak(last, last + 1, std::memory_order_relaxed));
  return (last + 1) << kTaskBits;
}

Cycle find_cycle(const WaitTable& table, const Wait& own, std::uint64_t now_ns,
                 const std::function<Liveness(Token)>& judge, std::vector<std::string>& keys, Alone alone) {
  Walk found;
  walk(table, own, alone, found);
  if (found.outcome != Cycle::deadlock) return found.outcome;
  const std::span<const Wait> waits(found.waits.data(), found.length);
  if (!is_proved(table, waits, judge) || !is_victim(waits, now_ns)) return Cycle::there;
  keys.clear();
  for (const Wait& wait : waits) keys.emplace_back(wait.kept_key());
  return Cycle::deadlock;
}

void TrackedWait::begin(Token self, std::uint32_t task, std::string_view key, Alone alone) noexcept {
  if (wait_.token == self) return;
  keys_.clear();
  in_cycle_ = is_victim_ = is_written_ = false;
  retry_ns_ = 0;
  record_ = nullptr;
  wait_.blocker = {};
  wait_.task = task;
  alone_ = alone;
  wait_.set_key(key);
  // Fence: a check with a later time sees what this task has done before (deadlock.h).
  std::atomic_thread_fence(std::memory_order_seq_cst);
  wait_.since = platform::monotonic_ns();
  wait_.token = self;
}

void TrackedWait::end() noexcept {
  if (record_ != nullptr && WaitTable::is_owner(*record_, wait_.token)) WaitTable::release(*record_);
  record_ = nullptr;
  wait_.token = kNobody;
}

// Returns whether the wait has a record. Takes a record if the wait has none and one is free. REQUIRES: the wait
// continues.
bool TrackedWait::has_record(WaitTable& table, const Judge& judge) {
  if (record_ != nullptr && WaitTable::is_owner(*record_, wait_.token)) return true;
  record_ = nullptr;
  is_written_ = false;
  const std::uint64_t now = platform::coarse_monotonic_ns();
  if (now < retry_ns_) return false;
  record_ = table.take(wait_.token, wait_.task, judge);
  if (record_ == nullptr) retry_ns_ = now + kRecordRetryNs;
  return record_ != nullptr;
}

Cycle TrackedWait::search(WaitTable& table, const Judge& judge, const LookAtBlocker& blocker) {
  wait_.seen = platform::monotonic_ns();
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const Blocker before = wait_.blocker;
  wait_.blocker = blocker();
  WaitTable::write(*record_, wait_);
  // Make the other waiters check again, because this wait may have closed a cycle.
  if (!is_written_ || !is_same_grant(before, wait_.blocker)) table.count_change();
  is_written_ = true;
  std::vector<std::string> keys;
  const Cycle cycle = find_cycle(table, wait_, wait_.seen, judge, keys, alone_);
  if (cycle == Cycle::deadlock) keys_ = std::move(keys);
  return cycle;
}

bool TrackedWait::look(WaitTable& table, const Judge& judge, const LookAtBlocker& blocker) {
  if (!going_on()) return false;
  if (!has_record(table, judge)) return false;
  const std::uint64_t changes = table.changes();
  if (is_written_ && changes == changes_ && !in_cycle_ && (wait_.blocker.known() || !blocker().known())) return false;
  changes_ = changes;
  const Cycle cycle = search(table, judge, blocker);
  in_cycle_ = cycle != Cycle::none;
  is_victim_ = cycle == Cycle::deadlock;
  return is_victim_;
}

bool TrackedWait::settle(WaitTable& table, const Judge& judge, const LookAtBlocker& blocker) {
  if (!is_victim_ || !going_on()) return false;
  is_victim_ = false;
  return has_record(table, judge) && search(table, judge, blocker) == Cycle::deadlock;
}

}  // namespace holdfast
