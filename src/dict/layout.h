// What lies where in a dictionary's segment. docs/format.md tells the same story byte by byte.
//
//   header page | shard 0 | shard 1 | ...        each shard:  ShardHeader | buckets | free bits | marks | arena
//
// The chains (bucket heads and Entry::next) and what they reach are the only truth. Everything marked "derived" can be
// rebuilt from them, and is, when the owner of a shard's mutex died (dict/repair.h).
//
// An arena is cut into granules of 16 bytes; a block is a run of granules, named by the number of its first one.
// Granule 0 is never handed out, so 0 can mean "none". Whatever is not free is an Entry (an entry of a chain, or a
// waiter, or a hold) or a ListNode, which tell their size: an arena can be read from left to right.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "sync/shmtx.h"
#include "world/world_file.h"

namespace holdfast {

inline constexpr std::uint32_t kGranule = 16;
/// Granules that share a mark of use.
inline constexpr std::uint32_t kGranulesPerMark = 4;

/// Counts of reads, in the header page: one for each of so many process slots, so that nobody writes where others do.
struct alignas(64) ReadCounts {
  Word64 hits;
  Word64 misses;
};
inline constexpr std::uint32_t kReadCounts = 56;

/// The header page, behind the FileHeader.
struct DictionaryHeader {
  FileHeader file;

  // Constant after creation.
  std::uint32_t strategy;  // MutexStrategy
  std::uint32_t shards;
  std::uint64_t seed;  // of the hash

  // One atomic step each, but for the complement, which is constant.
  alignas(64) Word32 flush_epoch;  // entries of another epoch are flushed; 20 bits are used
  std::uint64_t seed_complement;   // a process with another seed would find none of the locks
  alignas(64) Word64 sequence;     // last fencing number given out (dict/fencing.h)
  Word64 range;                    // the range it is of; else it was overwritten
  Word64 range_copy;               // sealed (world/fencing.h)
  Word64 given;                    // last fencing number once more, written after it

  std::array<ReadCounts, kReadCounts> reads;
};
static_assert(sizeof(DictionaryHeader) <= kHeaderBytes);

/// Blocks of 1..63 granules have a bin each; longer ones four bins per power of two.
inline constexpr std::uint32_t kExactBins = 64;
inline constexpr std::uint32_t kBins = kExactBins + 26 * 4;
inline constexpr std::uint32_t kBinWords = (kBins + 63) / 64;

struct ShardHeader {
  ShmtxState mutex;

  /// Counts the times that memory a chain once reached was given free. A reader that finds it unchanged has read only
  /// what was reachable when it began.
  alignas(64) Word64 reuse_epoch;
  // Written with the mutex held, and only where somebody has to wait; for people.
  Word64 lock_waits;        // times that a waiter queued
  Word64 lock_wakes;        // times that one was woken
  Word64 lock_reserved_ms;  // for so long, all together, locks were granted to waiters that had yet to claim them

  // Derived, guarded by the mutex.
  alignas(64) Word32 free_granules;
  Word32 entries;        // chained entries, live or not
  Word32 free_locks;     // lock entries that nobody holds: memory to be had
  Word32 reclaim_flush;  // flush epoch at the last sweep for dead entries
  Word64 reclaim_after;  // no entry expires before this time (ms): a sweep before it finds nothing
  Word64 repairs;        // times the shard was rebuilt
  Word32 waiters;        // waiter blocks; at most a quarter of the arena is theirs
  Word32 hand;           // where the search for something to evict goes on: the beginning of a block; 0: of the arena
  Word32 no_run;         // no free block is this long, nor can one be made without evicting; 0: not known
  Word32 rest_until;  // no sweep before this time (ms, lower half) but for want of anything else: the last found little
  Word64 evictions;   // live entries that gave way to others
  Word64 expirations;  // expired or flushed entries whose memory was taken back
  std::array<Word64, kBinWords> bin_map;
  std::array<Word32, kBins> bins;

  Word32 in_use;  // 0: never was; all of the shard is zero then, and its arena one free run that does not say so
  Word32 asked;   // when dead owners were last looked for in vain (µs, lower half); 0: not lately
};

// docs/format.md names these offsets.
static_assert(sizeof(ShardHeader) == 896 && offsetof(ShardHeader, lock_reserved_ms) == 88 &&
              offsetof(ShardHeader, bins) == 216 && offsetof(ShardHeader, in_use) == 888);

/// `table`: bytes that the host made of a table of its own.
enum class EntryType : std::uint8_t {
  boolean = 1,
  number = 3,
  string = 4,
  table = 5,
  list = 6,
  lock = 8,
  waiter = 9,  // not in a chain, but in a lock's queue
  node = 10,   // a ListNode
  permits = 11,
  holder = 12,   // not in a chain, but on a lock's or a permits entry
  watcher = 13,  // not in a chain, but in a lock's queue of those who only wait for a grant to end
};

/// What may stand in a chain under a key.
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
/// Entries that are held, not stored: they stay when nobody holds them, until their memory is needed.
constexpr bool is_holdable(EntryType type) noexcept { return type == EntryType::lock || type == EntryType::permits; }

/// An entry of a chain, or a waiter of a lock's queue. Behind the header: the key, then the value, each padded with
/// zero bytes to a multiple of 8. Everything but next and expiry is constant while a chain reaches the entry; a number,
/// a list's ends and a lock's fields change by single stores of their words.
struct Entry {
  Word32 next;        // block of the next entry of the chain; 0 ends it
  Word32 hash;        // lower half of the key's hash
  Word32 shape;       // key length (low 16 bits), EntryType (next 8)
  Word32 value_size;  // bytes
  Word32 flags;       // the user's; a waiter's number
  Word32 stamp;       // lower half of the shard's reuse epoch when it was filled; of a waiter: what it is like
  Word64 expiry;      // dict/expiry.h

  static constexpr std::uint32_t make_shape(std::uint32_t key_length, EntryType type) noexcept {
    return key_length | static_cast<std::uint32_t>(type) << 16;
  }
  static constexpr std::uint32_t key_length_of(std::uint32_t shape) noexcept { return shape & 0xFFFF; }
  static constexpr EntryType type_of(std::uint32_t shape) noexcept {
    return static_cast<EntryType>(shape >> 16 & 0xFF);
  }
};
static_assert(sizeof(Entry) == 32);

/// An element of a list. Behind it: the value, padded. Its first four words lie as an Entry's. Constant while the list
/// reaches it, but for next and previous.
struct ListNode {
  Word32 next;        // block of the next node; of the last one, without a meaning
  Word32 hash;        // lower half of the hash of the list's key
  Word32 shape;       // EntryType::node in bits 16..23, the value's EntryType (number or string) in bits 24..31
  Word32 value_size;  // bytes
  Word32 previous;    // block of the node before; of the first one, without a meaning. Derived: repair rebuilds it
  Word32 spare;
};
static_assert(sizeof(ListNode) == 24);

/// Value of a list entry: one word, so that every change of the list is one store. The nodes are those reached from the
/// first by `length` - 1 steps along `next`: `last` is derived from that, too, and repair puts it right.
struct ListFields {
  Word64 ends;  // ListEnds, packed
};

struct ListEnds {
  std::uint32_t first;
  std::uint32_t last;
  std::uint32_t length;

  static constexpr std::uint32_t kBits = 21;  // enough for the granules of any arena (dict/geometry.cc)
  static constexpr std::uint32_t kMask = (1U << kBits) - 1;
  constexpr std::uint64_t packed() const noexcept {
    return std::uint64_t{first} << 2 * kBits | std::uint64_t{last} << kBits | length;
  }
  static constexpr ListEnds of(std::uint64_t word) noexcept {
    return {static_cast<std::uint32_t>(word >> 2 * kBits) & kMask, static_cast<std::uint32_t>(word >> kBits) & kMask,
            static_cast<std::uint32_t>(word) & kMask};
  }
};

/// Who waits for an entry: the ends of a chain of waiter blocks. Derived, and only a hint.
struct QueueFields {
  Word32 head;
  Word32 tail;
};

/// Value of a lock entry. `owner` is the commit word: sequence, reserved and since are written while it is 0.
struct LockFields {
  Word64 owner;     // Token; 0: nobody
  Word64 sequence;  // fencing number of the grant
  QueueFields queue;
  QueueFields watchers;  // who waits for a grant to end, without wanting the lock
  Word32 reserved;       // not 0: granted by a release to this waiter of the owner, who has yet to claim it
  Word32 task;           // which coroutine of the owner is taken for the holder; 0: none
  Word64 since;          // time of the grant (ms)
  Word32 reason;         // block of a hold that says why; 0: none
  Word32 overtakes;      // grants to somebody who came later than a waiter of the queue; wraps. Derived
};
static_assert(sizeof(LockFields) == 56);

/// Value of a waiter block. Its number stands in Entry::flags, its patience's end in Entry::expiry, and what it is like
/// in Entry::stamp: bit 0 it is fair, bit 1 it is present, from bit 2 on how long its loop takes to come when it is
/// woken. That, `woken` and `first` are in units of 1024 ns, and these two wrap. A watcher's is the same, but that
/// `want` and `passes` are the lower and the upper half of the grant's fencing number, and `woken` and `first` 0.
struct WaiterFields {
  Word64 owner;      // Token of the waiting process
  Word64 arrival;    // when the wait began (ns)
  Word32 want;       // how many permits
  Word32 overtakes;  // the entry's when this became the first
  Word32 woken;      // when it was woken to come for what is free, or granted to it; 0: it was not, or has come
  Word32 first;      // when it became the first of the queue; 0: it is not known to be
};
static_assert(sizeof(WaiterFields) == 32);

/// What Entry::flags of a permits entry says.
enum class PermitsKind : std::uint32_t { rwlock = 0, semaphore = 1 };
/// The permits of a rwlock: who writes has them all, who reads has one. A semaphore has less.
inline constexpr std::uint32_t kAllPermits = std::uint32_t{1} << 30;

/// Value of a permits entry. Who has permits is said by the chain of holds alone. The entry's expiry is not before the
/// end of any of them.
struct PermitFields {
  Word32 total;
  Word32 holders;  // block of the first hold; 0: nobody has any
  QueueFields queue;
  Word32 used;       // derived: the holds' counts together
  Word32 overtakes;  // as a lock's
};
static_assert(sizeof(PermitFields) == 24);

/// Bytes of the text that says why something is held.
inline constexpr std::uint32_t kWhyMax = 127;

/// Value of a hold block. Its end stands in Entry::expiry, the hash of the key in Entry::hash, and the text that says
/// why behind it.
struct HolderFields {
  Word64 owner;     // Token
  Word64 sequence;  // fencing number of the grant
  Word64 since;     // time of the grant (ms)
  Word32 count;     // how many permits
  Word32 task;      // which coroutine of the owner is taken for the holder; 0: none
};
static_assert(sizeof(HolderFields) == 32);

constexpr std::uint64_t padded(std::uint64_t bytes) noexcept { return (bytes + 7) & ~std::uint64_t{7}; }

/// Granules of a block with this key and value.
constexpr std::uint64_t granules_for(std::uint64_t key_length, std::uint64_t value_size) noexcept {
  return (sizeof(Entry) + padded(key_length) + padded(value_size) + kGranule - 1) / kGranule;
}
constexpr std::uint64_t granules_for_node(std::uint64_t value_size) noexcept {
  return (sizeof(ListNode) + padded(value_size) + kGranule - 1) / kGranule;
}

}  // namespace holdfast
