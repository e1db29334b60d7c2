// The input of the program crash_enumeration: states of a small dictionary, and operations on it.
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
#include "world/world.h"

namespace holdfast::crash {

using Random = std::mt19937_64;

struct State {
  std::string name;
  Image image;
  std::vector<std::string> keys;  // keys to check: existing, former, and possible new ones
};

struct Scenario {
  std::string name;
  std::string key;  // the operation's key; all other keys must not change
  std::function<void()> prepare;
  std::function<int()> run;  // returns a holdfast_code
};

/// If the state has no room for the entries, `prepare` ends the child with this status.
inline constexpr int kSkip = 250;

/// An entry that the operation changes. This object holds the shard's mutex.
struct HeldEntry {
  HeldEntry(Victim& victim, const std::string& key) : shard(victim.segment().shards()[0]), guard(shard), arena(shard) {
    shard.find(Key(key, victim.segment().seed()), position);
  }

  Shard& shard;
  const ShardGuard guard;
  Arena arena;
  Position position{};
};

/// Returns a waiter that arrived a second ago. A waiter with a higher number arrived later.
inline Waiter waiter_of(Token owner, std::uint32_t number) {
  const std::uint64_t long_ago = platform::monotonic_ns() - kNsPerSecond;
  Waiter waiter{};
  waiter.owner = owner;
  waiter.number = number;
  waiter.arrival = long_ago + number;
  return waiter;
}

/// Returns the states: empty, mixed, long chains, full, full of expired entries, fragmented, crowded, flushed, lists,
/// full of lists, locks, permits.
std::vector<State> make_states(Victim& victim, Random& random);

/// The data besides the dictionary that the child needs, which is run step by step. Created in `prepare`, and never
/// freed, because the child dies.
struct Tools {
  std::vector<holdfast_lease> leases;
  holdfast_lease lease{};
  holdfast_wait wait{};
  std::uint64_t grant = 0;
};

/// The base class of the makers of scenarios. Each scenario refers to its maker.
class Maker {
 public:
  Maker(Victim& victim, const State& state, Random& random)
      : victim_(victim), dict_(victim.dict()), state_(state), random_(random) {}

 protected:
  using Run = std::function<int(Tools&, const std::string&)>;
  using Prepare = std::function<void(Tools&, const std::string&)>;

  const std::string& pick(const std::vector<std::string>& keys) { return keys[random_() % keys.size()]; }
  const std::string& any() { return pick(state_.keys); }

  void add(const std::string& name, const std::string& key, Prepare prepare, Run run) {
    auto tools = std::make_shared<Tools>();
    scenarios_.push_back({name, key,
                          [&dict = dict_, key, tools, prepare = std::move(prepare)] {
                            dict.get("enters the world");
                            prepare(*tools, key);
                          },
                          [key, tools, run = std::move(run)] { return run(*tools, key); }});
  }
  void add(const std::string& name, Prepare prepare, Run run) { add(name, any(), std::move(prepare), std::move(run)); }

  static Prepare with_waiter(Prepare prepare) {
    return [prepare = std::move(prepare)](Tools& tools, const std::string& key) {
      tools.wait.parker = holdfast_parker_new();
      tools.wait.waiter = holdfast_waiter_open(tools.wait.parker);
      prepare(tools, key);
    };
  }
  Run leaving() {
    return
        [this](Tools& tools, const std::string& key) { return dict_.leave(key, tools.wait.parker, tools.wait.waiter); };
  }
  static int to_code(int length) { return length < 0 ? -length : HOLDFAST_OK; }

  Victim& victim_;
  test::Dict& dict_;
  const State& state_;
  Random& random_;
  const Token judge_token_ = (*World::current())->token();
  std::vector<Scenario> scenarios_;
};

/// Returns the scenarios of a new maker. The maker is never freed, because the scenarios refer to it.
template <class OneMaker>
std::vector<Scenario> made_by(Victim& victim, const State& state, Random& random) {
  static std::vector<std::unique_ptr<OneMaker>> makers;
  makers.push_back(std::make_unique<OneMaker>(victim, state, random));
  return makers.back()->make();
}

/// Returns one scenario for each public operation, on keys of the state that suit it.
std::vector<Scenario> make_scenarios(Victim& victim, const State& state, Random& random);
/// Returns such scenarios for permits, and for operations that read information about locks.
std::vector<Scenario> make_permits_scenarios(Victim& victim, const State& state, Random& random);

}  // namespace holdfast::crash
