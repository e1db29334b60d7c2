#include "agent/virtual_cluster.h"

#include <algorithm>
#include <utility>

namespace holdfast::test {

namespace {

constexpr agent::Milliseconds kBooted = 5'000'000;
constexpr Microseconds kStepTime = 20;  // the time from an event to the agent's reaction
constexpr agent::Milliseconds kLongestSleep = 60'000;

}  // namespace

Node::Node(Schedule& schedule, FakeStore& store, const agent::Settings& settings, double rate, Granted granted,
           Refused refused)
    : schedule_(schedule), store_(store), settings_(settings), clock_(schedule, rate, kBooted) {
  machine_ = std::make_unique<FakeMachine>(
      schedule, clock_,
      FakeMachine::Listener{
          [this, granted = std::move(granted)](const agent::LockName& name, FakeMachine::Id program,
                                               std::uint64_t number) { granted(*this, name, program, number); },
          [this, refused = std::move(refused)](const agent::LockName& name, FakeMachine::Id program,
                                               agent::Refusal why) { refused(*this, name, program, why); },
          [this] {
            for (const auto& agent : agents_) step(agent->number);
          }});
}

Node::Agent::Agent(Node& node, std::unique_ptr<agent::Machine> machine_seat)
    : seat(std::move(machine_seat)),
      client(node.store_, node.schedule_, [&node, this] { node.step(number); }),
      engine(
          std::make_unique<agent::Engine>(client, *seat, node.clock_, "/test", node.settings_,
                                          [&node](const std::string& sentence) { node.warnings.push_back(sentence); })),
      number(++node.numbers_) {}

void Node::start_agent(bool beside) {
  if (!beside) kill_agent();
  agents_.push_back(std::make_unique<Agent>(*this, machine_->seat()));
  Agent& agent = *agents_.back();
  agent.engine->start();
  step(agent.number);
}

void Node::kill_agent() { agents_.clear(); }

Node::Agent* Node::find(std::uint64_t number) {
  for (const auto& agent : agents_)
    if (agent->number == number) return agent.get();
  return nullptr;
}

/// Runs the agent's loop soon, because something may have changed.
void Node::step(std::uint64_t number) {
  if (Agent* agent = find(number)) step_at(*agent, schedule_.now() + kStepTime);
}

void Node::step_at(Agent& agent, Microseconds when) {
  when = std::max(when, agent.stopped_until);
  if (agent.next >= 0 && agent.next <= when) return;
  agent.next = when;
  schedule_.after(when - schedule_.now(), [this, alive = alive_, number = agent.number, when] {
    Agent* due = *alive ? find(number) : nullptr;
    if (due == nullptr || due->next != when) return;
    due->next = -1;
    if (schedule_.now() < due->stopped_until) return step(number);
    due->engine->step();
    if (due->seat->superseded()) return;
    const agent::Milliseconds latest = clock_.boot_ms() + kLongestSleep;
    step_at(*due, schedule_.now() + std::max(kStepTime, clock_.until(std::min(due->engine->due(), latest))));
  });
}

void Node::stop_agent_for(Microseconds time) {
  for (const auto& agent : agents_) {
    agent->stopped_until = schedule_.now() + time;
    agent->client.stop_until(agent->stopped_until);
  }
}

void Node::cut_for(Microseconds time) {
  for (const auto& agent : agents_) agent->client.cut_until(schedule_.now() + time);
}

}  // namespace holdfast::test
