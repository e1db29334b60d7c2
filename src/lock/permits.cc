#include "lock/permits.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

#include "dict/expiry.h"
#include "dict/probes.h"
#include "lock/lock.h"
#include "lock/permits_entry.h"
#include "platform/platform.h"
#include "world/world.h"

namespace holdfast {

namespace {

/// The maximum number of waiters that an attempt overtakes at the same time. There is a limit because the attempt must
/// check each of these waiters. No benchmark covers these two constants, because none waits for permits.
constexpr std::uint32_t kOvertakenAtOnce = 16;
/// The maximum number of holder records that a check without the mutex reads.
constexpr std::uint32_t kRecordsSeen = 4;
/// If there are many holders, and a check of all of them is not due, a refused attempt asks the kernel about this many
/// holders. The benchmark is "Many holders of one key", row "refused try".
constexpr std::uint32_t kSomeHolders = 4;

// --- what a waiter checks ---

// Returns whether one of the first holder records is no longer valid, so that an attempt would find more permits than
// there seem to be.
bool may_purge(const Watch& watch, const PermitFields& fields, LivenessCache& liveness) noexcept {
  const std::uint32_t flush = watch.segment->flush_epoch();
  std::uint32_t block = fields.holders.load(kAcquire);
  for (std::uint32_t i = 0; i < kRecordsSeen && block != 0; ++i) {
    EntryView view{};
    if (!watch.shard->inspect(block, view) || view.type != EntryType::holder) return true;
    if (!is_live(view.entry->expiry.load(kRelaxed), flush) || !liveness(view.holder().owner.load(kRelaxed)))
      return true;
    block = view.entry->next.load(kAcquire);
  }
  return false;
}

// Checks the permits for a waiter. Usually, only the first waiter in the queue must learn that it may continue, because
// it wakes the next waiter. But if the first waiter is late or dead, or a holder record is no longer valid, the waiters
// behind it must also try.
WatchState peek_permits(const Watch& watch, LivenessCache& liveness, const WaiterId& waiter) noexcept {
  const auto& fields = *static_cast<const PermitFields*>(watch.fields);
  if (!watch.is_same_entry() || watch.segment->retired() ||
      !is_live(watch.entry->expiry.load(kRelaxed), watch.segment->flush_epoch()))
    return WatchState::open;
  const auto kind = static_cast<PermitsKind>(watch.entry->flags.load(kRelaxed));
  const Glimpse first = glimpse_first(*watch.shard, fields.queue, held_kind(kind));
  if (first.owner == kNobody || first.late) return WatchState::open;
  const bool ours = first.owner == waiter.self;
  if (ours && first.number != waiter.number) return WatchState::held;
  if (!ours) return liveness(first.owner) && !may_purge(watch, fields, liveness) ? WatchState::held : WatchState::open;
  const bool enough = are_enough(fields, first.want);
  return enough || may_purge(watch, fields, liveness) ? WatchState::open : WatchState::held;
}

/// A holder record, and the link to it, as seen without the mutex. The owner and the fencing token of a record are
/// constant, and the number is never reused. So if the link and the fencing token are the same before and after a read,
/// everything in between was read from that record, and the link led to it.
class SeenRecord {
 public:
  SeenRecord(const Watch& watch, const Word32& link) noexcept : link_(link), block_(link.load(kAcquire)) {
    if (!watch.shard->inspect(block_, view_) || view_.type != EntryType::holder) return;
    sequence_ = view_.holder().sequence.load(kAcquire);
  }
  /// Returns the fencing token, or 0 if there is no record.
  std::uint64_t sequence() const noexcept { return sequence_; }
  bool is_same() const noexcept {
    return link_.load(kAcquire) == block_ && view_.holder().sequence.load(kAcquire) == sequence_;
  }
  const Entry& entry() const noexcept { return *view_.entry; }
  const HolderFields& fields() const noexcept { return view_.holder(); }

 private:
  const Word32& link_;
  const std::uint32_t block_;
  EntryView view_{};
  std::uint64_t sequence_ = 0;
};

// Returns the blocker: the only holder of an rwlock besides the waiter, if this holder leaves too few permits. Permits
// of a semaphore may be given back by a task other than the one that took them, so a semaphore has no blocker.
Blocker blocker_of_permits(const Watch& watch) noexcept {
  const auto& fields = *static_cast<const PermitFields*>(watch.fields);
  if (watch.entry->flags.load(kAcquire) != static_cast<std::uint32_t>(PermitsKind::rwlock)) return {};
  const SeenRecord first(watch, fields.holders);
  if (first.sequence() == 0) return {};
  const bool upgrades = watch.grant != 0;
  const bool own_is_first = upgrades && first.sequence() == watch.grant;
  const SeenRecord second(watch, first.entry().next);
  const SeenRecord& seen = own_is_first ? second : first;
  if (seen.sequence() == 0) return {};
  const HolderFields& holder = seen.fields();
  const Token owner = holder.owner.load(kAcquire);
  const std::uint32_t task = holder.task.load(kAcquire);
  const bool alone =
      upgrades && !own_is_first ? second.sequence() == watch.grant : seen.entry().next.load(kAcquire) == 0;
  const bool enough =
      !upgrades && std::uint64_t{holder.count.load(kAcquire)} + watch.want <= fields.total.load(kAcquire);
  const std::uint64_t end = earlier(watch.entry->expiry.load(kAcquire), seen.entry().expiry.load(kAcquire));
  const bool same = seen.is_same() && first.is_same() && watch.is_same_entry();
  if (!same || !alone || enough || !is_live(end, watch.segment->flush_epoch()) || watch.segment->retired()) return {};
  return {owner, task, seen.sequence(), expiry_ms(end)};
}

// Reads only the first records, as may_purge() does.
std::uint64_t end_of_permits(const Watch& watch) noexcept {
  const auto& fields = *static_cast<const PermitFields*>(watch.fields);
  std::uint64_t end = kNever;
  std::uint32_t block = fields.holders.load(kAcquire);
  for (std::uint32_t i = 0; i < kRecordsSeen && block != 0; ++i) {
    EntryView view{};
    if (!watch.shard->inspect(block, view) || view.type != EntryType::holder) break;
    const std::uint64_t record_end = expiry_ms(view.entry->expiry.load(kRelaxed));
    if (record_end != kExpiryNever) end = std::min(end, record_end);
    block = view.entry->next.load(kAcquire);
  }
  return end;
}

// Only attempts find expired or dead holders behind the first records.
constexpr WatchKind kPermitsWatch{&peek_permits, &blocker_of_permits, &end_of_permits, false, true};

// --- an attempt ---

/// One attempt to take permits while the shard's mutex is held.
class PermitsAttempt {
 public:
  PermitsAttempt(Transaction& change, const Contender& contender, const TokenSet& dead, BlockedBy& blocked_by,
                 CheckState& long_check) noexcept
      : change_(change),
        contender_(contender),
        dead_(dead),
        blocked_by_(blocked_by),
        long_check_(long_check),
        flush_(change.flush_epoch()),
        want_(contender.request.want) {}

  Code try_acquire(Lease& lease, Chosen& chosen) noexcept {
    // Make room for everything at once, because nothing may be moved once the holder record is filled. Then check
    // again, because an existing entry may have ended in the meantime.
    bool exists = false;
    std::uint32_t block = 0;
    for (int tries = 0;; ++tries) {
      exists = is_ours();
      const Code code = exists ? admit_or_queue(chosen) : clear_way(chosen);
      if (change_.arena().damaged()) return Code::corrupt;
      if (code != Code::ok) return code;
      const std::uint32_t need = HolderList::granules(0) + (exists ? 0 : granules_of_entry());
      if (exists || change_.arena().can_allocate(need)) block = change_.arena().allocate(HolderList::granules(0));
      if (change_.arena().damaged()) return Code::corrupt;
      if (block != 0) break;
      if (tries == 2) return Code::no_memory;
      const Code room = change_.make_room(need, Evict::yes);
      if (room == Code::no_memory && !change_.arena().shortage().can_grow() && is_ours()) chosen = stand_back();
      if (room != Code::ok) return room;
    }
    return admit(exists, block, lease, chosen);
  }

  /// Returns ok if the request may replace permits of another kind.
  Code clear(Chosen& chosen) noexcept {
    want_ = kAllPermits;
    return admit_or_queue(chosen);
  }

  /// Turns the reader that has the lease into the writer. Sets `rival` to the owner of another reader that waits to
  /// become the writer.
  Code try_upgrade(const Lease& lease, Chosen& chosen, Token& rival) noexcept {
    rival = kNobody;
    if (lease.owner != contender_.self && !contender_.request.any_owner) return Code::not_owner;
    if (!is_ours()) return has_another_kind(lease) ? Code::unsupported : Code::not_owner;
    const PermitsEntry permits = entry();
    note_delay(permits);
    std::uint64_t end_ms = kExpiryNever;
    Code code = permits.upgrade(lease, end_ms);
    if (code == Code::locked) {
      next_end_ = kExpiryNever;
      checked_ = false;
      check_holders_of(permits, false);
      code = permits.upgrade(lease, end_ms);  // the check may have removed all other holders
    }
    if (change_.arena().damaged()) return Code::corrupt;
    if (code != Code::locked) {
      chosen = stand_back();
      if (code == Code::ok) change_.touch();
      return code;
    }
    return wait_for_readers(permits, lease, end_ms, chosen, rival);
  }

 private:
  PermitsEntry entry() const noexcept { return PermitsEntry(change_); }
  std::uint32_t granules_of_entry() const noexcept {
    return static_cast<std::uint32_t>(granules_for(change_.key().length, sizeof(PermitFields)));
  }
  std::uint32_t kind() const noexcept { return static_cast<std::uint32_t>(permits_kind(contender_.request.kind)); }
  bool is_ours() const noexcept {
    return contender_.request.kind != HeldKind::lock && change_.is(EntryType::permits) &&
           change_.view().entry->flags.load(kRelaxed) == kind();
  }

  // Clears a key that does not have permits of this kind. Returns ok if permits may replace its entry. Otherwise,
  // queues the waiter, unless a value is in the way.
  Code clear_way(Chosen& chosen) noexcept {
    if (change_.is(EntryType::permits)) return clear(chosen);
    if (change_.is(EntryType::lock)) {
      const LockEntry lock = LockEntry::of(change_);
      return clear_lock(lock, change_.world(), contender_, dead_, blocked_by_, chosen);
    }
    if (!change_.exists()) return Code::ok;
    blocked_by_.place = 0;
    blocked_by_.watch = {};
    blocked_by_.end_ms = expiry_ms(change_.view().entry->expiry.load(kRelaxed));
    return Code::locked;
  }

  // Returns whether the lease holds something other than permits of this kind.
  bool has_another_kind(const Lease& lease) noexcept {
    if (!change_.is(EntryType::lock)) return change_.is(EntryType::permits) && entry().has(lease);
    const LockEntry lock = LockEntry::of(change_);
    return lock.held_by(lease) && lock.live(flush_);
  }

  // Queues the reader before all waiters. If another reader is already first, neither of the two can become the writer
  // as long as both wait.
  Code wait_for_readers(const PermitsEntry& permits, const Lease& lease, std::uint64_t end_ms, Chosen& chosen,
                        Token& rival) noexcept {
    const Head first = first_of(permits);
    if (first.block != 0 && first.waiter.upgrades && !is_own(first)) {
      rival = first.waiter.owner;
      blocked_by_.holders.clear();  // to make room for the rival
      blocked_by_.holders.add(rival);
      chosen = stand_back();
      return Code::locked;
    }
    refuse(permits, first);
    blocked_by_.watch.grant = lease.sequence;
    if (ends_earlier(end_ms, blocked_by_.end_ms)) blocked_by_.end_ms = end_ms;
    if (change_.arena().damaged()) return Code::corrupt;
    // Without a position, the waiter could neither keep other readers out nor detect a deadlock.
    return contender_.waiter != nullptr && blocked_by_.place == 0 ? Code::no_memory : Code::locked;
  }

  bool is_own(const Head& head) const noexcept {
    return contender_.waiter != nullptr && head.waiter.owner == contender_.self &&
           head.waiter.number == contender_.waiter->number;
  }

  void note_delay(const PermitsEntry& permits) noexcept {
    if (contender_.waiter != nullptr && blocked_by_.delay_ns == 0)
      blocked_by_.delay_ns = permits.queue().delay_of(*contender_.waiter);
  }

  // Checks whether the permits are available now, and queues the waiter if they are not.
  Code admit_or_queue(Chosen& chosen) noexcept {
    const PermitsEntry permits = entry();
    note_delay(permits);
    if (is_ours()) {
      want_ = contender_.request.want;
      permits.fields.total.store(contender_.request.total, kRelaxed);
    }
    Head first = first_of(permits);
    next_end_ = kExpiryNever;
    checked_ = false;
    check(permits, first);
    overtakes_ = false;
    if (permits.has(want_) && may_go(permits, first)) return Code::ok;
    refuse(permits, first);
    if (change_.arena().damaged()) return Code::corrupt;
    chosen = permits.offer(change_.world());
    return Code::locked;
  }

  // Checks the holders if there are, or seem to be, too few permits.
  void check(const PermitsEntry& permits, const Head& first) noexcept {
    const bool understated = permits.is_understated();
    if (understated) change_.world().fencing().count_corruption_repaired();
    const bool all = understated || !is_live(permits.entry.expiry.load(kRelaxed), flush_);
    if (all || !permits.has(want_) || (first.block != 0 && !permits.has(first.waiter.want)))
      check_holders_of(permits, all);
  }

  // Checks all holders now if there are few, or if `all` is set. If there are many, only records that a check is due.
  void check_holders_of(const PermitsEntry& permits, bool all) noexcept {
    if (!all && !permits.has_few_holders()) {
      if (long_check_ != CheckState::done && permits.claim_check(!dead_.empty())) long_check_ = CheckState::due;
      next_end_ = permits.next_check_ms();
      return;
    }
    next_end_ = permits.purge(flush_, dead_, blocked_by_.holders);
    checked_ = true;
  }

  Head first_of(const PermitsEntry& permits) noexcept {
    if (!permits.has_waiters()) return {};
    const bool fair = contender_.request.fair;
    Head first = permits.turn_of(change_.world(), fair).first;
    while (first.block != 0 && dead_.has(first.waiter.owner)) {
      permits.queue().drop(first);
      first = permits.turn_of(change_.world(), fair).first;
    }
    return first;
  }

  // Returns whether this request may overtake the waiters before it. REQUIRES: there are enough permits.
  bool may_go(const PermitsEntry& permits, const Head& first) noexcept {
    if (!permits.has_waiters()) return true;
    const Waiter* const self = contender_.waiter;
    if (first.block != 0 && self != nullptr &&
        ((self->arrival < first.waiter.arrival && !first.waiter.upgrades) || is_own(first)))
      return true;
    if (first.block != 0 && !may_overtake(first, permits.fields.overtakes.load(kRelaxed), contender_.request.fair))
      return false;
    overtakes_ =
        permits.queue().every_before(self != nullptr ? self->arrival : ~std::uint64_t{0}, kOvertakenAtOnce,
                                     [&](const Waiter& waiter) { return !waiter.fair && permits.has(waiter.want); });
    return overtakes_;
  }

  // Inlined, because a call would force the whole object into memory, even for requests that are granted.
  [[gnu::always_inline]] void refuse(const PermitsEntry& permits, const Head& first) noexcept {
    if (!checked_) name_owners(permits);
    if (first.block != 0) blocked_by_.holders.add(first.waiter.owner);
    blocked_by_.end_ms = next_end_;
    if (first.block != 0 && permits.has(want_)) give_up_on(first);
    blocked_by_.place = 0;
    if (contender_.waiter != nullptr) {
      Waiter waiter = *contender_.waiter;
      waiter.rests = false;  // its checks do not find everything
      blocked_by_.place = permits.queue().add(waiter, permits.fields.overtakes.load(kRelaxed));
    }
    blocked_by_.watch = watch_entry(kPermitsWatch, permits, want_);
  }

  // Gives up for now. The permits are idle until the first waiter responds or its time is over. Then this waiter tries
  // again.
  void give_up_on(const Head& first) noexcept {
    const std::uint64_t claim_ns = holdfast::claim_ns(first.waiter);
    const std::uint64_t left_ns = claim_ns - std::min(claim_ns, first.woken_ns);
    const std::uint64_t late_ms = (platform::monotonic_ns() + left_ns) / kNsPerMs + 1;
    if (ends_earlier(late_ms, blocked_by_.end_ms)) blocked_by_.end_ms = late_ms;
  }

  void name_owners(const PermitsEntry& permits) noexcept {
    permits.collect_owners(blocked_by_.holders, permits.has_few_holders() ? kFewHolders : kSomeHolders);
  }

  // Removes the waiter from the queue, because it must not block others while there is no memory for its holder record.
  Chosen stand_back() noexcept {
    if (contender_.waiter == nullptr) return {};
    const PermitsEntry permits = entry();
    permits.queue().remove(*contender_.waiter);
    return permits.offer(change_.world());
  }

  /// Grants the permits. REQUIRES: `block` was allocated for the holder, and there is room for the entry if the key has
  /// none.
  Code admit(bool exists, std::uint32_t block, Lease& lease, Chosen& chosen) noexcept {
    const std::uint64_t now_ns = platform::monotonic_ns();
    const Request& request = contender_.request;
    const std::uint64_t end_ms = end_of_lease(request.exptime, now_ns);
    Holder holder;
    holder.owner = contender_.self;
    holder.sequence = next_numbers(change_.segment(), 0, 1).first;
    holder.since = contender_.waiter != nullptr
                       ? Statistics::since_wait(now_ns)
                       : change_.segment().statistics().since(Since::of(now_ns), holder.sequence);
    holder.expiry = expiry_word(end_ms, flush_);
    holder.count = contender_.request.want;
    holder.task = request.holder_task;
    HolderList::fill(change_.shard(), block, change_.key().short_hash(), holder);
    if (!exists) {
      const ValueIn value{EntryType::permits, kind(), std::uint64_t{block} << 32 | contender_.request.total, nullptr,
                          sizeof(PermitFields)};
      if (change_.put(value, end_ms, Evict::no) != Code::ok) return Code::corrupt;
    }
    const PermitsEntry permits = entry();
    if (exists)
      permits.add(block, holder);
    else
      permits.note_first(block, holder);
    lease = {holder.owner, holder.sequence};
    change_.touch();
    if (overtakes_) permits.fields.overtakes.store(permits.fields.overtakes.load(kRelaxed) + 1, kRelaxed);
    if (contender_.waiter != nullptr) permits.queue().remove(*contender_.waiter);
    chosen = permits.offer(change_.world());
    return Code::ok;
  }

  Transaction& change_;
  const Contender& contender_;
  const TokenSet& dead_;
  BlockedBy& blocked_by_;
  CheckState& long_check_;
  const std::uint32_t flush_;
  std::uint32_t want_;                     // how many permits must be free
  std::uint64_t next_end_ = kExpiryNever;  // when the next known holder ends (ms)
  bool checked_ = false;                   // whether all holders were checked, and their owners named
  bool overtakes_ = false;
};

// --- a check of many holders ---

/// The number of holders that are checked in one section of the mutex. Such a section takes some microseconds. No
/// benchmark covers these two constants, because in "Many holders of one key" hardly any try makes a check;
/// permits_many_test.cc has tries that do.
constexpr std::uint32_t kHoldersPerSection = 256;
/// One check in this many is made in a single section. It recounts the permits, which corrects counts that were
/// overwritten.
constexpr std::uint32_t kChecksPerRecount = 64;

void name_owners(const HolderCheck& check, TokenSet& owners) noexcept {
  static std::atomic<std::uint32_t> next{0};
  const std::uint32_t start = next.load(kRelaxed);
  for (std::uint32_t i = 0; i < kSlots; ++i) {
    owners.add(check.owners[(start + i) % kSlots]);
    if (!owners.full()) continue;
    next.store((start + i + 1) % kSlots, kRelaxed);
    return;
  }
}

Code check_part(Transaction& change, const TokenSet& dead, bool recount, HolderCheck& check, Chosen& chosen) noexcept {
  if (!change.is(EntryType::permits)) {
    check.next = 0;
    return Code::ok;
  }
  const PermitsEntry permits(change);
  if (recount) {
    TokenSet some;
    permits.purge(change.flush_epoch(), dead, some);
  }
  permits.check_some(check, change.flush_epoch(), dead, kHoldersPerSection);
  if (change.arena().damaged()) return Code::corrupt;
  if (check.next == 0 && check.removed) chosen = permits.offer(change.world());
  return Code::ok;
}

/// The number of permits of each owner.
struct Shares {
  TokenSet owners;
  std::array<std::uint64_t, TokenSet::kMax> counts{};  // in the order of the owners
  std::uint64_t others = 0;                            // permits of owners that do not fit into the set

  void add(Token owner, std::uint32_t count) noexcept {
    owners.add(owner);
    if (!owners.has(owner)) {
      others += count;
      return;
    }
    counts[static_cast<std::size_t>(std::find(owners.begin(), owners.end(), owner) - owners.begin())] += count;
  }
};

}  // namespace

Code clear_permits(Transaction& change, const Contender& contender, const TokenSet& dead, BlockedBy& blocked_by,
                   CheckState& long_check, Chosen& chosen) noexcept {
  const Code code = PermitsAttempt(change, contender, dead, blocked_by, long_check).clear(chosen);
  return change.arena().damaged() ? Code::corrupt : code;
}

bool check_holders(Dictionary& dictionary, std::string_view key, const TokenSet& dead, BlockedBy& blocked_by) noexcept {
  static std::atomic<std::uint32_t> checks{0};
  bool recount = checks.fetch_add(1, kRelaxed) % kChecksPerRecount == kChecksPerRecount - 1;
  HolderCheck check;
  Chosen chosen;
  Code code = Code::ok;
  // The fencing tokens descend, so the loop terminates.
  while (check.next != 0 && code == Code::ok) {
    code = dictionary.transact(
        key, [&](Transaction& change) { return check_part(change, dead, recount, check, chosen); }, kAttemptPatienceNs);
    check.removed = check.removed || recount;
    recount = false;
  }
  wake(dictionary.world(), chosen);
  name_owners(check, blocked_by.holders);
  blocked_by.end_ms = check.next_end != kNever ? check.next_end : kExpiryNever;
  return check.removed;
}

namespace {

/// Runs `attempt(PermitsAttempt&&, Chosen&) -> Code`. If it is refused and a check of many holders is due, makes the
/// check and runs the attempt again. `granted` is the lease that the attempt fills, if any. Inlined, because this is
/// the path of every request for permits.
template <class Attempt>
[[gnu::always_inline]] inline Code attempt_and_check(Dictionary& dictionary, std::string_view key,
                                                     const Contender& contender, const TokenSet& dead, Lease& granted,
                                                     BlockedBy& blocked_by, Attempt attempt) noexcept {
  if (dictionary.gate() != nullptr) [[unlikely]]
    return Code::unsupported;
  const EpochGuard inside;
  for (CheckState long_check = CheckState::none;;) {
    Chosen chosen;
    const Segment* segment = nullptr;
    const Code code = dictionary.transact(
        key,
        [&](Transaction& change) {
          segment = &change.segment();
          wake(dictionary.world(), std::exchange(chosen, {}));  // chosen in the first run, which did not find memory
          return attempt(PermitsAttempt(change, contender, dead, blocked_by, long_check), chosen);
        },
        kAttemptPatienceNs, granules_for(key.size(), sizeof(PermitFields)) + HolderList::granules(0));
    if (contender.waiter != nullptr) keep_watched(*contender.waiter, blocked_by);
    if (code == Code::ok && segment->was_removed_before_commit()) [[unlikely]] {
      granted = {};  // as in attempt_lock()
      continue;
    }
    wake(dictionary, key, chosen);
    if (code != Code::locked || long_check != CheckState::due) return code;
    if (!check_holders(dictionary, key, dead, blocked_by)) return code;
    long_check = CheckState::done;
  }
}

}  // namespace

Code attempt_permits(Dictionary& dictionary, std::string_view key, const Contender& contender, const TokenSet& dead,
                     Lease& lease, BlockedBy& blocked_by) noexcept {
  const Code code = attempt_and_check(
      dictionary, key, contender, dead, lease, blocked_by,
      [&lease](PermitsAttempt&& attempt, Chosen& chosen) { return attempt.try_acquire(lease, chosen); });
  if (code == Code::ok) trace_acquire(dictionary, key, lease);
  return code;
}

Code attempt_upgrade(Dictionary& dictionary, std::string_view key, const Contender& contender, const TokenSet& dead,
                     const Lease& lease, BlockedBy& blocked_by) noexcept {
  Token rival = kNobody;
  Lease none;
  const Code code = attempt_and_check(
      dictionary, key, contender, dead, none, blocked_by,
      [&lease, &rival](PermitsAttempt&& attempt, Chosen& chosen) { return attempt.try_upgrade(lease, chosen, rival); });
  if (code != Code::locked || rival == kNobody) return code;
  // If the rival is dead, the next attempt removes it from the queue.
  const bool waits = rival == contender.self || !dictionary.world().is_dead(rival);
  return waits ? Code::deadlock : Code::locked;
}

Code permits_keep(Dictionary& dictionary, std::string_view key, const Lease& lease, std::uint32_t count) noexcept {
  World& world = dictionary.world();
  const Token self = world.token();
  if (self == kNobody || lease.owner != self) return Code::not_owner;
  Chosen next;
  const Code code = dictionary.transact(key, [&](Transaction& change) {
    if (!change.is(EntryType::permits)) return Code::not_owner;
    const PermitsEntry permits(change);
    const Code kept = permits.keep(lease, count);
    if (kept == Code::ok) next = permits.offer(world);
    return kept;
  });
  wake(world, next);
  return code;
}

Code count_permits(Dictionary& dictionary, std::string_view key, PermitsCount& count) noexcept {
  count = {};
  if (dictionary.gate() != nullptr) return Code::unsupported;
  Shares shares;
  const Code code = dictionary.transact(key, [&](Transaction& change) {
    shares = {};
    if (!change.is(EntryType::permits)) return change.exists() ? Code::locked : Code::ok;
    const PermitsEntry permits(change);
    count.waiters = permits.queue().count();
    const std::uint64_t entry_end = permits.entry.expiry.load(kRelaxed);
    const std::uint32_t flush = change.flush_epoch();
    const HolderList holders = permits.holders();
    for (HolderList::Cursor at(holders); at.found(); at.advance())
      if (is_live(earlier(entry_end, at.expiry().load(kRelaxed)), flush))
        shares.add(at.fields().owner.load(kRelaxed), at.fields().count.load(kRelaxed));
    return change.arena().damaged() ? Code::corrupt : Code::ok;
  });
  World& world = dictionary.world();
  std::uint64_t used = shares.others;
  std::size_t i = 0;
  for (const Token owner : shares.owners) {
    const std::uint64_t share = shares.counts[i++];
    if (!world.is_dead(owner)) used += share;
  }
  count.used = static_cast<std::uint32_t>(std::min<std::uint64_t>(used, ~0U));
  return code;
}

}  // namespace holdfast
