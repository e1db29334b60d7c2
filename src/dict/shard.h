// A view of one shard. It has the shard's addresses in this process, checks ranges, and walks along chains.
//
// Thread and process safety: read() and copy_keys() take no lock and may run at any time, even while the mutex's owner
// is dead or stopped. The same is true of touch(), and of every call that only reads, if the caller tolerates changes
// by other processes. Every other call REQUIRES that the shard's mutex is held.
//
// Nothing here trusts what it loads. A link or a length that points outside the arena counts as damage, and repair()
// (dict/repair.h) cuts it off.
//
// REQUIRES, for every call that reads shared memory: the shard is open in this process (is_open).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/atomic.h"
#include "base/status.h"
#include "dict/geometry.h"
#include "dict/key.h"
#include "dict/layout.h"
#include "dict/lock_word.h"
#include "dict/versions.h"
#include "sync/shmtx.h"

namespace holdfast {

class PackedKeys;

/// The result of reading a value: a copy of the value.
struct ValueOut {
  EntryType type;
  std::uint32_t flags;
  std::uint64_t bits;      // boolean, number, list: the word; lock, permits: the token of a holder
  bool incomplete;         // lock: the owner is about to complete its grant; `bits` are the owner's bits (base/token.h)
  std::uint64_t sequence;  // lock, permits: fencing token of that holder's grant
  std::uint64_t wanted;    // in: for permits: the fencing token of the grant to find; 0: any grant that has not expired
  bool shared;             // permits: there are other holders
  char* buffer;            // in: where to copy the bytes of a string or table
  std::size_t capacity;    // in: the size of `buffer`
  std::size_t size;        // size of the string or table, even if it did not fit
  std::uint64_t expiry;
};

/// A value to store.
struct ValueIn {
  EntryType type;
  std::uint32_t flags;
  std::uint64_t bits;  // boolean, number, list
  const char* data;    // string, table
  std::size_t size;    // bytes that the value takes in the entry
};

/// A view of an entry whose lengths were loaded once and were inside the arena. All accesses use these copies, so that
/// no access leaves the arena, whatever another process writes into the entry afterwards.
struct EntryView {
  Entry* entry;
  EntryType type;
  std::uint32_t key_length;
  std::uint32_t value_size;
  std::uint32_t granules;  // of the block

  Word64* value() const noexcept { return reinterpret_cast<Word64*>(entry + 1) + padded(key_length) / 8; }
  /// Returns the list. REQUIRES: the type is list.
  ListFields& list() const noexcept { return *reinterpret_cast<ListFields*>(value()); }
  /// Returns the ends of the list. Without the mutex, the parts may come from different moments. REQUIRES: the type is
  /// list.
  ListEnds list_ends() const noexcept { return ListEnds::of(list().word.load(kRelaxed), entry->flags.load(kRelaxed)); }
  /// Returns the lock. REQUIRES: the type is lock.
  LockFields& lock() const noexcept { return *reinterpret_cast<LockFields*>(value()); }
  /// Returns the permits. REQUIRES: the type is permits.
  PermitFields& permits() const noexcept { return *reinterpret_cast<PermitFields*>(value()); }
  /// Returns the holder. REQUIRES: the type is holder.
  HolderFields& holder() const noexcept { return *reinterpret_cast<HolderFields*>(value()); }
  /// Returns the queue of waiters. REQUIRES: the type is holdable.
  QueueFields& queue() const noexcept { return type == EntryType::lock ? lock().queue : permits().queue; }
  /// Returns the count of overtakes. REQUIRES: the type is holdable.
  Word32& overtakes() const noexcept { return type == EntryType::lock ? lock().overtakes : permits().overtakes; }
  /// Returns whether the entry has waiters or watchers, according to its own words. REQUIRES: the type is holdable.
  bool is_waited_for() const noexcept {
    return queue().head.load(kRelaxed) != 0 || (type == EntryType::lock && lock().watchers.head.load(kRelaxed) != 0);
  }
  /// Returns whether the entry is a lock with an incomplete grant (dict/lock_word.h).
  bool is_incomplete() const noexcept {
    if (type != EntryType::lock) return false;
    const LockWord word = load_word_of(lock());
    return !word.is_free() && !is_complete(lock(), word);
  }
  /// Returns whether the entry is free, according to its own words. REQUIRES: the type is holdable.
  bool is_free() const noexcept {
    return type == EntryType::lock ? load_word_of(lock()).is_free() : permits().holders.load(kRelaxed) == 0;
  }
};

/// The position of a key: the link that leads to its entry or, if there is no entry, the end of the chain to which it
/// would be added.
struct Position {
  Word32* link;
  std::uint32_t block;  // 0: no entry; `link` is the end of the chain
  EntryView view;       // of the block; meaningless if `block` is 0
};

/// Says which keys to list: live keys, or keys whose lock or permits are held or waited for.
enum class Listed { live, in_use };

/// Selects keys that begin with `prefix`, until there are `max` keys.
struct KeyFilter {
  std::uint32_t flush;
  std::uint32_t max;
  std::string_view prefix;
  Listed listed = Listed::live;
};

/// A word that the threads of this process share. It must not be copied once threads share it.
class ProcessWord {
 public:
  explicit ProcessWord(std::uint32_t value) noexcept : word_(value) {}
  ProcessWord(const ProcessWord& other) noexcept : word_(other.load()) {}
  ProcessWord& operator=(const ProcessWord&) = delete;
  std::uint32_t load() const noexcept { return word_.load(kRelaxed); }
  void store(std::uint32_t value) noexcept { word_.store(value, kRelaxed); }
  void raise(std::uint32_t value) noexcept {
    std::uint32_t now = word_.load(kRelaxed);
    while (now < value && !word_.compare_exchange_weak(now, value, kRelaxed)) continue;
  }

 private:
  Word32 word_;
};

class Shard {
 public:
  /// Makes the view of a shard. `opened` is the shard's byte if memory is reserved when it is first used, otherwise
  /// null.
  Shard(std::byte* base, const Geometry& geometry, const Shmtx& mutex, Word8* opened = nullptr,
        Stripes stripes = {}) noexcept;

  ShardHeader& header() const noexcept { return *header_; }
  /// Returns the name of the shard's dictionary, for tracers.
  const char* name() const noexcept { return name_; }
  /// Sets the name of the shard's dictionary. REQUIRES: `name` lives as long as the shard.
  void set_name(const char* name) noexcept { name_ = name; }
  Shmtx& mutex() noexcept { return mutex_; }
  /// Returns how many granules of the arena this process may touch, because it knows that they are reserved. The number
  /// never decreases. Under the mutex, it is the number of granules in the arena.
  std::uint32_t granules() const noexcept { return granules_.load(); }
  /// Returns the number of granules to which the arena may grow.
  std::uint32_t all_granules() const noexcept { return all_granules_; }
  /// Returns the number of free granules, reserved or not. Needs no mutex.
  std::uint32_t free_granules() const noexcept;

  // --- memory that is reserved when it is first used (dict/reserved.h) ---

  /// Returns whether this process may touch the shard.
  bool is_open() const noexcept { return granules() != 0; }
  enum class Unopened { open, leave };
  /// Opens the shard to this process. Returns not_found if no process has opened the shard and `unopened` says to leave
  /// it unopened. May also return no_memory. REQUIRES: the thread holds no shmtx.
  Code open(Unopened unopened) noexcept;
  /// Opens the shard to this process if any process has opened it. If this returns false, all bytes of the shard are
  /// zero.
  bool open_if_used() noexcept { return is_open() || open(Unopened::leave) == Code::ok; }

  /// Writes the shard's byte again, in case it was overwritten.
  void note_opened() noexcept;

  /// Returns whether the mark has the value that this process knows. REQUIRES: the mutex is held.
  bool is_mark_known() const noexcept { return header_->reserved().load(kRelaxed) == known_mark_.load(); }
  /// Updates this process's view from the mark, or repairs the mark if it was overwritten. REQUIRES: the mutex is held.
  void follow_mark() noexcept;
  /// Updates this process's view from the mark, without the mutex. Returns whether more memory may be touched now. This
  /// is for readers that have found a link into memory that this process does not know.
  bool catch_up() noexcept;

  /// Returns whether the arena can grow, as far as this process knows.
  bool can_grow() const noexcept;
  /// Reserves memory for a run of `count` granules after the arena's current end. Returns the new end, or 0 if there is
  /// no memory. Runs without the mutex, because it takes a long time.
  std::uint32_t reserve_more(std::uint32_t count) noexcept;
  /// Adds the reserved memory up to `end` to the arena. REQUIRES: the mutex is held.
  void add_reserved(std::uint32_t end) noexcept;
  /// Returns the stripes, which show that a key's value has changed. There are no stripes if the keys have no versions.
  const Stripes& stripes() const noexcept { return stripes_; }
  std::uint32_t buckets() const noexcept { return bucket_mask_ + 1; }
  Word32& bucket(std::uint32_t index) const noexcept { return buckets_[index]; }
  Word32& bucket_of(std::uint32_t short_hash) const noexcept { return buckets_[short_hash & bucket_mask_]; }
  Word64* free_bits() const noexcept { return free_bits_; }

  /// Returns whether an Entry at `block` would be inside the arena.
  bool holds_header(std::uint32_t block) const noexcept { return block - 1 < granules() - 2; }
  /// Returns whether a block may begin at this granule.
  bool holds_granule(std::uint32_t block) const noexcept { return block - 1 < granules() - 1; }
  /// Returns the entry at `block`. REQUIRES: the block number is inside the arena.
  Entry& entry(std::uint32_t block) const noexcept {
    return *reinterpret_cast<Entry*>(arena_ + std::size_t{block} * kGranule);
  }
  Word32* words32(std::uint32_t block) const noexcept {
    return reinterpret_cast<Word32*>(arena_ + std::size_t{block} * kGranule);
  }
  /// Makes the view of the entry at `block`. Returns false if the entry is not inside the arena or has no known type.
  bool inspect(std::uint32_t block, EntryView& view) const noexcept;
  /// Does the same as inspect(), but also returns false if the type may not be in a chain.
  bool inspect_keyed(std::uint32_t block, EntryView& view) const noexcept;
  /// Does the same as inspect_keyed(), but also returns false if the entry may not be in the chain of this bucket.
  bool inspect_in(std::uint32_t bucket, std::uint32_t block, EntryView& view) const noexcept;
  /// Returns whether entries with these two hashes are in the same bucket.
  bool same_bucket(std::uint32_t hash, std::uint32_t other) const noexcept {
    return ((hash ^ other) & bucket_mask_) == 0;
  }
  /// Returns the stamp for an entry that is filled now (Entry::stamp).
  std::uint32_t stamp() const noexcept { return static_cast<std::uint32_t>(header_->reuse_epoch.load(kRelaxed)); }

  /// Records that the entry was used, which delays its eviction. May be called without the mutex, even for a block
  /// that was released in the meantime: the count is only a hint, and its memory is not used for anything else.
  void touch(std::uint32_t block) const noexcept {
    Word8& word = uses_[block / kGranulesPerUses];
    const std::uint8_t uses = word.load(kRelaxed);
    if (uses < kUsesMax) word.store(uses + 1, kRelaxed);
  }
  /// Returns how often the entry has been used recently, from 0 to kUsesMax. The benchmark of this limit is "Hits".
  Word8& uses(std::uint32_t block) const noexcept { return uses_[block / kGranulesPerUses]; }
  static constexpr std::uint8_t kUsesMax = 3;
  /// Does the same as touch(), for an entry that has replaced the entry at `old`.
  void touch_replacement(std::uint32_t block, std::uint32_t old) const noexcept {
    const std::uint8_t before = uses(old).load(kRelaxed);
    uses(block).store(before < kUsesMax ? before + 1 : before, kRelaxed);
  }

  static Word64* key_words(Entry& entry) noexcept { return reinterpret_cast<Word64*>(&entry + 1); }

  /// Returns whether the entry is live: it has not expired, was not flushed, and is not a lock or permits without a
  /// holder.
  static bool counts(const EntryView& view, std::uint32_t flush) noexcept;
  /// Returns whether the entry is a lock or permits that somebody holds or waits for.
  static bool is_in_use(const EntryView& view, std::uint32_t flush) noexcept;

  /// Says how a walk along a chain ended. Without the mutex, `damaged` may also mean that other processes are changing
  /// the chain.
  enum class Walk { stopped, end, damaged };
  /// The value that `at` returns to stop the walk.
  static constexpr std::uint32_t kStop = 0;
  /// Walks along the chain of `hash`. Calls at(block) for each entry with exactly this hash; at() returns how many
  /// granules the walk has passed there, or kStop. Afterwards, `link` leads to the block at which the walk ended.
  ///
  /// The walk always ends, whatever the words contain: all entries of a chain belong to its bucket and are distinct, so
  /// together they take no more granules than the arena has. `most` is a smaller limit, in granules.
  template <class At>
  Walk walk_chain(std::uint32_t hash, std::uint32_t most, std::memory_order order, Word32*& link,
                  At&& at) const noexcept;

  /// Walks to the key's position.
  Walk walk_to_key(const Key& key, std::memory_order order, Position& position) const noexcept;
  /// Finds the key's position. Returns false on damage.
  bool find(const Key& key, Position& position) const noexcept;

  /// Returns the link in the chain of this hash that leads to the entry, or null if there is none. `order` is as in
  /// walk_chain().
  Word32* link_to(const Entry* entry, std::uint32_t hash, std::memory_order order) const noexcept;

  /// Fills a block with key and value. REQUIRES: the block came from Arena::allocate with granules_for(key, value), and
  /// is not in a chain yet.
  void fill(std::uint32_t block, const Key& key, const ValueIn& value, std::uint64_t expiry) const noexcept;

  /// The result of a read. `torn` means that memory was released in the meantime, so a writer is active; try again.
  /// `damaged` means that no memory was released, but the words that were read are inconsistent, so the shard must be
  /// repaired.
  enum class Read { found, missing, no_room, torn, damaged };
  /// Copies the key's value, live or not, as it was at one moment during the call. Takes no lock.
  Read read(const Key& key, ValueOut& out) const noexcept;
  /// Does the same, inline (dict/shard_read.h).
  Read read_inline(const Key& key, ValueOut& out) const noexcept;

  /// Looks up the key's lock without the mutex. Returns its block, or 0 if the lock does not exist or was not found.
  /// The block was in its chain if unchanged_since() returns true afterwards for an epoch() that was loaded before.
  std::uint32_t find_lock_block(const Key& key) const noexcept;
  /// Returns whether the block is a lock with this key, whatever the block contains.
  bool is_lock(std::uint32_t block, const Key& key) const noexcept;
  /// Returns the fields of the lock with a key of this length. REQUIRES: find_lock_block() returned the block.
  LockFields& lock_of(std::uint32_t block, std::uint32_t key_length) const noexcept {
    return *reinterpret_cast<LockFields*>(key_words(entry(block)) + padded(key_length) / 8);
  }
  // Returns the reuse epoch. The acquire order pairs with the release store of the epoch. A reader that sees this epoch
  // also sees that the links were cut before it.
  std::uint64_t epoch() const noexcept { return header_->reuse_epoch.load(kAcquire); }
  // Returns whether no memory was released since that epoch. The acquire fence orders the loads of the read before the
  // load of the epoch. It pairs with the release fence between the writer's new epoch and its first store into the
  // released memory (Arena::release).
  bool unchanged_since(std::uint64_t epoch) const noexcept {
    std::atomic_thread_fence(kAcquire);
    return header_->reuse_epoch.load(kRelaxed) == epoch;
  }

  enum class Copy { whole, torn, damaged };
  /// Adds to `packed` the keys of one bucket that pass the filter, or leaves `packed` unchanged. Takes no lock.
  Copy copy_keys(std::uint32_t bucket, const KeyFilter& filter, PackedKeys& packed) const noexcept;
  /// Prefetches the entry at `block` and up to 16 bytes of its key. Any block number is allowed.
  void prefetch(std::uint32_t block) const noexcept {
    if (!holds_header(block)) return;
    const auto* at = reinterpret_cast<const char*>(&entry(block));
    __builtin_prefetch(at);
    __builtin_prefetch(at + sizeof(Entry) + 15);  // usually in the same cache line
  }
  /// Prefetches the first entry of a chain. The prefetch has no effect if the bucket contains a wrong block number.
  void prefetch_chain(std::uint32_t short_hash) const noexcept {
    __builtin_prefetch(&entry(bucket_of(short_hash).load(kRelaxed)));
  }

 private:
  static void describe(Entry& entry, std::uint32_t shape, EntryView& view) noexcept;
  /// Does the same as the public function. `shape` was loaded from the entry. REQUIRES: an Entry at `block` is inside
  /// the arena.
  bool inspect_keyed(std::uint32_t block, std::uint32_t shape, EntryView& view) const noexcept;
  /// Returns whether an entry of `granules` granules is inside the arena and its type is known.
  bool is_sound(std::uint32_t block, EntryView& view, std::uint64_t granules) const noexcept;
  Read find_and_copy(const Key& key, ValueOut& out, Position& position) const noexcept;
  bool copy_number(const Key& key, std::uint32_t block, std::uint32_t shape, ValueOut& out) const noexcept;
  Read copy_value(const EntryView& view, ValueOut& out) const noexcept;
  // Copies the holder of a lock. The view is passed by value, so that it can stay in registers during a plain read.
  static Read copy_lock(EntryView view, ValueOut& out) noexcept;
  Read copy_permits(EntryView view, ValueOut& out) const noexcept;
  Read copy_holder(const EntryView& view, std::uint32_t first, std::uint32_t block, std::uint64_t least,
                   ValueOut& out) const noexcept;
  bool inspect_holder(std::uint32_t block, std::uint32_t hash, EntryView& view) const noexcept;
  /// Returns where a search for the holder with this token may begin: far along the chain, but not beyond the holder.
  std::uint32_t link_before(const EntryView& permits, std::uint64_t sequence) const noexcept;
  bool add_keys(std::uint32_t bucket, const KeyFilter& filter, PackedKeys& packed) const noexcept;
  Read disturbed(Read result, EntryView view, const ValueOut& out, std::uint32_t hash,
                 std::uint64_t epoch) const noexcept;
  bool still_stands(EntryView view, std::uint32_t hash, std::uint64_t epoch) const noexcept;
  bool reserve_to(std::uint32_t end) noexcept;
  void put_mark_right() noexcept;

  ShardHeader* header_;
  Word32* buckets_;
  Word64* free_bits_;
  Word8* uses_;
  std::byte* arena_;
  std::uint32_t bucket_mask_;
  ProcessWord granules_;
  ProcessWord known_mark_;
  std::uint32_t all_granules_;
  Stripes stripes_;
  Shmtx mutex_;
  Word8* opened_;           // null: the whole shard is reserved
  ProcessWord refused_ms_;  // when a request for memory was last refused (lower half); 0: never
  const char* name_ = "";
};

// --- inline: on the path of every operation ---

/// The sizes of values of a type: from `least` to `least + more`. The size of an unknown type does not fit into any
/// arena.
struct Sizes {
  std::uint32_t least = ~0U;
  std::uint32_t more = 0;
};
inline constexpr auto kSizes = [] {
  std::array<Sizes, static_cast<std::size_t>(EntryType::watcher) + 1> sizes{};
  const auto of = [&sizes](EntryType type) -> Sizes& { return sizes[static_cast<std::size_t>(type)]; };
  of(EntryType::string) = of(EntryType::table) = of(EntryType::node) = {0, ~0U};
  of(EntryType::boolean) = of(EntryType::number) = of(EntryType::list) = {8, 0};
  of(EntryType::lock) = {sizeof(LockFields), sizeof(GateFields) + kGranulesPerLine * kGranule - 8};
  of(EntryType::permits) = {sizeof(PermitFields), 0};
  of(EntryType::holder) = {sizeof(HolderFields), kReasonMax};
  of(EntryType::waiter) = of(EntryType::watcher) = {sizeof(WaiterFields), 0};
  return sizes;
}();
inline bool is_plausible(EntryType type, std::uint32_t size) noexcept {
  const auto index = static_cast<std::size_t>(type);
  return index < kSizes.size() && size - kSizes[index].least <= kSizes[index].more;
}

inline void Shard::describe(Entry& entry, std::uint32_t shape, EntryView& view) noexcept {
  view.entry = &entry;
  view.type = Entry::type_of(shape);
  view.key_length = Entry::key_length_of(shape);
  view.value_size = entry.value_size.load(kRelaxed);
}

inline bool Shard::is_sound(std::uint32_t block, EntryView& view, std::uint64_t count) const noexcept {
  view.granules = static_cast<std::uint32_t>(count);
  return count <= granules() - block && is_plausible(view.type, view.value_size);
}

inline bool Shard::inspect(std::uint32_t block, EntryView& view) const noexcept {
  if (!holds_header(block)) return false;
  Entry& e = entry(block);
  describe(e, e.shape.load(kRelaxed), view);
  return is_sound(block, view,
                  view.type == EntryType::node ? granules_for_node(view.value_size)
                                               : granules_for(view.key_length, view.value_size));
}

inline bool Shard::inspect_keyed(std::uint32_t block, std::uint32_t shape, EntryView& view) const noexcept {
  describe(entry(block), shape, view);
  return has_key(view.type) && is_sound(block, view, granules_for(view.key_length, view.value_size));
}

inline bool Shard::inspect_keyed(std::uint32_t block, EntryView& view) const noexcept {
  return holds_header(block) && inspect_keyed(block, entry(block).shape.load(kRelaxed), view);
}

inline bool Shard::inspect_in(std::uint32_t bucket, std::uint32_t block, EntryView& view) const noexcept {
  return inspect_keyed(block, view) && same_bucket(view.entry->hash.load(kRelaxed), bucket);
}

/// Returns whether the entry has this key. REQUIRES: the entry's key has the same length, and is inside the arena.
[[gnu::always_inline]] inline bool key_equals(Entry& entry, const Key& key) noexcept {
  const Word64* words = Shard::key_words(entry);
  for (std::uint32_t at = 0; at < key.tail_at; at += 8, ++words)
    if (words->load(kRelaxed) != load_word(key.data + at)) return false;
  return (key.length & 7) == 0 || words->load(kRelaxed) == key.tail;
}

[[gnu::always_inline]] inline bool Shard::is_lock(std::uint32_t block, const Key& key) const noexcept {
  return holds_header(block) && granules_for(key.length, sizeof(LockFields)) <= granules() - block &&
         entry(block).shape.load(kRelaxed) == Entry::make_shape(key.length, EntryType::lock) &&
         key_equals(entry(block), key);
}

// `order` is acquire, which pairs with commit(), so that the entry behind a link is complete. The owner of the mutex
// uses relaxed.
template <class At>
[[gnu::always_inline]] inline Shard::Walk Shard::walk_chain(std::uint32_t hash, std::uint32_t most,
                                                            std::memory_order order, Word32*& link,
                                                            At&& at) const noexcept {
  link = &bucket_of(hash);
  std::uint32_t block = link->load(order);
  for (std::uint32_t walked = 0; holds_header(block) && walked < most;) {
    Entry& e = entry(block);
    const std::uint32_t found = e.hash.load(kRelaxed);
    std::uint32_t passed = 1;
    if (found == hash) {
      passed = at(block);
      if (passed == kStop) return Walk::stopped;
    } else if (!same_bucket(found, hash)) {
      return Walk::damaged;
    }
    walked += passed;
    link = &e.next;
    block = link->load(order);
  }
  return block == 0 ? Walk::end : Walk::damaged;
}

// This runs for every lock and unlock, so it only compares the entry with what the entry of a lock must contain, and
// does not interpret entries of other types. The key is compared after the walk, which then needs fewer registers. As a
// consequence, another key with the same hash and length can hide the lock.
[[gnu::always_inline]] inline std::uint32_t Shard::find_lock_block(const Key& key) const noexcept {
  const std::uint32_t shape = Entry::make_shape(key.length, EntryType::lock);
  std::uint32_t found = 0;
  Word32* link = nullptr;
  walk_chain(key.short_hash(), granules(), kAcquire, link, [&](std::uint32_t block) noexcept {
    if (entry(block).shape.load(kRelaxed) != shape) return std::uint32_t{1};
    found = block;
    return kStop;
  });
  return is_lock(found, key) ? found : 0;
}

// The granules of an entry whose key is compared count in full, so all compared keys together are no longer than the
// arena.
[[gnu::always_inline]] inline Shard::Walk Shard::walk_to_key(const Key& key, std::memory_order order,
                                                             Position& position) const noexcept {
  position.block = 0;
  bool sound = true;
  const auto at = [&](std::uint32_t block) noexcept {
    const std::uint32_t shape = entry(block).shape.load(kRelaxed);
    if (Entry::key_length_of(shape) != key.length) return std::uint32_t{1};
    sound = inspect_keyed(block, shape, position.view);
    if (!sound) return kStop;
    if (!key_equals(entry(block), key)) return position.view.granules;
    position.block = block;
    return kStop;
  };
  const Walk walk = walk_chain(key.short_hash(), granules(), order, position.link, at);
  return sound ? walk : Walk::damaged;
}

inline bool Shard::find(const Key& key, Position& position) const noexcept {
  return walk_to_key(key, kRelaxed, position) != Walk::damaged;
}

}  // namespace holdfast
