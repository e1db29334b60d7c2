// What is enumerated: states of a small dictionary, and operations on it.
#pragma once

#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/time.h"
#include "crash/victim.h"
#include "dict/guard.h"
#include "dict/wait_queue.h"
#include "platform/platform.h"

namespace holdfast::crash {

using Random = std::mt19937_64;

struct State {
  std::string name;
  Image image;
  std::vector<std::string> keys;  // all that are looked at: what is there, what was, what may come
};

struct Scenario {
  std::string name;
  std::string key;  // the operation's; all others must stay as they are
  std::function<void()> prepare;
  std::function<int()> run;  // gives a holdfast_code
};

/// `prepare` ends the child with this when the state has no room for what it needs.
inline constexpr int kSkip = 250;

/// An entry of the dictionary that is changed, with the mutex of its shard.
struct HeldEntry {
  HeldEntry(Victim& victim, const std::string& key) : shard(victim.segment().shards()[0]), guard(shard), arena(shard) {
    shard.find(Key(key, victim.segment().seed()), position);
  }

  Shard& shard;
  const ShardGuard guard;
  Arena arena;
  Position position{};
};

/// A waiter that came a second ago; the higher its number, the later.
inline Waiter waiter_of(Token owner, std::uint32_t number) {
  const std::uint64_t long_ago = platform::monotonic_ns() - kNsPerSecond;
  Waiter waiter{};
  waiter.owner = owner;
  waiter.number = number;
  waiter.arrival = long_ago + number;
  return waiter;
}

/// Empty, mixed, long chains, full, full of expired entries, fragmented, crowded, flushed, lists, full of lists, locks,
/// permits.
std::vector<State> make_states(Victim& victim, Random& random);

/// What a new maker makes. Its scenarios refer to it, so it stays.
template <class Maker>
std::vector<Scenario> made_by(Victim& victim, const State& state, Random& random) {
  static std::vector<std::unique_ptr<Maker>> makers;
  makers.push_back(std::make_unique<Maker>(victim, state, random));
  return makers.back()->make();
}

/// Each kind of public operation once, on keys of the state that suit it.
std::vector<Scenario> make_scenarios(Victim& victim, const State& state, Random& random);
/// The same for permits, and for what is said about locks.
std::vector<Scenario> make_permits_scenarios(Victim& victim, const State& state, Random& random);

}  // namespace holdfast::crash
