#include "gate/cluster_lock.h"

#include <algorithm>
#include <array>

#include "dict/walk.h"
#include "lock/lock.h"
#include "lock/watchers.h"
#include "platform/platform.h"
#include "sync/mailbox.h"

namespace holdfast {

namespace {

/// The maximum number of waiters that are checked while the mutex is held, which takes about 20 µs. No benchmark has
/// this number of waiters, but standing_test.cc tests the limit.
constexpr std::uint32_t kMostChecked = 4096;

// Runs `operation(const LockEntry&) -> Code` on the lock. Returns not_found if the lock does not exist.
template <class Operation>
Code with_lock(Dictionary& dictionary, std::string_view key, std::uint64_t patience_ns,
               Operation&& operation) noexcept {
  return dictionary.transact(
      key,
      [&](Transaction& change) {
        if (!change.is(EntryType::lock)) return Code::not_found;
        const LockEntry lock = LockEntry::of(change);
        return lock.gate != nullptr ? operation(lock) : Code::not_found;
      },
      patience_ns, 0, Shard::Unopened::leave);
}

StandingFields& standing_of(const LockEntry& lock) noexcept { return standing_fields(*lock.gate); }

void stop_standing(const LockEntry& lock) noexcept { commit(standing_of(lock).standing, std::uint64_t{0}); }

}  // namespace

// --- for the agent ---

// Returns a base for fencing tokens that is at least `base`. Tokens never fall. If the store's revisions start again,
// for example because the store was restored, the lock's tokens continue above the last ones. When half of the tokens
// are used up, the agent asks for more. If the stored base is invalid, it was overwritten.
static std::uint64_t base_after(const StandingFields& fields, std::uint64_t base) noexcept {
  constexpr std::uint64_t kStep = std::uint64_t{1} << kGrantBits;
  const std::uint64_t last = fields.base.load(kRelaxed);
  if (last % kStep != 0 || last / kStep > kRevisionMax || base > last) return base;
  const bool goes_back = base < last && fields.grants.load(kRelaxed) > kGrantsMax / 2;
  return goes_back && last / kStep < kRevisionMax ? last + kStep : last;
}

// Returns true if no later agent has replaced this agent. Under the mutex, this function sees every later agent that
// has checked the lock.
static bool attends(const LockEntry& lock) noexcept {
  const Token agent = Session(lock.segment).agent();
  return agent == kNobody || agent == lock.segment.world().token();
}

// Writes the base and the count before the commit. If the epoch changes, nobody reads them before the commit. In the
// same epoch, the base only rises, and the count is reset after the base is written. So wherever a crash interrupts
// this function, no token is given out twice.
Code stand(Dictionary& dictionary, std::string_view key, std::uint16_t epoch, std::uint64_t revision,
           std::uint64_t patience_ns) noexcept {
  if (revision == 0 || revision > kRevisionMax) return Code::invalid;
  Chosen next;
  const std::uint64_t base = revision << kGrantBits;
  const Code code = dictionary.transact(
      key,
      [&](Transaction& change) {
        if (!LockEntry::is_whole(change)) {
          if (!change.is(EntryType::lock) && change.exists()) return Code::exists;
          if (const Code made = make_free_lock(change); made != Code::ok) return made;
        }
        const LockEntry lock = LockEntry::of(change);
        if (lock.gate == nullptr) return Code::not_owner;
        if (!attends(lock)) return Code::not_owner;
        StandingFields& fields = standing_of(lock);
        if (fields.standing.load(kRelaxed) != standing_in(epoch)) {
          stop_standing(lock);
          if (!lock.is_free()) end_grant(lock);
        }
        if (const std::uint64_t next_base = base_after(fields, base); next_base != fields.base.load(kRelaxed)) {
          commit(fields.base, next_base);
          commit(fields.grants, 0U);
        }
        commit(fields.standing, standing_in(epoch));
        if (lock.is_free()) next = offer(lock, dictionary.world());
        next.watchers = has_watchers_to_wake(lock);
        return Code::ok;
      },
      patience_ns, granules_for(key.size(), lock_size(key.size(), true)));
  wake(dictionary, key, next);
  return code;
}

// After the first write, the lock no longer stands. So after a crash between the writes, the lock cannot be granted to
// anybody. Waiters continue to wait for the agent, and watchers have seen the end of the grant.
Code withdraw(Dictionary& dictionary, std::string_view key, Lease& lease, std::uint64_t patience_ns) noexcept {
  Chosen next;
  const Code code = with_lock(dictionary, key, patience_ns, [&](const LockEntry& lock) {
    if (!lock.held_by(lease)) return Code::not_owner;
    stop_standing(lock);
    lock.free();
    next.watchers = has_watchers_to_wake(lock);
    return Code::ok;
  });
  wake(dictionary, key, next);
  if (code == Code::ok || code == Code::not_owner || code == Code::not_found) lease = {};
  return code == Code::not_found ? Code::not_owner : code;
}

Code withdraw_idle(Dictionary& dictionary, std::string_view key, std::uint64_t patience_ns) noexcept {
  Chosen next;
  const Code code = with_lock(dictionary, key, patience_ns, [&](const LockEntry& lock) {
    const bool held = !lock.is_free() && lock.live(lock.segment.flush_epoch());
    // Refuse even if no fencing tokens are left, because the lock still stands for its holder.
    if (lock.grant_counts() && (held || lock.has_waiters())) return Code::locked;
    stop_standing(lock);
    if (!lock.is_free() && !held) end_grant(lock);
    next.watchers = has_watchers_to_wake(lock);
    return Code::ok;
  });
  wake(dictionary, key, next);
  return code == Code::not_found ? Code::ok : code;
}

Code leave_standing(Dictionary& dictionary, std::string_view key, const Waiter& waiter, const Lease& lease,
                    std::uint64_t patience_ns) noexcept {
  Chosen next;
  const Code code = with_lock(dictionary, key, patience_ns, [&](const LockEntry& lock) {
    if (is_reserved_for(lock, &waiter)) end_grant(lock);
    if (lease.owner != kNobody && lock.held_by(lease)) lock.free();
    lock.queue().remove(waiter);
    if (lock.is_free() && lock.grant_counts()) next = offer(lock, dictionary.world());
    next.watchers = has_watchers_to_wake(lock);
    return Code::ok;
  });
  wake(dictionary, key, next);
  return code == Code::not_found ? Code::ok : code;
}

Code refuse(Dictionary& dictionary, std::string_view key, Code why, std::uint64_t patience_ns) noexcept {
  constexpr std::uint32_t kWoken = 64;  // other waiters see the refusal when they check; no benchmark refuses waiters
  const bool is_for_all = why == Code::unsupported;
  std::array<WakeTarget, kWoken> waiters{};
  std::size_t count = 0;
  const Code code = with_lock(dictionary, key, patience_ns, [&](const LockEntry& lock) {
    standing_of(lock).refusal.store(static_cast<std::uint32_t>(why), kRelaxed);
    standing_of(lock).refused_ns.store(platform::monotonic_ns(), kRelaxed);
    count = 0;
    lock.queue().every_before(~std::uint64_t{0}, kMostChecked, [&](const Waiter& waiter) {
      if (waiter.tries || is_for_all) waiters[count++] = wake_target(waiter);
      return count < waiters.size();
    });
    return Code::ok;
  });
  for (std::size_t i = 0; i < count; ++i) post(dictionary.world(), waiters[i].owner, waiters[i].number);
  return code;
}

Code drop(Dictionary& dictionary, std::string_view key, std::uint64_t patience_ns) noexcept {
  const Code code = with_lock(dictionary, key, patience_ns, [](const LockEntry& lock) {
    stop_standing(lock);
    return Code::ok;
  });
  return code == Code::not_found ? Code::ok : code;
}

Code state_of_lock(Dictionary& dictionary, std::string_view key, LockState& state, std::uint64_t patience_ns) noexcept {
  return with_lock(dictionary, key, patience_ns, [&](const LockEntry& lock) {
    state = {};
    state.stands = lock.grant_counts();
    state.held = !lock.is_free() && lock.live(lock.segment.flush_epoch());
    const bool all_seen = lock.queue().every_before(~std::uint64_t{0}, kMostChecked, [&](const Waiter& waiter) {
      if (state.first == kNobody) state.first = waiter.owner;
      (waiter.tries ? state.tried_for : state.waited_for) = true;
      return true;
    });
    if (!all_seen) state.waited_for = true;
    state.grants = standing_of(lock).grants.load(kRelaxed);
    return Code::ok;
  });
}

Code users_of_lock(Dictionary& dictionary, std::string_view key, std::span<Token> users, std::size_t& count,
                   std::uint64_t patience_ns) noexcept {
  return with_lock(dictionary, key, patience_ns, [&](const LockEntry& lock) {
    count = 0;
    if (!users.empty() && !lock.is_free()) users[count++] = lock.owner();
    const auto room = static_cast<std::uint32_t>(users.size() - count);
    const bool all_fit = lock.queue().every_before(~std::uint64_t{0}, room, [&](const Waiter& waiter) {
      users[count++] = waiter.owner;
      return true;
    });
    return all_fit ? Code::ok : Code::too_large;
  });
}

namespace {

/// Collects the keys of the visited locks for which `is_meant(const LockFields&, const StandingFields&)` is true.
class FoundKeys {
 public:
  template <class Meant>
  std::uint32_t add(const EntryView& view, Meant&& is_meant) {
    if (view.type != EntryType::lock || view.value_size < kLockAndGate) return 0;
    const auto& standing = *reinterpret_cast<const StandingFields*>(&view.lock() + 1);
    if (!is_meant(view.lock(), standing)) return 0;
    std::string key(padded(view.key_length), '\0');
    platform::copy_from_shared(key.data(), Shard::key_words(*view.entry), key.size() / sizeof(Word64));
    key.resize(view.key_length);
    keys_.push_back(std::move(key));
    return 0;
  }
  std::size_t count() const { return keys_.size(); }
  /// Keeps only the first `count` keys.
  void cut(std::size_t count) { keys_.resize(count); }
  std::vector<std::string> take() { return std::move(keys_); }
  /// Returns the keys without duplicates.
  std::vector<std::string> take_distinct() {
    std::sort(keys_.begin(), keys_.end());
    keys_.erase(std::unique(keys_.begin(), keys_.end()), keys_.end());
    return take();
  }

 private:
  std::vector<std::string> keys_;
};

/// Visits the entries of the bucket, up to the first damaged entry. Returns false if entries may be missing because the
/// chain leads into memory that this process has not mapped yet.
template <class Visit>
bool walk_bucket(Shard& shard, std::uint32_t bucket, Visit&& visit) {
  EntryView view{};
  std::uint32_t walked = 0;
  std::uint32_t block = shard.bucket(bucket).load(kAcquire);
  while (walked < shard.granules() && shard.inspect_in(bucket, block, view)) {
    walked += view.granules;
    visit(view);
    block = view.entry->next.load(kAcquire);
  }
  return block == 0 || !shard.catch_up();
}

}  // namespace

std::vector<std::string> wanted_keys(Dictionary& dictionary, std::span<const std::uint64_t> hashes) {
  const EpochGuard inside;
  Segment* const segment = dictionary.segment(inside);
  if (segment == nullptr || segment->gate() == nullptr) return {};
  FoundKeys found;
  const Session session = Session(*segment);
  const auto visit = [&](const EntryView& view) {
    return found.add(view, [&](const LockFields& lock, const StandingFields& standing) {
      return lock.queue.head.load(kRelaxed) != 0 &&
             !(stands_in(standing, session.now()) && standing.grants.load(kRelaxed) < kGrantsMax);
    });
  };
  if (hashes.empty()) {
    for (Shard& shard : segment->shards()) {
      if (!shard.open_if_used() || shard.header().waiters.load(kRelaxed) == 0) continue;
      shard.catch_up();  // other processes may have enlarged the shard
      walk_entries(shard, visit);
    }
  }
  for (const std::uint64_t hash : hashes) {
    Shard& shard = segment->shard_of(hash);
    if (!shard.open_if_used()) continue;
    shard.catch_up();
    walk_bucket(shard, static_cast<std::uint32_t>(hash) & (shard.buckets() - 1), visit);
  }
  return found.take_distinct();  // several hashes may have the same bucket
}

namespace {

/// Retries until all entries of the bucket were visited. Returns false if other processes changed the shard during
/// every attempt.
template <class Visit>
bool walk_whole_bucket(Shard& shard, std::uint32_t bucket, FoundKeys& found, Visit&& visit) {
  constexpr int kTries = 10'000;  // each attempt takes less than 1 µs
  const std::size_t before = found.count();
  for (int i = 0; i < kTries; ++i) {
    const std::uint64_t start = shard.epoch();
    const bool whole = walk_bucket(shard, bucket, visit);
    if (whole && shard.unchanged_since(start)) return true;
    found.cut(before);
  }
  return false;
}

}  // namespace

std::optional<std::vector<std::string>> standing_keys(Dictionary& dictionary, std::uint16_t epoch) {
  FoundKeys found;
  const EpochGuard inside;
  Segment* const segment = dictionary.segment(inside);
  if (segment == nullptr || segment->gate() == nullptr) return found.take();
  const auto visit = [&](const EntryView& view) {
    return found.add(view, [&](const LockFields&, const StandingFields& standing) {
      return standing.standing.load(kRelaxed) == standing_in(epoch);
    });
  };
  for (Shard& shard : segment->shards()) {
    const Code opened = shard.is_open() ? Code::ok : shard.open(Shard::Unopened::leave);
    if (opened == Code::not_found) continue;
    if (opened != Code::ok) return std::nullopt;
    for (std::uint32_t bucket = 0; bucket < shard.buckets(); ++bucket)
      if (!walk_whole_bucket(shard, bucket, found, visit)) return std::nullopt;
  }
  return found.take();
}

}  // namespace holdfast
