// Shared by the files of the kill storm: what workers do, what they note, and the invariants.
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
inline constexpr std::size_t kPools = 4;  // the first half are read-write locks, the others semaphores
/// Elements with unique numbers; when all are used up, lists only become shorter.
inline constexpr std::uint32_t kElements = 1 << 21;
/// Times of kills are kept for this many lives of each worker: long enough for a successor to look them up.
inline constexpr std::uint64_t kLivesKept = 1024;

struct Worker {
  std::atomic<std::uint64_t> calls;
  std::atomic<std::uint64_t> life;  // number of the process in this position
  // Counted in acknowledged[] after the call returned; in_flight names the counter (plus one) of a call in progress.
  std::array<std::atomic<std::uint64_t>, kCounters> acknowledged;
  std::atomic<std::uint32_t> in_flight;
  std::atomic<std::uint32_t> popping;  // 1 from before a pop until its element is marked as taken
  std::array<std::atomic<std::uint64_t>, kLivesKept> killed_at_ns;
};

/// A critical section as its holders see it. Only the lock in the dictionary protects it.
struct Section {
  std::atomic<std::uint64_t> token;      // of the process inside; 0: empty
  std::atomic<std::uint64_t> inside;     // worker (upper half) and life
  std::atomic<std::uint64_t> sequence;   // fencing number of the last process that entered
  std::atomic<std::uint64_t> unguarded;  // incremented by load and store: loses counts if two are inside
  std::atomic<std::uint64_t> entered;    // acknowledged increments of it
};

/// A pool, as the holders of its permits see it.
struct Pool {
  struct alignas(64) Share {
    std::atomic<std::uint64_t> count;  // permits (lower half); the upper half counts the changes
    std::atomic<std::uint64_t> token;  // of the process that wrote it
  };
  std::array<Share, kWorkers> shares;
  std::atomic<std::uint64_t> written;  // stored by writers; two at once lose counts, and readers see no change
  std::atomic<std::uint64_t> grants;
  std::atomic<std::uint64_t> checks;  // sums that were read at one instant
};

/// The history of an element of a list.
struct Element {
  static constexpr std::uint8_t kBegun = 1;   // a push of it has begun
  static constexpr std::uint8_t kPushed = 2;  // and has returned
  static constexpr std::uint8_t kTaken = 4;   // a pop returned it
};

struct Ledger {
  bool evicts;  // memory is so short that counters and lists are evicted
  std::array<Worker, kWorkers> workers;
  std::array<Section, kLocks> sections;
  std::array<Pool, kPools> pools;
  std::array<std::atomic<std::uint64_t>, kCounters> maybe;  // increments of processes that died in the call
  std::atomic<std::uint32_t> next_element;
  std::array<std::atomic<std::uint8_t>, kElements> elements;
  std::atomic<std::uint64_t> pops_cut_short;  // by the death of the popping process
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

/// Makes a text that contains its key, the process that wrote it, and a mark that shows whether it is whole.
std::string make_value(const std::string& key, int worker, std::uint64_t number, std::size_t filler);
bool is_value_of(const std::string& key, const std::string& text);

/// Takes the number of a popped element. Notes a violation if it has none, or was popped before.
void take_element(Ledger& ledger, const std::string& key, const test::Got& got);

/// Works until it is killed.
[[noreturn]] void work(test::Dict& dict, Ledger& ledger, int self, std::uint64_t life, std::uint64_t seed);

}  // namespace holdfast::crash
