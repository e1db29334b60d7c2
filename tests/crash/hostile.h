// Lets one process write random words into a dictionary that other processes use.
#pragma once

#include <atomic>
#include <cstdint>
#include <random>

#include "crash/ledger.h"
#include "support/call_limit.h"
#include "support/dict.h"

namespace holdfast::crash {

inline constexpr int kUsers = 3;

struct HostileLedger {
  std::atomic<std::uint64_t> calls[kUsers];
  std::atomic<const char*> current[kUsers];  // the call in progress
  Histogram turn_us;                         // durations, each of a few calls
  Violations violations;
};

/// Runs all operations on the dictionary in a loop until killed. Any result is correct if the call returns in time
/// (support/call_limit.h).
[[noreturn]] void use_anyhow(test::Dict& dict, HostileLedger& ledger, int self, std::uint64_t seed);

/// Overwrites words of the dictionary's file. Chooses a random word, or a word in which damage is likely to do harm.
class Scribbler {
 public:
  Scribbler(test::Dict& dict, std::uint64_t size, std::uint64_t seed) : dict_(dict), size_(size), random_(seed) {}
  void scribble();

 private:
  std::uint32_t bad_word(std::uint32_t granules);
  void scribble_anywhere(Segment& segment);
  void scribble_entry(Shard& shard);
  void scribble_list(Shard& shard, const EntryView& list);
  void scribble_holder(Shard& shard, const EntryView& holdable);
  void scribble_header(Segment& segment, Shard& shard);

  test::Dict& dict_;
  std::uint64_t size_;
  std::mt19937_64 random_;
};

/// Tries to open `count` files with damaged headers, sizes and content. Returns how many it could open.
std::uint64_t open_damaged_files(std::uint64_t count, std::uint64_t seed, Violations& violations);

}  // namespace holdfast::crash
