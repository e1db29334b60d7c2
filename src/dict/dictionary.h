// The operations of a dictionary. Each becomes visible by one store (docs/design.md has the table), so that a process
// killed at any instruction leaves the key before or after, nothing between.
//
// Thread and process safety: all calls, from any thread, at any time. A handle survives the removal of its dictionary:
// it finds the next one of the name, or says `removed`.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/name.h"
#include "base/status.h"
#include "dict/arena.h"
#include "dict/guard.h"
#include "dict/list.h"
#include "dict/reclaimer.h"
#include "dict/segment.h"
#include "dict/shard.h"
#include "dict/transaction.h"
#include "platform/platform.h"

namespace holdfast {

enum class StoreOp { set = 0, add = 1, replace = 2, safe_set = 3, safe_add = 4 };

/// What an operation may have done to others.
struct Effect {
  bool evicted = false;  // a live entry of another key was removed to make room
};

struct DictionaryStats {
  std::uint64_t entries;
  std::uint64_t bytes_used;
  std::uint64_t bytes_free;
  std::uint64_t hits;
  std::uint64_t misses;
  std::uint64_t evictions;
  std::uint64_t expirations;
  std::uint64_t repairs;
  std::uint64_t mutex_waits;
  std::uint64_t lock_waits;
  std::uint64_t lock_wakes;
  std::uint64_t lives_unknown;
  std::uint64_t words_mended;
  std::uint64_t lock_reserved_ms;
};

class Dictionary {
 public:
  /// `options` with size 0: whatever exists under the name.
  static Expected<std::unique_ptr<Dictionary>> open(World& world, std::string name, const DictionaryOptions& options);

  const std::string& name() const noexcept { return name_; }
  /// For sentences that are made where there may be no memory.
  const char* quoted_name() const noexcept { return quoted_name_.c_str(); }
  World& world() const noexcept { return world_; }

  // --- reads.cc: no mutex ---

  /// ok, not_found, buffer, timeout, is_a_list.
  Code get(std::string_view key, ValueOut& out) noexcept;
  /// Also what has expired and is still there.
  Code get_stale(std::string_view key, ValueOut& out, bool& stale) noexcept;
  /// 0 for never; negative for what has expired and is still there.
  Code ttl(std::string_view key, double& seconds) noexcept;
  Code keys(std::uint32_t max, std::string& packed, std::uint32_t& count);
  /// The keys of some more buckets, about `count`; `cursor` 0 begins, and is 0 again after the last.
  Code scan(std::uint64_t& cursor, std::uint32_t count, std::string_view prefix, std::string& packed,
            std::uint32_t& found);
  std::uint64_t capacity() noexcept;
  std::uint64_t free_space() noexcept;
  /// Largest key and value together, in bytes.
  std::uint64_t room_for_one() noexcept;
  /// 0 if there is no such key. not_a_list.
  Code list_length(std::string_view key, std::uint32_t& length) noexcept;
  Code stats(DictionaryStats& stats) noexcept;

  // --- changes.cc ---

  Code store(StoreOp op, std::string_view key, const ValueIn& value, double exptime, Effect& effect) noexcept;
  Code remove(std::string_view key) noexcept;
  /// Stores `desired` if the value is `expected`. Null: no value. not_found, exists, differs.
  Code compare_and_swap(std::string_view key, const ValueIn* expected, const ValueIn* desired, double exptime,
                        Effect& effect) noexcept;
  struct Initial {
    double value;
    double exptime;
  };
  Code increment(std::string_view key, double by, const Initial* initial, double& sum, Effect& effect) noexcept;
  Code expire(std::string_view key, double exptime) noexcept;
  Code flush_all() noexcept;
  /// Removes at most `max` entries that have expired.
  Code flush_expired(std::uint32_t max, std::uint32_t& count) noexcept;

  // --- lists.cc ---

  /// not_a_list, no_memory: nothing is evicted for a list.
  Code push(std::string_view key, End end, const ValueIn& value, std::uint32_t& length) noexcept;
  /// not_found, not_a_list, buffer (then nothing was taken out).
  Code pop(std::string_view key, End end, ValueOut& out) noexcept;

  /// Whether it was removed because a part of its file was gone (platform/bus_guard.h).
  bool was_cut_short() const noexcept {
    const Segment* const last = segment_.load(std::memory_order_acquire);
    return last != nullptr && (last->header().file.retired.load(kRelaxed) & kRetiredByDamage) != 0;
  }

  /// Ok if the dictionary has this size and mutex; one that was removed is made again.
  Status reopen(const DictionaryOptions& options);

  // --- for src/lock ---

  /// The segment as it is now, null when the dictionary was removed. Needs no identity.
  Segment* segment() noexcept {
    Segment* now = segment_.load(std::memory_order_acquire);  // pairs with refresh()
    return now != nullptr && !now->retired() ? now : refresh();
  }

  /// Runs `operation(Transaction&) -> Code` with the mutex of the key's shard, after the key was looked up. It must
  /// either commit, or return Code::corrupt before having changed anything: the shard is repaired then, and the
  /// operation run again. So it is after each Code::no_memory for which memory of dead processes was looked for,
  /// kLooksMax times at most. Also: removed, timeout, busy, system.
  template <class Operation>
  Code transact(std::string_view bytes, Operation&& operation, std::uint64_t patience_ns = kMutexPatienceNs) noexcept;

 private:
  Dictionary(World& world, std::string name, const DictionaryOptions& options)
      : world_(world), name_(std::move(name)), options_(options), quoted_name_(quote_name(name_)) {}

  Segment* refresh() noexcept;
  Segment* adopt(std::unique_ptr<Segment> next);
  /// Runs `read(Segment&) -> Code` on the segment as it is now. Also: removed.
  template <class Read>
  Code in_segment(Read&& read) {
    Segment* const now = segment();
    return now != nullptr ? read(*now) : Code::removed;
  }
  Code get_any(std::string_view key, ValueOut& out, bool& stale, bool stale_too) noexcept;
  Code find_any(Segment& segment, std::string_view bytes, ValueOut& out, bool& stale) noexcept;
  bool is_held(const Key& key, const ValueOut& out) noexcept;
  void count_read(Segment& segment, bool hit) noexcept;
  Shard::Read read(Segment& segment, const Key& key, ValueOut& out) noexcept;
  Shard::Read read_again(Shard& shard, const Key& key, ValueOut& out, Shard::Read result) noexcept;
  Code read_busy(Shard& shard, const Key& key, ValueOut& out, Shard::Read& result) noexcept;
  Code keys_of(Shard& shard, std::uint32_t bucket, const KeyFilter& filter, std::string& packed, std::uint32_t& count);
  std::optional<Code> reclaim(Segment& segment, Shard& shard, int looks, Code result) noexcept;
  Code reclaim_from_dead(Segment& segment, Shard& shard, bool needed, bool& found) noexcept;

  static constexpr int kLooksMax = 8;  // for the memory of the dead, in one call

  World& world_;
  std::string name_;
  std::atomic<Segment*> segment_{nullptr};
  platform::LongMutex refreshing_;  // guards the two below, which change inside a ForkGuard only
  DictionaryOptions options_;
  std::vector<std::unique_ptr<Segment>> segments_;  // every one this handle had: a reader may still be in an old one
  std::string quoted_name_;
};

template <class Operation>
Code Dictionary::transact(std::string_view bytes, Operation&& operation, std::uint64_t patience_ns) noexcept {
  Segment* const now = segment();
  if (now == nullptr) return Code::removed;
  const Key key(bytes, now->seed());
  Shard& shard = now->shard_of(key.hash);
  for (int looks = 0;; ++looks) {
    Code result = Code::corrupt;
    bool crowded = false;
    {
      const ShardGuard guard(shard, patience_ns);
      if (!guard.held()) return guard.code();
      for (int attempt = 0; attempt < 2 && result == Code::corrupt; ++attempt) {
        Transaction change(world_, *now, shard, key);
        if (change.find()) result = operation(change);
        crowded = change.arena().crowded();
        if (result == Code::corrupt || change.arena().damaged()) [[unlikely]]
          repair(shard);
      }
    }
    if (!crowded) [[likely]]
      return result;
    if (const std::optional<Code> end = reclaim(*now, shard, looks, result)) return *end;
  }
}

}  // namespace holdfast
