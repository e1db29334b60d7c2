// The operations of a dictionary. Each operation becomes visible through one store (see the table in docs/design.md). A
// process that is killed at any instruction leaves the key in the state before or after the operation.
//
// Thread and process safety: any thread may make any call at any time. A handle survives the removal of its dictionary:
// later calls use the next dictionary with the same name, or return `removed`. The memory of the removed dictionary is
// freed when the last call of this process has left it (sync/epoch.h).
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/name.h"
#include "base/status.h"
#include "dict/arena.h"
#include "dict/guard.h"
#include "dict/list.h"
#include "dict/lock_places.h"
#include "dict/reclaimer.h"
#include "dict/segment.h"
#include "dict/shard.h"
#include "dict/transaction.h"
#include "holdfast.h"
#include "platform/platform.h"
#include "sync/epoch.h"

namespace holdfast {

enum class StoreOp { set = 0, add = 1, replace = 2, safe_set = 3, safe_add = 4 };

/// The effects of an operation on other keys.
struct Effect {
  bool evicted = false;  // a live entry of another key was removed to make room
};

/// The version of a key, the stripe that contains it, and the time until which a copy of the value is valid.
struct Version {
  std::uint64_t number = 0;             // below 2^53; odd while a change is under way
  std::uint32_t stripe = 0;             // number of the stripe in the dictionary
  std::uint64_t end_ms = kExpiryNever;  // when the value that was read expires (compare with value_ms())
  bool deaths = false;                  // whether the death of a process also ends a wait for a change (lock/changes.h)
};

class Dictionary {
 public:
  /// Makes a handle. If the size in `options` is 0, opens any existing dictionary with this name.
  static Expected<std::unique_ptr<Dictionary>> open(World& world, std::string name, const DictionaryOptions& options);

  const std::string& name() const noexcept { return name_; }
  /// Returns the name for error messages that must not allocate.
  const char* quoted_name() const noexcept { return quoted_name_.c_str(); }
  World& world() const noexcept { return world_; }

  // --- dictionary_read.cc: no mutex ---

  /// Reads a value. Returns ok, not_found, buffer, timeout or is_a_list.
  Code get(std::string_view key, ValueOut& out) noexcept;
  /// Reads a value like get, but also returns an expired value that is still stored.
  Code get_stale(std::string_view key, ValueOut& out, bool& stale) noexcept;
  /// Sets `seconds` to the time until the value expires: 0 if it never expires, negative if it has expired but is still
  /// stored.
  Code ttl(std::string_view key, double& seconds) noexcept;
  /// Returns at most `max` keys, or all keys if `max` is 0.
  Code keys(std::uint32_t max, PackedKeys& packed) noexcept;
  /// Returns the keys of about `count` more buckets. Begin with a `cursor` of 0; the cursor is 0 again after the last
  /// bucket.
  Code scan(std::uint64_t& cursor, std::uint32_t count, std::string_view prefix, Listed listed,
            PackedKeys& packed) noexcept;
  std::uint64_t capacity() noexcept;
  std::uint64_t free_space() noexcept;
  /// Returns the largest size, in bytes, that a key and its value may have together.
  std::uint64_t room_for_one() noexcept;
  /// Returns the size, in bytes, of the largest value that fits under a key of ordinary length.
  /// value_max_if_asked_for() returns the same for a dictionary of this size that is created for the largest possible
  /// values.
  std::uint64_t value_max() noexcept;
  std::uint64_t value_max_if_asked_for() noexcept;
  /// Sets `length` to the length of a list, or to 0 if there is no such key. May return not_a_list.
  Code list_length(std::string_view key, std::uint32_t& length) noexcept;
  /// Returns a key's version (dict/versions.h), or unsupported if the dictionary has none. Call this before reading the
  /// value, which then has this version or a later one.
  Code version(std::string_view key, Version& version) noexcept;
  /// Reads the key's value and version, unless the version is still `version.number`. Returns unchanged, or the codes
  /// of version() and get().
  Code get_changed(std::string_view key, Version& version, ValueOut& out) noexcept;
  /// Returns whether a copy of a value with this version is current: the version is settled and still the version of
  /// its stripe, and the value has not expired.
  bool is_current(const Version& version) noexcept;
  Code stats(holdfast_stats& stats) noexcept;
  Code histogram(HeldKind kind, TimeKind time, Histogram& histogram) noexcept;
  /// Finds the keys with the most contention, worst first.
  Code contention(std::span<Contended> worst, std::size_t& count) noexcept;

  // --- dictionary_write.cc ---

  Code store(StoreOp op, std::string_view key, const ValueIn& value, double exptime, Effect& effect) noexcept;
  Code remove(std::string_view key) noexcept;
  /// Stores `desired` if the value is `expected`; null means no value. May return not_found, exists or differs.
  Code compare_and_swap(std::string_view key, const ValueIn* expected, const ValueIn* desired, double exptime,
                        Effect& effect) noexcept;
  /// If `version` is still the key's version, stores `desired` (null: deletes the key), and sets `version` to the new
  /// version. Otherwise returns differs, or unsupported if the dictionary has no versions.
  Code store_unless_changed(std::string_view key, Version& version, const ValueIn* desired, double exptime,
                            Effect& effect) noexcept;
  struct Initial {
    double value;
    double exptime;
  };
  Code increment(std::string_view key, double by, const Initial* initial, double& sum, Effect& effect) noexcept;
  Code expire(std::string_view key, double exptime) noexcept;
  Code flush_all() noexcept;
  /// Removes at most `max` expired entries.
  Code flush_expired(std::uint32_t max, std::uint32_t& count) noexcept;

  // --- dictionary_list.cc ---

  /// Adds an element. May return not_a_list, or no_memory, because adding to a list never evicts entries.
  Code push(std::string_view key, End end, const ValueIn& value, std::uint32_t& length) noexcept;
  /// Removes an element. May return not_found, not_a_list, or buffer, in which case the element stays in the list.
  Code pop(std::string_view key, End end, ValueOut& out) noexcept;

  /// Returns the dictionary's gate, or its last gate if the dictionary was removed. Returns null for a plain
  /// dictionary.
  const Gate* gate() const noexcept { return gate_.load(kRelaxed); }

  /// Returns whether the dictionary was removed because a part of its file was missing (platform/bus_guard.h).
  bool was_cut_short() const noexcept { return was_cut_short_.load(kRelaxed); }

  /// Checks that the dictionary has this size and mutex. Creates the dictionary again if it was removed.
  Status reopen(const DictionaryOptions& options);

  // --- for src/lock ---

  LockPlaces& lock_places() noexcept { return lock_places_; }

  /// Returns the current segment, or null if the dictionary was removed. The process needs no identity. REQUIRES: this
  /// thread uses no segment that it found before, except through a shared_ptr. The segment, its shards and their
  /// entries may be used as long as the thread holds `inside` (sync/epoch.h), which this function also needs.
  [[gnu::always_inline]] Segment* segment(const EpochGuard& /*inside*/) noexcept {
    Segment* now = segment_.load(std::memory_order_acquire);  // pairs with refresh()
    if (now == nullptr || now->retired()) [[unlikely]]
      return refresh();
    return now;
  }

  /// Returns a reference to the same segment, which may be kept for longer.
  std::shared_ptr<const Segment> keep_segment() noexcept {
    const EpochGuard inside;
    const Segment* const now = segment(inside);
    return now != nullptr ? now->weak_from_this().lock() : nullptr;
  }

  /// Takes the mutex of the key's shard, looks the key up, and runs `operation(Transaction&) -> Code`. The operation
  /// must either commit, or return Code::corrupt before it has changed anything; the shard is then repaired and the
  /// operation runs again. If the arena has grown, the operation also runs again after Code::no_memory, and after
  /// Code::locked if an attempt found no room in the queue. After a search for memory of dead processes, the operation
  /// also runs again after Code::no_memory, at most kLooksMax times.
  ///
  /// `granules` is the size of the largest block that the operation may have to allocate, or 0 if this block fits into
  /// any dictionary. Returns too_large, without taking the mutex, if this block never fits. `unopened` says whether to
  /// open a shard that was never used, or to return not_found for it. May also return removed, timeout, busy, system or
  /// no_memory.
  template <class Operation>
  Code transact(std::string_view bytes, Operation&& operation, std::uint64_t timeout_ns = kMutexPatienceNs,
                std::uint64_t granules = 0, Shard::Unopened unopened = Shard::Unopened::open) noexcept;
  /// Does the same in the given segment, even if its dictionary was removed. This is for an operation that already uses
  /// the segment.
  template <class Operation>
  Code transact_in(Segment& segment, std::string_view bytes, Operation&& operation,
                   std::uint64_t timeout_ns = kMutexPatienceNs) noexcept;

 private:
  Dictionary(World& world, std::string name, DictionaryOptions options)
      : world_(world), name_(std::move(name)), options_(std::move(options)), quoted_name_(quote_name(name_)) {}

  [[gnu::cold]] Segment* refresh() noexcept;
  Segment* adopt(std::unique_ptr<Segment> next);
  void let_go(const Segment& removed) noexcept;
  /// Runs `read(Segment&)` on the current segment. Returns its result, or `none` if the dictionary was removed.
  template <class Read, class Result = Code>
  Result in_segment(Read&& read, Result none = Code::removed) {
    const EpochGuard inside;
    Segment* const now = segment(inside);
    return now != nullptr ? read(*now) : none;
  }
  // REQUIRES, for the calls below: the thread holds an EpochGuard.
  Code get_any(const EpochGuard& inside, std::string_view key, ValueOut& out, bool& stale, bool stale_too) noexcept;
  Code find_once(Segment& segment, const Key& key, ValueOut& out, bool& stale) noexcept;
  // Finds the key again. The key is passed by value, so that the key of a plain read can stay in registers.
  Code find_again(Segment& segment, Key key, ValueOut& out, bool& stale) noexcept;
  Code find_any(Segment& segment, std::string_view bytes, ValueOut& out, bool& stale) noexcept;
  bool is_held(Segment& segment, Key key, const ValueOut& out) noexcept;
  void count_read(Segment& segment, bool hit) noexcept;
  Shard::Read read(Segment& segment, const Key& key, ValueOut& out) noexcept;
  Shard::Read read_again(Shard& shard, Key key, ValueOut& out, Shard::Read result) noexcept;
  Code read_busy(Shard& shard, const Key& key, ValueOut& out, Shard::Read& result) noexcept;
  Code keys_of(Shard& shard, std::uint32_t bucket, const KeyFilter& filter, PackedKeys& packed) noexcept;
  Code keys_between(Shard& shard, std::uint32_t& from, std::uint32_t end, std::uint32_t enough, const KeyFilter& filter,
                    PackedKeys& packed) noexcept;
  /// An incomplete grant that blocks an operation.
  struct UnsettledGrant {
    LockWord grant{LockWord::kNone};
    LockWord abandoned{LockWord::kNone};  // the same grant, once its owner was found dead
    std::uint64_t end_ns = 0;             // when to give up waiting for the grant; 0: not waiting yet
  };
  /// The reasons why an attempt at an operation did not succeed.
  struct Blockers {
    UnsettledGrant unsettled;
    bool crowded = false;  // copied from the arena, like the next member
    Shortage shortage;
    int looks = 0;       // searches for memory of dead processes, in the whole call
    bool found = false;  // whether the last search found any

    bool any() const noexcept { return crowded || unsettled.grant.bits != LockWord::kNone; }
  };
  template <class Body>
  Code with_shard_of(std::string_view bytes, std::uint64_t timeout_ns, std::uint64_t granules, Shard::Unopened unopened,
                     Body&& body) noexcept;
  template <class Body>
  static Code with_shard_in(Segment& segment, std::string_view bytes, std::uint64_t timeout_ns, std::uint64_t granules,
                            Shard::Unopened unopened, Body&& body) noexcept;
  Code flush_expired_in(Segment& segment, std::uint32_t max, std::uint32_t& count) noexcept;
  template <class Shortcut, class Make>
  Code transact_unless(Shortcut&& shortcut, std::string_view bytes, Make&& make, std::uint64_t granules) noexcept;
  template <class Operation>
  Code run(Segment& segment, Shard& shard, const Key& key, Operation& operation, std::uint64_t timeout_ns) noexcept;
  template <class Operation>
  Code run_cold(Segment& segment, Shard& shard, const Key& key, Operation& operation,
                std::uint64_t timeout_ns) noexcept;
  template <class Operation>
  Code attempt(Segment& segment, Shard& shard, const Key& key, Operation& operation, Blockers& blockers) noexcept;
  std::optional<Code> resolve(Segment& segment, Shard& shard, Code result, Blockers& blockers,
                              std::uint64_t timeout_ns) noexcept;
  bool conclude(UnsettledGrant& unsettled, std::uint64_t timeout_ns) noexcept;
  static bool grow(Shard& shard, std::uint32_t granules, std::uint64_t timeout_ns, Code result) noexcept;
  std::optional<Code> reclaim(Segment& segment, Shard& shard, Blockers& blockers, Code result) noexcept;
  Code reclaim_from_dead(Segment& segment, Shard& shard, bool needed, Blockers& blockers) noexcept;
  Code take_prospect(Segment& segment, Shard& shard, std::uint32_t ended, Blockers& blockers) noexcept;

  static constexpr int kLooksMax = 8;  // searches for memory of dead processes, in one call

  World& world_;
  std::string name_;
  std::atomic<Segment*> segment_{nullptr};  // the segment that `present_` owns
  std::atomic<const Gate*> gate_{nullptr};  // the gate of the last segment
  std::atomic<bool> was_cut_short_{false};
  platform::LongMutex refreshing_;  // guards the next four members, which change only inside a ForkGuard
  DictionaryOptions options_;
  std::string gate_name_;             // the name of the last segment's gate
  std::shared_ptr<Segment> present_;  // null: the dictionary was removed
  bool ended_with_world_ = false;     // whether the segment was removed because its world ended
  std::string quoted_name_;
  LockPlaces lock_places_;
};

// Runs `body(Segment&, Shard&, const Key&, ShardGuard&) -> Code` with the mutex of the key's shard held.
template <class Body>
[[gnu::always_inline]] inline Code Dictionary::with_shard_of(std::string_view bytes, std::uint64_t timeout_ns,
                                                             std::uint64_t granules, Shard::Unopened unopened,
                                                             Body&& body) noexcept {
  const EpochGuard inside;
  Segment* const now = segment(inside);
  return now != nullptr ? with_shard_in(*now, bytes, timeout_ns, granules, unopened, body) : Code::removed;
}

template <class Body>
[[gnu::always_inline]] inline Code Dictionary::with_shard_in(Segment& segment, std::string_view bytes,
                                                             std::uint64_t timeout_ns, std::uint64_t granules,
                                                             Shard::Unopened unopened, Body&& body) noexcept {
  if (granules != 0 && granules > segment.geometry().block_max()) [[unlikely]]
    return Code::too_large;
  const Key key(bytes, segment.seed());
  Shard& shard = segment.shard_of(key.hash);
  if (!shard.is_open()) [[unlikely]] {
    if (const Code opened = shard.open(unopened); opened != Code::ok) return opened;
  }
  // Taking the mutex waits for the stores of the previous call, and delays all later loads. The benchmark is "set, 1M
  // numbers".
  shard.prefetch_chain(key.short_hash());
  ShardGuard guard(shard, timeout_ns);
  return guard.held() ? body(segment, shard, key, guard) : guard.code();
}

// Runs an operation with the mutex held, and runs it again if it found damage.
template <class Operation>
inline Code Dictionary::attempt(Segment& segment, Shard& shard, const Key& key, Operation& operation,
                                Blockers& blockers) noexcept {
  Code result = Code::corrupt;
  for (int tries = 0; tries < 2 && result == Code::corrupt; ++tries) {
    Transaction change(world_, segment, shard, key);
    change.give_up_on(blockers.unsettled.abandoned);
    if (change.find()) result = operation(change);
    blockers.unsettled.grant = change.in_the_way();
    blockers.crowded = change.arena().crowded();
    blockers.shortage = change.arena().shortage();
    if (result == Code::corrupt || change.arena().damaged()) [[unlikely]]
      repair(shard);
    else
      change.end();
  }
  return result;
}

// Runs an operation until nothing blocks it. REQUIRES: the mutex is held. Releases the mutex.
template <class Operation>
inline Code Dictionary::run(Segment& segment, Shard& shard, const Key& key, Operation& operation,
                            std::uint64_t timeout_ns) noexcept {
  for (Blockers blockers;;) {
    Code result = Code::ok;
    {
      const ShardGuard guard(shard, ShardGuard::PassedOn{});
      result = attempt(segment, shard, key, operation, blockers);
    }
    if (shard.stripes()) [[unlikely]]
      wake_watchers_of(world_, shard.stripes().of(key.short_hash()));
    if (!blockers.any()) [[likely]]
      return result;
    if (const std::optional<Code> end = resolve(segment, shard, result, blockers, timeout_ns)) return *end;
    ShardGuard guard(shard, timeout_ns);
    if (!guard.held()) return guard.code();
    guard.pass_on();
  }
}

template <class Operation>
Code Dictionary::transact(std::string_view bytes, Operation&& operation, std::uint64_t timeout_ns,
                          std::uint64_t granules, Shard::Unopened unopened) noexcept {
  // clang-format off
  const auto body = [&](Segment& segment, Shard& shard, const Key& key, ShardGuard& guard) HOLDFAST_INLINE {
    // clang-format on
    guard.pass_on();
    return run(segment, shard, key, operation, timeout_ns);
  };
  return with_shard_of(bytes, timeout_ns, granules, unopened, body);
}

template <class Operation>
Code Dictionary::transact_in(Segment& segment, std::string_view bytes, Operation&& operation,
                             std::uint64_t timeout_ns) noexcept {
  const auto body = [&](Segment& same, Shard& shard, const Key& key, ShardGuard& guard) {
    guard.pass_on();
    return run(same, shard, key, operation, timeout_ns);
  };
  return with_shard_in(segment, bytes, timeout_ns, 0, Shard::Unopened::open, body);
}

}  // namespace holdfast
