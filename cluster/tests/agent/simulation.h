// Simulates programs that take locks on several machines, in virtual time and under faults. Checks the following:
//
// - Two machines never hold a lock validly, each by its own clock, at the same moment of true time.
// - A lock's fencing tokens rise with its grants.
// - Machines that wait for a lock get it in the order of their queue entries at the store.
// - No program waits forever.
// - At the end, the store has no lock or queue entry left.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/history.h"
#include "agent/virtual_cluster.h"

namespace holdfast::test {

/// The possible faults and their probabilities in a tenth of a second of virtual time.
struct Trouble {
  StoreFaults store;
  double agent_killed = 0;  // a new agent starts soon, or late
  double agent_stopped = 0;
  double machine_dies = 0;
  double machine_cut = 0;
  double store_away = 0;
  double second_agent = 0;
  double early_revoke = 0;
  double clock_leaps = 0;
  bool exclusion_may_fail = false;  // if the store revokes leases early, only the fencing tokens protect
};

struct Scene {
  int machines = 3;
  int programs = 3;  // per machine
  int keys = 3;
  Microseconds think = 3'000;
  Microseconds section = 500;
  double drift = 0.005;
  Microseconds longest_wait = 0;  // the limit of each wait, or 0 if waits need only end after the last fault
  std::uint64_t steps = 100'000;
  Trouble trouble;
};

class Simulation {
 public:
  Simulation(std::uint64_t seed, Scene scene);

  /// Runs the simulation, and then checks the final state. Returns descriptions of the errors that it found.
  std::vector<std::string> run();

  std::uint64_t sections() const { return sections_; }
  std::uint64_t losses() const { return losses_; }
  Microseconds longest_wait() const { return longest_; }
  std::uint64_t overlaps() const { return overlaps_; }

 private:
  enum class Doing { thinking, waiting, trying, inside };
  struct Program {
    Node* node = nullptr;
    Doing doing = Doing::thinking;
    agent::LockName name;
    FakeMachine::Id id = 0;
    Microseconds since = 0;
    bool patient = true;
    std::uint64_t life = 0;  // events that were planned in an earlier life are ignored
  };

  std::unique_ptr<Node> make_node();
  void think(std::size_t at);
  void begin(std::size_t at);
  void give_up(std::size_t at);
  void end_section(std::size_t at);
  void after(std::size_t at, Microseconds delay, void (Simulation::*call)(std::size_t));
  void granted(Node& node, const agent::LockName& name, FakeMachine::Id id, std::uint64_t number);
  void refused(Node& node, const agent::LockName& name, FakeMachine::Id id);
  Program* find(const Node& node, FakeMachine::Id id);
  void check_exclusion(const Node& node, const agent::LockName& name);
  void check_number(const agent::LockName& name, std::uint64_t number);
  void check_waits(Microseconds longest);
  void check_end();
  void trouble();
  void kill_agent(Node& node);
  void replace(std::size_t node);
  bool happens(double chance);
  void fail(const std::string& sentence);

  Scene scene_;
  Schedule schedule_;
  FakeStore store_;
  StoreHistory history_;
  agent::Settings settings_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<Program> programs_;
  std::map<agent::LockName, std::uint64_t> numbers_;
  bool troubled_ = true;
  bool stopping_ = false;
  std::vector<std::string> errors_;
  std::uint64_t sections_ = 0;
  std::uint64_t losses_ = 0;
  std::uint64_t overlaps_ = 0;
  Microseconds longest_ = 0;
};

}  // namespace holdfast::test
