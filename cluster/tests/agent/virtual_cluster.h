// Machines with agents that share one store, in virtual time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "agent/engine.h"
#include "agent/fake_machine.h"
#include "agent/fake_store.h"
#include "agent/schedule.h"

namespace holdfast::test {

/// A machine, its clock, and the agent that currently acts for it.
class Node {
 public:
  using Granted = std::function<void(Node&, const agent::LockName&, FakeMachine::Id, std::uint64_t)>;
  using Refused = std::function<void(Node&, const agent::LockName&, FakeMachine::Id, agent::Refusal)>;

  Node(Schedule& schedule, FakeStore& store, const agent::Settings& settings, double rate, Granted granted,
       Refused refused);
  ~Node() { *alive_ = false; }

  /// Starts a new agent. If `beside`, the previous agent continues, as if both had been started by mistake.
  void start_agent(bool beside = false);
  void kill_agent();
  bool has_agent() const { return !agents_.empty(); }
  void stop_agent_for(Microseconds time);
  void cut_for(Microseconds time);

  FakeMachine& machine() { return *machine_; }
  const FakeMachine& machine() const { return *machine_; }
  DriftingClock& clock() { return clock_; }
  agent::Engine& engine() { return *agents_.back()->engine; }
  FakeClient& client() { return agents_.back()->client; }
  std::vector<std::string> warnings;

 private:
  struct Agent {
    Agent(Node& node, std::unique_ptr<agent::Machine> machine_seat);

    std::unique_ptr<agent::Machine> seat;
    FakeClient client;
    std::unique_ptr<agent::Engine> engine;
    Microseconds next = -1;  // when step() is due, or -1 for never
    Microseconds stopped_until = 0;
    std::uint64_t number = 0;
  };

  Agent* find(std::uint64_t number);
  void step(std::uint64_t number);
  void step_at(Agent& agent, Microseconds when);

  Schedule& schedule_;
  FakeStore& store_;
  agent::Settings settings_;
  DriftingClock clock_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  std::unique_ptr<FakeMachine> machine_;
  std::vector<std::unique_ptr<Agent>> agents_;
  std::uint64_t numbers_ = 0;
};

}  // namespace holdfast::test
