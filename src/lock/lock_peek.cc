// Reads the holders and waiters of a key without the mutex.
#include <algorithm>
#include <atomic>

#include "dict/expiry.h"
#include "dict/holder_list.h"
#include "dict/key.h"
#include "dict/segment.h"
#include "dict/shard.h"
#include "dict/statistics_layout.h"
#include "lock/lock_entry.h"
#include "lock/lock_info.h"
#include "platform/platform.h"
#include "world/world.h"

namespace holdfast {

namespace {

/// The number of tries before a pause, and the number of pauses before the result is timeout. Reading a lock takes a
/// fraction of a microsecond, so it fits between two changes by other processes; reading ten thousand holders may not.
/// The benchmark of kTries is "lock + unlock of a worker, while top and serve do" (bench-look). No benchmark reaches a
/// pause.
constexpr int kTries = 64;
constexpr int kPauses = 20;
constexpr std::uint64_t kPauseNs = 1'000'000;

enum class Seen { whole, torn, damaged };

bool is_rwlock(const EntryView& permits) noexcept {
  return permits.entry->flags.load(kRelaxed) == static_cast<std::uint32_t>(PermitsKind::rwlock);
}

class Peek {
 public:
  Peek(Segment& segment, Shard& shard, const Key& key, std::span<HolderInfo> holders, std::span<WaiterInfo> waiters)
      : segment_(segment), shard_(shard), key_(key), holders_(holders), waiters_(waiters) {}

  Seen run(HolderCount& count) noexcept {
    count_ = {};
    const std::uint64_t start = shard_.epoch();
    const bool sense = read_key();
    // A half-finished change may look like damage, but then a process has the mutex. Acquire: if the mutex is free,
    // everything that was done with it is visible, including the epoch.
    const bool settled = sense || shard_.header().mutex.word.load(kAcquire) == 0;
    if (!settled || !shard_.unchanged_since(start)) return Seen::torn;
    count = count_;
    return sense ? Seen::whole : Seen::damaged;
  }

 private:
  bool find(EntryView& view, bool& found) const noexcept;
  bool read_key() noexcept;
  bool read_lock(const EntryView& view) noexcept;
  bool copy_grant(const EntryView& view, SeenGrant& seen, HolderInfo& holder, bool& sense) const noexcept;
  bool copy_reason(std::uint32_t block, std::uint32_t hash, HolderInfo& holder) const noexcept;
  bool read_permits(const EntryView& view) noexcept;
  void add_holder(const EntryView& record, std::uint64_t end, HeldKind kind) noexcept;
  void read_queue(const QueueFields& queue, EntryType type, HeldKind held) noexcept;
  bool is_holder_of(std::uint32_t block, std::uint32_t hash, EntryView& view) const noexcept {
    return shard_.inspect(block, view) && is_holder(view, hash) && view.value_size >= sizeof(HolderFields);
  }

  Segment& segment_;
  Shard& shard_;
  const Key& key_;
  const std::span<HolderInfo> holders_;
  const std::span<WaiterInfo> waiters_;
  HolderCount count_;
};

// Finds the entry. Returns false on apparent damage, which is real only if the epoch has not changed. The same is true
// of the functions below.
bool Peek::find(EntryView& view, bool& found) const noexcept {
  const std::uint32_t hash = key_.short_hash();
  std::uint32_t walked = 0;
  // Acquire: pairs with commit(), so the entry behind a link is complete.
  for (std::uint32_t block = shard_.bucket_of(hash).load(kAcquire); block != 0;
       block = view.entry->next.load(kAcquire)) {
    if (walked >= shard_.granules() || !shard_.inspect_in(hash, block, view)) return false;
    walked += view.granules;
    found = view.entry->hash.load(kRelaxed) == hash && view.key_length == key_.length && key_equals(*view.entry, key_);
    if (found) return true;
  }
  return true;
}

bool Peek::read_key() noexcept {
  EntryView view{};
  bool found = false;
  if (!find(view, found)) return false;
  if (!found || !is_holdable(view.type)) return true;
  const bool is_lock = view.type == EntryType::lock;
  const HeldKind held = is_lock ? HeldKind::lock : is_rwlock(view) ? HeldKind::rwlock : HeldKind::semaphore;
  if (!(is_lock ? read_lock(view) : read_permits(view))) return false;
  read_queue(view.queue(), EntryType::waiter, held);
  if (is_lock) read_queue(view.lock().watchers, EntryType::watcher, held);
  return true;
}

bool Peek::read_lock(const EntryView& view) noexcept {
  SeenGrant seen{};
  HolderInfo holder;
  bool sense = true;
  bool whole = false;
  for (int i = 0; i < kTries && !whole; ++i) whole = copy_grant(view, seen, holder, sense);
  if (seen.word.is_free()) return sense;
  if (!whole || !seen.complete) {
    // The owner of the word is about to complete its grant, and the lease must not be used before then.
    holder = {};
    holder.lease.owner = segment_.world().token_of(seen.word.owner());
    holder.since_ns = platform::monotonic_ns();
  } else if (!is_live(seen.expiry, segment_.flush_epoch())) {
    return sense;
  }
  if (const Gate* const gate = segment_.gate(); gate != nullptr) {
    const GateFields* const fields = gate_fields_of(segment_, view.value_size, view.lock());
    if (fields == nullptr || !gate->is_seen_to_count(segment_, *fields, holder.revision)) return sense;
  }
  count_.holders = 1;
  if (!holders_.empty()) holders_.front() = holder;
  return sense;
}

// Returns whether everything that was read belongs to one grant. The acquire fence is as in read_grant().
bool Peek::copy_grant(const EntryView& view, SeenGrant& seen, HolderInfo& holder, bool& sense) const noexcept {
  const LockFields& lock = view.lock();
  if (!read_grant(*view.entry, lock, seen)) return false;
  holder = {};
  holder.lease = {seen.owner, seen.sequence};
  holder.since_ns = Since{lock.since.load(kRelaxed)}.ns();
  holder.end_ms = expiry_ms(seen.expiry);
  sense = copy_reason(lock.reason.load(kAcquire), view.entry->hash.load(kRelaxed), holder);
  std::atomic_thread_fence(kAcquire);
  return load_word_of(lock).unowned() == seen.word.unowned();
}

bool Peek::copy_reason(std::uint32_t block, std::uint32_t hash, HolderInfo& holder) const noexcept {
  if (block == 0) return true;
  EntryView view{};
  if (!is_holder_of(block, hash, view)) return false;
  const HolderFields& fields = holder_of(view);
  if (fields.sequence.load(kRelaxed) != holder.lease.sequence)
    return true;  // the reason of an earlier grant, which is about to be removed
  load_bytes(reinterpret_cast<const Word64*>(&fields + 1), holder.reason.data(),
             view.value_size - sizeof(HolderFields));
  return true;
}

// Reads the holders of permits. The chain begins with the youngest grant. If not all fit, keeps the oldest grants.
bool Peek::read_permits(const EntryView& view) noexcept {
  const std::uint32_t hash = view.entry->hash.load(kRelaxed);
  const std::uint32_t flush = segment_.flush_epoch();
  const std::uint64_t entry_end = view.entry->expiry.load(kRelaxed);
  const HeldKind kind = is_rwlock(view) ? HeldKind::rwlock : HeldKind::semaphore;
  std::uint32_t steps = 0;
  EntryView record{};
  for (std::uint32_t block = view.permits().holders.load(kAcquire); block != 0;
       block = record.entry->next.load(kAcquire)) {
    if (steps++ == shard_.granules() || !is_holder_of(block, hash, record)) return false;
    const std::uint64_t end = earlier(entry_end, record.entry->expiry.load(kRelaxed));
    if (is_live(end, flush)) add_holder(record, end, kind);
  }
  return true;
}

void Peek::add_holder(const EntryView& record, std::uint64_t end, HeldKind kind) noexcept {
  const std::uint32_t index = count_.holders++;
  if (holders_.empty()) return;
  const HolderFields& fields = holder_of(record);
  HolderInfo& holder = holders_[index % holders_.size()];
  holder = {};
  holder.lease = {fields.owner.load(kRelaxed), fields.sequence.load(kRelaxed)};
  holder.kind = kind;
  holder.since_ns = Since{fields.since.load(kRelaxed)}.ns();
  holder.end_ms = expiry_ms(end);
  holder.permits = fields.count.load(kRelaxed);
  load_bytes(reinterpret_cast<const Word64*>(&fields + 1), holder.reason.data(),
             record.value_size - sizeof(HolderFields));
}

// Reads the waiters of a queue. A block that is not a waiter ends the walk: either the queue was changed in the
// meantime, or a process died while it changed the queue. `held` is the kind of the entry. A reader that waits to
// become the writer wants all permits, of which it already has one.
void Peek::read_queue(const QueueFields& queue, EntryType type, HeldKind held) noexcept {
  std::uint32_t steps = 0;
  EntryView view{};
  for (std::uint32_t block = queue.head.load(kAcquire); block != 0 && steps++ < shard_.granules();
       block = view.entry->next.load(kAcquire)) {
    if (!shard_.inspect(block, view) || view.type != type || view.key_length != 0) return;
    const std::uint32_t index = count_.waiters++;
    if (index >= waiters_.size()) continue;
    const auto& fields = *reinterpret_cast<const WaiterFields*>(view.entry + 1);
    const bool watches = type == EntryType::watcher;
    const std::uint32_t want = want_of(view, held);
    waiters_[index] = {fields.owner.load(kRelaxed), fields.arrival.load(kRelaxed),
                       watches                                          ? 0
                       : held == HeldKind::rwlock && want == kAllButOwn ? kAllPermits
                                                                        : want,
                       watches};
  }
}

Code peek_until_whole(Peek& peek, Shard& shard, HolderCount& count) noexcept {
  for (int pauses = 0;; ++pauses) {
    for (int i = 0; i < kTries; ++i) {
      shard.catch_up();  // a waiter may be in memory that another process has added to the arena
      const Seen seen = peek.run(count);
      if (seen == Seen::whole) return Code::ok;
      // Apparent damage may be a block in memory that was added to the arena during this walk.
      if (seen == Seen::damaged && !shard.catch_up()) return Code::corrupt;
      platform::cpu_relax();
    }
    if (pauses == kPauses) return Code::timeout;
    platform::sleep_until(platform::monotonic_ns() + kPauseNs);
  }
}

}  // namespace

Code peek_holders(Dictionary& dictionary, std::string_view key, std::span<HolderInfo> holders,
                  std::span<WaiterInfo> waiters, HolderCount& count) noexcept {
  count = {};
  const EpochGuard inside;
  Segment* const segment = dictionary.segment(inside);
  if (segment == nullptr) return Code::removed;
  const Key hashed(key, segment->seed());
  Shard& shard = segment->shard_of(hashed.hash);
  if (!shard.open_if_used()) return Code::ok;
  Peek peek(*segment, shard, hashed, holders, waiters);
  if (const Code code = peek_until_whole(peek, shard, count); code != Code::ok) return code;
  put_in_order(holders, count.holders);
  for (HolderInfo& holder : holders.first(std::min<std::size_t>(count.holders, holders.size()))) {
    holder.liveness = Liveness::unknown;
    describe_process(dictionary.world(), holder);
  }
  return Code::ok;
}

}  // namespace holdfast
