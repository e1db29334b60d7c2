#include "sync/epoch.h"

#include <pthread.h>

#include <limits>
#include <type_traits>
#include <utility>

#include "base/failpoint.h"
#include "platform/chunk.h"
#include "platform/platform.h"

namespace holdfast {

namespace epoch_internal {

constinit thread_local Record* record{nullptr};
static_assert(std::is_trivially_destructible_v<decltype(record)>);
constinit std::atomic<std::uint64_t> now{1};

}  // namespace epoch_internal

namespace {

using epoch_internal::now;
using epoch_internal::Record;

/// The records of threads. They are never freed: a thread that ends leaves its record to a later thread.
using Records = platform::Chunk<Record, 63>;
static_assert(sizeof(Records) == 4096);
constinit Records first_records{};
constinit std::atomic<std::uint32_t> records_given{0};
/// The position at which the next search for the record of an ended thread starts.
constinit std::atomic<std::uint32_t> scan_hand{0};
/// The common record of all threads that got no memory for a record of their own. They count as inside a guard until
/// the process ends.
constinit Record crowd{};
constinit std::atomic<bool> is_crowded{false};

constinit std::atomic<Retirable*> retired{nullptr};
/// The number of calls to collect() since the working call began, including the working call. 0: no call is working.
constinit std::atomic<std::uint32_t> requests{0};

/// Frees the objects that can be freed.
void collect() noexcept;

Record* record_at(std::uint32_t index) noexcept {
  Records* chunk = &first_records;
  for (; chunk != nullptr && index >= chunk->items.size(); index -= chunk->items.size()) chunk = chunk->after();
  return chunk != nullptr ? &chunk->items[index] : nullptr;
}

/// Calls `visit(Record&)` for each record.
template <class Visit>
void each_record(Visit&& visit) noexcept {
  for (Records* chunk = &first_records; chunk != nullptr; chunk = chunk->next.load(std::memory_order_acquire))
    for (Record& one : chunk->items) visit(one);
}

bool take_over(Record& record, std::uint64_t self) noexcept {
  std::uint64_t owner = record.thread.load(std::memory_order_relaxed);
  if (owner != 0 && !platform::has_thread_ended(owner)) return false;
  if (!record.thread.compare_exchange_strong(owner, self, std::memory_order_relaxed)) return false;
  // The record's last owner may have ended inside a guard. A guard of this thread begins later.
  record.seen.store(now.load(std::memory_order_acquire), std::memory_order_release);
  if (record.depth.exchange(0, std::memory_order_relaxed) != 0) collect();
  return true;
}

// Takes the record of a thread that has ended, or a new record. At least one in eight probes finds such a thread,
// unless more than seven of eight records are in use. So there are never many more records than threads. No benchmark
// covers this function, because only new threads call it.
Record* record_for(std::uint64_t self) noexcept {
  constexpr std::uint32_t kLooks = 8;
  const std::uint32_t given = records_given.load(std::memory_order_relaxed);
  for (std::uint32_t i = 0; i < kLooks && i < given; ++i) {
    Record* const one = record_at(scan_hand.fetch_add(1, std::memory_order_relaxed) % given);
    if (one != nullptr && take_over(*one, self)) return one;
  }
  Record* const fresh = record_at(records_given.fetch_add(1, std::memory_order_relaxed));
  return fresh != nullptr && take_over(*fresh, self) ? fresh : nullptr;
}

/// Returns the lowest epoch that a thread with a guard has seen. For every other thread, records that it has seen
/// `epoch`. REQUIRES: all threads have passed a barrier since `epoch` began.
std::uint64_t oldest_inside(std::uint64_t epoch) noexcept {
  std::uint64_t oldest = std::numeric_limits<std::uint64_t>::max();
  each_record([&](Record& one) {
    // Acquire: pairs with the release of a guard that ends.
    const std::uint64_t depth = one.depth.load(std::memory_order_acquire);
    // Acquire: pairs with the release below, in another thread, and in note_epoch().
    std::uint64_t seen = one.seen.load(std::memory_order_acquire);
    if (depth == 0) {
      if (seen < epoch)
        one.seen.compare_exchange_strong(seen, epoch, std::memory_order_release, std::memory_order_relaxed);
    } else if (seen < oldest && !platform::has_thread_ended(one.thread.load(std::memory_order_relaxed))) {
      oldest = seen;
    }
  });
  return is_crowded.load(std::memory_order_relaxed) ? 0 : oldest;
}

// In the child, only the forking thread exists. The handler resets the thread's `seen`, so that when its outermost
// guard ends, the thread frees the objects that waited for other threads of the parent. The thread keeps its record,
// because a signal handler may have forked while the thread began a guard.
[[maybe_unused]] const int kRecordsForkHandler = ::pthread_atfork(nullptr, nullptr, [] {
  Record* const own = epoch_internal::record;
  if (own != nullptr) own->seen.store(0, std::memory_order_relaxed);
  each_record([own](Record& one) {
    const bool mine = &one == own;
    if (!mine) one.depth.store(0, std::memory_order_relaxed);
    one.thread.store(mine ? platform::this_thread() : 0, std::memory_order_relaxed);
  });
  requests.store(0, std::memory_order_relaxed);
});

}  // namespace

struct EpochReclamation {
  static void push(Retirable* what) noexcept {
    what->next_ = retired.load(std::memory_order_relaxed);
    // Release: pairs with the acquire in collect_once().
    while (!retired.compare_exchange_weak(what->next_, what, std::memory_order_release, std::memory_order_relaxed))
      continue;
  }

  static void retire(std::shared_ptr<Retirable> what) noexcept {
    Retirable* const raw = what.get();
    raw->self_ = std::move(what);
    // Release: a guard that sees the new epoch no longer finds the object. This must be a single atomic operation: see
    // point 2 in the header.
    raw->epoch_ = now.fetch_add(1, std::memory_order_acq_rel);
    HOLDFAST_FAILPOINT("epoch.raised");
    push(raw);
  }

  static void collect_once() noexcept {
    Retirable* list = retired.exchange(nullptr, std::memory_order_acquire);
    if (list == nullptr) return;
    // This epoch is later than the epoch of every object on the list.
    const std::uint64_t epoch = now.load(std::memory_order_acquire);
    const std::uint64_t oldest = platform::pass_barrier_in_all_threads() ? oldest_inside(epoch) : 0;
    while (list != nullptr) {
      Retirable* const one = std::exchange(list, list->next_);
      if (one->epoch_ < oldest)
        const std::shared_ptr<Retirable> last = std::move(one->self_);
      else
        push(one);
    }
  }
};

namespace {

// Frees the objects that can be freed. The first caller also works for all callers that arrive in the meantime. So no
// caller waits; in particular, a signal handler does not wait for the thread that it has interrupted. No child may be
// forked in the meantime, because it would lose the objects on the list.
void collect() noexcept {
  const platform::ForkGuard no_fork;
  if (requests.fetch_add(1, std::memory_order_acq_rel) != 0) return;
  for (std::uint32_t seen = 1;;) {
    EpochReclamation::collect_once();
    if (requests.compare_exchange_strong(seen, 0, std::memory_order_acq_rel)) return;
  }
}

}  // namespace

namespace epoch_internal {

[[gnu::cold]] Record* find_record() noexcept {
  Record* const found = record_for(platform::this_thread());
  if (found == nullptr) is_crowded.store(true, std::memory_order_relaxed);
  record = found != nullptr ? found : &crowd;
  // Relaxed is enough, because the list matters here only in a forked child, where this thread is the only thread.
  if (retired.load(std::memory_order_relaxed) != nullptr) collect();
  return record;
}

[[gnu::cold]] void note_epoch(Record& mine) noexcept {
  if (mine.depth.load(std::memory_order_relaxed) != 0) return;
  // Acquire: pairs with the release in retire(). Release: pairs with the acquire of the scan.
  mine.seen.store(now.load(std::memory_order_acquire), std::memory_order_release);
  collect();
}

}  // namespace epoch_internal

void retire(std::shared_ptr<Retirable> what) noexcept { EpochReclamation::retire(std::move(what)); }

}  // namespace holdfast
