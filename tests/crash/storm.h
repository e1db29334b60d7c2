// The parts that the files of the kill storm share: the workers' actions, their ledger, and the invariants that are
// checked.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "crash/ledger.h"
#include "support/dict.h"

namespace holdfast::crash {

inline constexpr int kWorkers = 4;
inline constexpr int kCounters = 8;
inline constexpr int kLocks = 4;
inline constexpr int kValues = 40;
inline constexpr int kLists = 3;
inline constexpr std::size_t kPools = 4;  // the first half are read-write locks, the other half semaphores
/// The number of unique elements. When all have been pushed, lists only become shorter.
inline constexpr std::uint32_t kElements = 1 << 21;
/// For this many lives of each worker, the times of the kills are kept, so that a successor can look them up.
inline constexpr std::uint64_t kLivesKept = 1024;

struct Worker {
  std::atomic<std::uint64_t> calls;
  std::atomic<std::uint64_t> life;  // number of this worker's current process
  // acknowledged[] counts calls that have returned. in_flight is one more than the number of the counter that the call
  // in progress changes.
  std::array<std::atomic<std::uint64_t>, kCounters> acknowledged;
  std::atomic<std::uint32_t> in_flight;
  std::atomic<std::uint32_t> popping;  // 1 from before a pop until its element is marked as taken
  std::array<std::atomic<std::uint64_t>, kLivesKept> killed_at_ns;
};

/// A critical section as its holders see it. Only a lock in the dictionary protects this structure.
struct Section {
  std::atomic<std::uint64_t> token;      // token of the process inside, or 0
  std::atomic<std::uint64_t> inside;     // worker (upper half) and life (lower half)
  std::atomic<std::uint64_t> sequence;   // fencing token of the last process that entered
  std::atomic<std::uint64_t> unguarded;  // incremented by a load and a store: loses counts if two processes are inside
  std::atomic<std::uint64_t> entered;    // acknowledged increments of `unguarded`
};

/// The state of a pool of permits that only its permits protect.
struct Pool {
  struct alignas(64) Share {
    std::atomic<std::uint64_t> count;  // permits (lower half) and number of changes (upper half)
    std::atomic<std::uint64_t> token;  // token of the process that wrote `count`
  };
  std::array<Share, kWorkers> shares;
  std::atomic<std::uint64_t>
      written;  // incremented by writers. Two concurrent writers would lose counts. Readers must see no change
  std::atomic<std::uint64_t> grants;
  std::atomic<std::uint64_t> checks;  // how often the permits of all workers were added up
};

/// The history of an element of a list.
struct Element {
  static constexpr std::uint8_t kBegun = 1;   // a push has begun
  static constexpr std::uint8_t kPushed = 2;  // the push has returned
  static constexpr std::uint8_t kTaken = 4;   // a pop has returned the element
};

struct Ledger {
  bool evicts;  // memory is so short that counters and lists are evicted
  std::array<Worker, kWorkers> workers;
  std::array<Section, kLocks> sections;
  std::array<Pool, kPools> pools;
  std::array<std::atomic<std::uint64_t>, kCounters>
      maybe;  // possible increments by processes that died during the call
  std::atomic<std::uint32_t> next_element;
  std::array<std::atomic<std::uint8_t>, kElements> elements;
  std::atomic<std::uint64_t> pops_cut_short;  // pops during which their processes died
  std::atomic<std::uint64_t> takeovers;
  Histogram takeover_us;
  Violations violations;
};

inline std::string counter_key(int i) { return "counter-" + std::to_string(i); }
inline std::string lock_key(int i) { return "lock-" + std::to_string(i); }
inline std::string list_key(int i) { return "list-" + std::to_string(i); }
inline std::string lease_key(int i) { return "lease-" + std::to_string(i); }
inline std::string value_key(int i) {
  return "value-" + std::to_string(i) + std::string(static_cast<std::size_t>(i), 'k');
}

/// Returns a text that contains its key, its writer, and a mark that shows whether the text is complete.
std::string make_value(const std::string& key, int worker, std::uint64_t number, std::size_t filler);
bool is_value_of(const std::string& key, const std::string& text);

/// Marks a popped element as taken. Records a violation if the element has no number, or was popped before.
void take_element(Ledger& ledger, const std::string& key, const test::Got& got);

[[noreturn]] void work(test::Dict& dict, Ledger& ledger, int self, std::uint64_t life, std::uint64_t seed);

}  // namespace holdfast::crash
