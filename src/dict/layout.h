// The layout of a dictionary's segment. docs/format.md describes the offsets and the geometry; change both files
// together.
//
//   header page | bytes of shards | shard 0 | shard 1 | ... | statistics (dict/statistics_layout.h) | stripes
//   each shard:  ShardHeader | buckets | free bits | uses | arena
//
// A byte of each shard says whether the shard was ever opened. These bytes exist only if there are several shards. The
// stripes (dict/versions.h) exist only in a dictionary with versions. Each shard has the same number of stripes, and
// the stripes are in the order of the shards.
//
// The chains (bucket heads and Entry::next) and the blocks that they reach define the content of a dictionary.
// Everything marked "derived" can be rebuilt from them. repair() (dict/repair.h) rebuilds or resets it after the owner
// of a shard's mutex died. Everything marked "hint" may be wrong without harm to any key.
//
// An arena is divided into granules of 16 bytes. A block is a run of granules, and is identified by the number of its
// first granule. Granule 0 is never allocated, so 0 means "none". Every block that is not free is an Entry (in a chain,
// or a waiter, watcher or holder) or a ListNode. Both contain their size, so an arena can be read from left to right.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "dict/gate.h"
#include "dict/statistics_layout.h"
#include "sync/shmtx.h"
#include "world/world_file.h"

namespace holdfast {

inline constexpr std::uint32_t kGranule = 16;
/// The number of granules with a common use count. The benchmark is "Hits".
inline constexpr std::uint32_t kGranulesPerUses = 4;

/// Counts of reads, in the header page. Each record is a cache line, so that up to kReadCounts - 1 processes do not
/// disturb each other. A process uses the record whose number is its slot modulo kReadCounts - 1. A process without a
/// slot uses the last record.
struct alignas(64) ReadCounts {
  Word64 hits;
  Word64 misses;
};
inline constexpr std::uint32_t kReadCounts = 56;

/// The part of the header page after the FileHeader.
struct DictionaryHeader {
  FileHeader file;

  // These words are constant after creation.
  std::uint32_t strategy;  // MutexStrategy
  std::uint32_t shards;
  std::uint64_t seed;  // of the hash

  // Each word below is constant, or is changed by single atomic operations. The first cache line changes rarely.
  alignas(64) Word32 flush_epoch;   // entries of another epoch are flushed; 20 bits are used
  std::uint32_t any_size;           // constant; 1: nobody has asked for this size
  std::uint64_t seed_complement;    // complement of `seed`, because a process with a wrong seed would find no locks
  Word32 counted_units;             // one bit for each unit of the statistics that was ever reserved
  std::uint32_t shards_complement;  // ~(shards ^ stripes), constant: shows whether one of the two was overwritten
  std::uint32_t stripes;            // constant: the number of stripes of each shard; 0: keys have no versions
  alignas(64) Word64 sequence;      // last fencing token given out (dict/fencing.h)
  Word64 range;                     // the range of `sequence`, unless one of the two words was overwritten
  Word64 range_copy;                // a copy of `range`, sealed (world/fencing.h)
  Word64 given;                     // the last fencing token again, written after `sequence`

  std::array<ReadCounts, kReadCounts> reads;

  GateHeader gate;
};
static_assert(sizeof(DictionaryHeader) <= kHeaderBytes && offsetof(DictionaryHeader, gate) == 3840);

/// Free blocks of 1 to 63 granules have a bin for each size. Longer blocks have four bins for each power of two. The
/// number of the bin is 64 + (log2 - 6) * 4 + the two bits after the leading bit of the size. Benchmarks:
/// arena_mixed_sizes, and "set, 10k strings of 1 KB".
inline constexpr std::uint32_t kExactBins = 64;
/// No block has 0 granules, so this bin is used for the spare block (Arena::keep), if there is one. The map does not
/// have a bit for this bin.
inline constexpr std::uint32_t kSpareBin = 0;
inline constexpr std::uint32_t kBins = kExactBins + 26 * 4;
inline constexpr std::uint32_t kBinWords = (kBins + 63) / 64;

struct ShardHeader {
  ShmtxState mutex;

  /// Says how much of the arena is reserved, as a ReservedMark (dict/reserved.h). It is 0 in a dictionary of one shard,
  /// and in a shard that was never used. It is written with the mutex held, and each owner of the mutex reads it.
  Word32& reserved() noexcept { return mutex.note; }

  /// Counts the releases of memory that a chain once reached. A reader that finds the count unchanged has only read
  /// memory that was reachable when the read began.
  alignas(64) Word64 reuse_epoch;
  // Counts of events, shown to users. They are written with the mutex held, and only if a waiter is involved, because
  // they share the cache line of the epoch, which every reader loads.
  Word64 lock_waits;        // how often a waiter queued
  Word64 lock_wakes;        // how often a waiter was woken
  Word64 lock_reserved_ms;  // total time for which locks were reserved for waiters that had not claimed them
  Word32 no_room;           // the smallest size that a search failed to find even with eviction; 0: unknown. Derived
  Word32 failed;            // hint: when a search that seemed possible last failed (µs, lower half); 0: not lately

  // The mutex guards the words below. They are derived: repair rebuilds or resets them. There are two exceptions:
  // `repairs`, `evictions` and `expirations` count events and survive a repair, and `reclaim_flush` is a hint, which
  // repair leaves unchanged.
  alignas(64) Word32 free_granules;
  Word32 entries;        // chained entries, live or not
  Word32 perhaps_free;   // entries that can perhaps be reclaimed: free permits, and all locks
  Word32 reclaim_flush;  // flush epoch at the last sweep for dead entries
  Word64 reclaim_after;  // no entry expires before this time (ms): a sweep before it finds nothing
  Word64 repairs;        // how often the shard was rebuilt
  Word32 waiters;        // number of waiter and watcher blocks, which take at most a quarter of the arena
  Word32 hand;           // where the clock sweep continues: the beginning of a block; 0: at the beginning of the arena
  Word32 no_run;         // the same as no_room, but without eviction
  Word32 rest_until;     // until this time, a sweep is the last resort, because the last sweep found little (ms, lower
                         // half)
  Word64 evictions;      // live entries that were removed to make room
  Word64 expirations;    // expired or flushed entries that were reclaimed
  std::array<Word64, kBinWords> bin_map;
  std::array<Word32, kBins> bins;

  Word32 in_use;  // 0: never used; all words except mutex and mark are then 0, and the arena is one unmarked free run
  Word32 asked;   // hint: when a search for dead owners last found none (µs, lower half); 0: not lately
};

// docs/format.md states these offsets.
static_assert(sizeof(ShardHeader) == 896 && offsetof(ShardHeader, no_room) == 96 &&
              offsetof(ShardHeader, bins) == 216 && offsetof(ShardHeader, in_use) == 888);

/// The type of an entry. `table` is a table that the host has serialised.
enum class EntryType : std::uint8_t {
  boolean = 1,
  number = 3,
  string = 4,
  table = 5,
  list = 6,
  lock = 8,
  waiter = 9,  // not in a chain, but in the queue of a lock or of permits
  node = 10,   // a ListNode
  permits = 11,
  holder = 12,   // not in a chain of keys, but attached to the entry of a lock or of permits
  watcher = 13,  // not in a chain, but in a lock's queue of watchers, which only wait for a grant to end
};

/// Returns whether an entry of this type may be in a chain, under a key.
constexpr bool has_key(EntryType type) noexcept {
  switch (type) {
    case EntryType::boolean:
    case EntryType::number:
    case EntryType::string:
    case EntryType::table:
    case EntryType::list:
    case EntryType::lock:
    case EntryType::permits:
      return true;
    default:
      return false;
  }
}
/// Returns whether entries of this type are held rather than stored. A free entry of such a type stays until its memory
/// is needed.
constexpr bool is_holdable(EntryType type) noexcept { return type == EntryType::lock || type == EntryType::permits; }

/// An entry of a chain, or a waiter, watcher or holder. The key follows the header, then the value, each padded with
/// zero bytes to a multiple of 8. As long as a chain reaches the entry, everything except next and expiry is constant.
/// There are three exceptions, which change by single stores to their words: a number, the ends of a list, and the
/// fields of a lock or of permits.
struct Entry {
  Word32 next;        // block of the next entry of the chain; 0 ends it
  Word32 hash;        // lower half of the key's hash; in a waiter: the block before it in its queue
  Word32 shape;       // key length (low 16 bits), EntryType (next 8)
  Word32 value_size;  // bytes
  Word32 flags;       // the user's flags; in a list: its last node, derived; in permits: PermitsKind; in a waiter: its
                      // number; in a holder: see shortcut_of()
  Word32 stamp;   // lower half of the shard's reuse epoch when it was filled; in a waiter: its traits; in a holder: see
                  // shortcut_of()
  Word64 expiry;  // dict/expiry.h

  static constexpr std::uint32_t make_shape(std::uint32_t key_length, EntryType type) noexcept {
    return key_length | static_cast<std::uint32_t>(type) << 16;
  }
  static constexpr std::uint32_t key_length_of(std::uint32_t shape) noexcept { return shape & 0xFFFF; }
  static constexpr EntryType type_of(std::uint32_t shape) noexcept {
    return static_cast<EntryType>(shape >> 16 & 0xFF);
  }
};
static_assert(sizeof(Entry) == 32);

/// An element of a list, followed by its value, padded. Its first four words have the same layout as those of an Entry.
/// Everything except next and previous is constant while the list reaches the element.
struct ListNode {
  Word32 next;        // block of the next node; meaningless in the last node
  Word32 hash;        // lower half of the hash of the list's key
  Word32 shape;       // EntryType::node in bits 16..23, the value's EntryType (number or string) in bits 24..31
  Word32 value_size;  // bytes
  Word32 previous;    // block of the previous node; meaningless in the first node. Derived
  Word32 spare;
};
static_assert(sizeof(ListNode) == 24);

/// The value of a list entry. It is one word, so that every change of the list is one store. The list consists of the
/// first node and the nodes reached by `length` - 1 steps along `next`. The last node follows from these; Entry::flags
/// contains its block (derived).
struct ListFields {
  Word64 word;  // ListEnds: first, length
};

struct ListEnds {
  std::uint32_t first;
  std::uint32_t last;
  std::uint32_t length;

  constexpr std::uint64_t word() const noexcept { return std::uint64_t{first} << 32 | length; }
  static constexpr ListEnds of(std::uint64_t word, std::uint32_t last) noexcept {
    return {static_cast<std::uint32_t>(word >> 32), last, static_cast<std::uint32_t>(word)};
  }
  static constexpr std::uint32_t length_of(std::uint64_t word) noexcept { return static_cast<std::uint32_t>(word); }
};

/// The waiters of an entry: the ends of a chain of waiter blocks. The queue is derived and only a hint, because repair
/// empties it.
struct QueueFields {
  Word32 head;
  Word32 tail;
};

/// The value of a lock entry. dict/lock_word.h says which of its words may change when. The value is padded so that the
/// entry fills whole cache lines, and processes with different locks do not disturb each other.
struct LockFields {
  Word64 word;  // LockWord: the commit word of a grant and of its end
  QueueFields queue;
  QueueFields watchers;    // waiters for the end of a grant, which do not want the lock
  Word32 sequence_high;    // upper half of the grant's fencing token; the word contains the lower half
  Word32 limit;            // the last turn of the lock's block of fencing tokens
  Word32 granted;          // the turn (dict/lock_word.h) to which these fields belong
  Word32 generation_high;  // bits of the owner's generation that do not fit into the word
  Word32 reserved;         // the owner's waiter to which a release granted the lock, until it claims the lock; 0: none
  Word32 task;             // task of the owner that counts as the holder; 0: none
  Word32 reason;           // block of a holder with the reason why the lock is held; 0: none
  Word32 overtakes;        // number of grants that overtook a waiter; wraps; a hint, which only affects fairness
  Word64 since;            // Since: when the grant was made, and whether its length is measured
};
static_assert(sizeof(LockFields) == 64);

/// The value of a waiter block. Entry::flags contains the waiter's number, Entry::expiry its deadline, and Entry::stamp
/// its traits (dict/wait_queue.cc). `woken` and `first` are in units of 1024 ns, and wrap. In a watcher, `want` and
/// `overtakes` are the lower and the upper half of the grant's fencing token, and `woken` and `first` are 0.
struct WaiterFields {
  Word64 owner;      // Token of the waiting process
  Word64 arrival;    // when the wait began (ns)
  Word32 want;       // number of permits that the waiter wants
  Word32 overtakes;  // the entry's `overtakes` when this waiter became the first
  Word32 woken;      // when it was woken to claim the lock or permits; 0: not woken, or it has responded since
  Word32 first;      // when it became the first of the queue; 0: not known to be the first
};
static_assert(sizeof(WaiterFields) == 32);

/// The value of Entry::flags in a permits entry.
enum class PermitsKind : std::uint32_t { rwlock = 0, semaphore = 1 };
/// The number of permits of an rwlock. A writer has all of them, and a reader has one. A semaphore has fewer permits.
inline constexpr std::uint32_t kAllPermits = std::uint32_t{1} << 30;
/// The number of permits for which a reader of an rwlock waits to become the writer.
inline constexpr std::uint32_t kAllButOwn = kAllPermits - 1;

/// The number of shortcuts along a chain of holders, which are derived from the chain. About one in 32 holders has a
/// link to the next such holder, in Entry::flags. About one in 32 of these has a second link, to the next holder with a
/// second link, in Entry::stamp. A link without a target is 0, and so are the words of a holder that has no links. The
/// benchmark is "Many holders of one key", row "release".
inline constexpr std::uint32_t kShortcuts = 2;

/// Returns how many links besides `next` the holder with this fencing token has. The result is evenly distributed over
/// consecutive tokens, and over every n-th token. Token 0 has none.
constexpr std::uint32_t shortcut_levels(std::uint64_t sequence) noexcept {
  constexpr std::uint32_t kBits = 5;
  constexpr std::uint32_t kMask = (1U << kBits) - 1;
  std::uint64_t mixed = sequence * 0x9E3779B97F4A7C15;
  mixed = (mixed ^ mixed >> 32) * 0xD6E8FEB86659FD93;
  const auto bits = static_cast<std::uint32_t>(mixed >> (64 - 2 * kBits));
  if ((bits & kMask) != kMask) return 0;
  return bits >> kBits == kMask ? 2 : 1;
}

/// Returns the holder's link to the next holder with at least `level` links besides `next`. `level` is 1 to kShortcuts.
inline Word32& shortcut_of(Entry& holder, std::uint32_t level) noexcept {
  return level == 1 ? holder.flags : holder.stamp;
}

/// The value of a permits entry. Only the chain of holders says which processes have permits. The entry's expiry is
/// never earlier than the expiry of any holder.
struct PermitFields {
  Word32 total;
  Word32 holders;  // block of the first holder; 0: no permit is taken
  QueueFields queue;
  Word32 used;                               // derived: the sum of the holders' counts
  Word32 overtakes;                          // as in a lock entry
  std::array<Word32, kShortcuts> shortcuts;  // derived: block of the first holder with that many links besides `next`
  Word32 number;                             // derived: the number of holders
  Word32 looked;                             // derived: when all holders were last checked (ms, lower half); 0: unknown
  Word64 next_end;                           // derived: no holder ends before this time (ms)
};
static_assert(sizeof(PermitFields) == 48);

/// The maximum length, in bytes, of a reason, which is a text that says why something is held.
inline constexpr std::uint32_t kReasonMax = 127;

/// The value of a holder block. Entry::expiry contains its end, and Entry::hash contains the hash of its entry's key.
/// The reason follows these fields. Along a chain of holders, the fencing tokens descend, except for lost tokens.
struct HolderFields {
  Word64 owner;     // Token
  Word64 sequence;  // fencing token of the grant; 0: overwritten and lost
  Word64 since;     // as in a lock entry
  Word32 count;     // permits of this grant
  Word32 task;      // task of the owner that counts as the holder; 0: none
};
static_assert(sizeof(HolderFields) == 32);

constexpr std::uint64_t padded(std::uint64_t bytes) noexcept { return (bytes + 7) & ~std::uint64_t{7}; }

/// The maximum size of a value, in bytes, that an entry can express (Entry::value_size).
inline constexpr std::uint64_t kValueMax = ~std::uint32_t{0};
/// The number of granules in a cache line.
inline constexpr std::uint32_t kGranulesPerLine = 4;
/// Returns the size of a lock's value for a key of this length, so that the entry fills whole cache lines. `has_gate`
/// says whether the value includes GateFields.
constexpr std::uint32_t lock_size(std::uint64_t key_length, bool has_gate) noexcept {
  constexpr std::uint64_t kLine = std::uint64_t{kGranulesPerLine} * kGranule;
  const std::uint64_t fields = sizeof(LockFields) + (has_gate ? sizeof(GateFields) : 0);
  const std::uint64_t behind = (sizeof(Entry) + padded(key_length) + fields) % kLine;
  return static_cast<std::uint32_t>(fields + (behind != 0 ? kLine - behind : 0));
}

/// A number of granules that no arena has. Adding another number of granules to it does not overflow.
inline constexpr std::uint64_t kNeverFits = std::uint64_t{1} << 63;

/// Returns the size, in granules, of a block with this key and value. REQUIRES, here and below: the value has at most
/// kValueMax bytes.
constexpr std::uint64_t granules_for(std::uint64_t key_length, std::uint64_t value_size) noexcept {
  return (sizeof(Entry) + padded(key_length) + padded(value_size) + kGranule - 1) / kGranule;
}
constexpr std::uint64_t granules_for_node(std::uint64_t value_size) noexcept {
  return (sizeof(ListNode) + padded(value_size) + kGranule - 1) / kGranule;
}

}  // namespace holdfast
