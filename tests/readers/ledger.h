// The memory that the test's processes (or threads) share outside the dictionary.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "crash/ledger.h"
#include "readers/value.h"
#include "support/dict.h"

namespace holdfast::readers {

inline constexpr std::uint32_t kWritersMax = 4;
inline constexpr std::uint32_t kReadersMax = 8;
inline constexpr std::uint32_t kMixersMax = 4;

/// Returns the number of each writer's keys of this kind.
constexpr std::uint32_t keys_of_kind(Kind kind) noexcept {
  switch (kind) {
    case Kind::string:
      return 6;
    case Kind::list_length:
    case Kind::held_lock:
    case Kind::passing_lock:
      return 2;
    case Kind::coming_string:
      return 12;
    default:
      return 4;
  }
}
constexpr std::uint32_t keys_per_writer() noexcept {
  std::uint32_t sum = 0;
  for (int kind = 0; kind < kKinds; ++kind) sum += keys_of_kind(static_cast<Kind>(kind));
  return sum;
}
inline constexpr std::uint32_t kKeysMax = kWritersMax * keys_per_writer();

struct KeyInfo {
  std::uint32_t number;
  std::uint32_t writer;  // the only writer that changes the key
  Kind kind;
  std::string name;
  bool always_there;
};

/// The kinds of keys that a run uses. If writers are killed, their locks become free, so readers cannot know what a
/// lock must look like.
enum class Kinds { all, passing_locks, no_locks };
std::vector<KeyInfo> make_keys(std::uint32_t writers, Kinds kinds);

struct alignas(64) Written {
  std::atomic<std::uint32_t> version;  // the last version that was certainly stored
};

/// Plain words, one for each version. A word is written before its version is stored, and read after the version is
/// loaded. Only the dictionary makes these accesses safe.
inline constexpr std::uint32_t kNotes = 1U << 20;
using Notes = std::array<std::uint32_t, kNotes>;

struct alignas(64) Reader {
  std::array<std::atomic<std::uint64_t>, kKinds> reads;
  std::atomic<std::uint64_t> missing;  // number of reads of keys that may not have been stored
};

inline constexpr std::uint64_t kGrants = 1U << 22;

struct Ledger {
  std::array<Written, kKeysMax> written;
  std::array<std::atomic<std::uint64_t>, kWritersMax> tokens;
  std::array<std::atomic<std::uint64_t>, kKeysMax> leases;  // fencing tokens of held locks
  std::array<std::atomic<std::uint8_t>, kGrants> grants;    // writer and term plus 1, by fencing token
  std::array<Notes, kWritersMax> notes;
  std::array<Reader, kReadersMax> readers;
  std::array<std::atomic<std::uint64_t>, kWritersMax> writes;
  std::array<std::atomic<std::uint32_t>, kWritersMax> versions;  // the last version that a writer began to store
  std::array<std::atomic<std::uint64_t>, kMixersMax> mixed;
  std::atomic<std::uint64_t> begin_ms;
  std::atomic<std::uint32_t> ready;
  std::atomic<bool> mixers_stop;
  std::atomic<bool> writers_stop;

  // The expected values of the words that all mixers change.
  std::array<std::atomic<std::uint64_t>, kMixersMax> increments;
  std::array<std::atomic<std::uint64_t>, kMixersMax> swaps;
  std::array<std::atomic<std::uint64_t>, kMixersMax> sections;
  std::uint64_t guarded;  // guarded by a lock in the dictionary

  crash::Violations violations;
};

/// The parameters of a run.
struct Shape {
  const char* name;
  std::uint64_t size;
  double share;  // share of all reads that this run makes
  bool safe;     // nothing may be evicted, so permanent keys must always be found
  Kinds kinds;
  bool kills;            // writers are killed and replaced
  std::uint32_t filler;  // number of entries that take the rest of the memory, so that all stores must make room

  /// Returns whether memory is full, but nothing may be evicted. If so, only calls that never evict may be made.
  bool tight() const noexcept { return safe && filler != 0; }
};

struct Work {
  test::Dict& dict;
  const Shape& shape;
  const std::vector<KeyInfo>& keys;
  Ledger& ledger;
  std::uint32_t self;
  std::uint64_t seed;
};

/// Writes until ledger.writers_stop is set.
void write(const Work& work, std::uint32_t writers);
/// Reads until this many reads have found a value.
void read(const Work& work, std::uint64_t reads);
/// Makes all other calls to a dictionary, until ledger.mixers_stop is set.
void mix_in(const Work& work);
/// Stores the words that mixers change, because there may be no room for them later. Call this function first.
void prepare_mixed(test::Dict& dict);
/// Checks that no count of the mixers was lost. REQUIRES: all mixers have ended.
void check_mixed(test::Dict& dict, Ledger& ledger);

}  // namespace holdfast::readers
