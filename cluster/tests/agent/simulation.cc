#include "agent/simulation.h"

#include <algorithm>
#include <utility>

namespace holdfast::test {

using agent::LockName;

namespace {

constexpr Microseconds kSecond = 1'000'000;
constexpr Microseconds kTroubleEvery = kSecond / 10;
/// Each wait must end within this time after the last fault. This time covers a lease, two polls, and the pauses
/// between repeated requests.
constexpr Microseconds kRecovery = 25 * kSecond;
/// After this time, the last late copy of a request has arrived, and the agent's check has found its effect.
constexpr Microseconds kSettling = 40 * kSecond;
/// Longer than a machine keeps a lock that other machines wait for.
constexpr Microseconds kLongSection = kSecond / 10;
constexpr std::size_t kErrorsMax = 5;
const std::string kSpace = "/test";

}  // namespace

Simulation::Simulation(std::uint64_t seed, Scene scene)
    : scene_(scene), schedule_(seed), store_(schedule_), history_(kSpace) {
  store_.observe([this](const agent::Record& event) { history_.add(event); });
  settings_.host = "host";
  settings_.machine = "machine";
  store_.faults = scene.trouble.store;
  for (int i = 0; i < scene.machines; ++i) nodes_.push_back(make_node());
  for (const auto& node : nodes_) {
    node->start_agent();
    for (int i = 0; i < scene.programs; ++i) programs_.push_back({node.get(), Doing::thinking, {}, 0, 0, true, 0});
  }
  for (std::size_t at = 0; at < programs_.size(); ++at) think(at);
}

std::unique_ptr<Node> Simulation::make_node() {
  const double rate = 1 + scene_.drift * static_cast<double>(schedule_.between(-1000, 1000)) / 1000;
  return std::make_unique<Node>(
      schedule_, store_, settings_, rate,
      [this](Node& node, const LockName& name, FakeMachine::Id id, std::uint64_t number) {
        granted(node, name, id, number);
      },
      [this](Node& node, const LockName& name, FakeMachine::Id id, agent::Refusal) { refused(node, name, id); });
}

std::vector<std::string> Simulation::run() {
  trouble();
  std::uint64_t steps = 0;
  while (steps < scene_.steps && errors_.empty()) {
    steps += schedule_.run_until(schedule_.now() + kSecond);
    if (scene_.longest_wait != 0) check_waits(scene_.longest_wait);
  }
  // From now on, no faults occur, and every wait must end.
  troubled_ = false;
  store_.faults = {};
  schedule_.run_for(kRecovery);
  for (const auto& node : nodes_)
    if (!node->has_agent()) node->start_agent();
  schedule_.run_for(kRecovery);
  check_waits(kRecovery);
  stopping_ = true;
  schedule_.run_for(kRecovery + kSettling);
  check_end();
  return errors_;
}

void Simulation::fail(const std::string& sentence) {
  if (errors_.size() < kErrorsMax) errors_.push_back(std::to_string(schedule_.now()) + " us: " + sentence);
}

// --- programs ---

void Simulation::after(std::size_t at, Microseconds delay, void (Simulation::*call)(std::size_t)) {
  schedule_.after(delay, [this, at, call, life = programs_[at].life] {
    if (programs_[at].life == life) (this->*call)(at);
  });
}

void Simulation::think(std::size_t at) {
  Program& program = programs_[at];
  program.doing = Doing::thinking;
  ++program.life;
  if (!stopping_) after(at, schedule_.between(0, 2 * scene_.think), &Simulation::begin);
}

void Simulation::begin(std::size_t at) {
  Program& program = programs_[at];
  if (stopping_) return;
  program.name = {"jobs", "key " + std::to_string(schedule_.between(0, scene_.keys - 1))};
  program.since = schedule_.now();
  const bool tries = schedule_.chance(0.1);
  program.patient = schedule_.chance(0.8);
  program.doing = tries ? Doing::trying : Doing::waiting;
  FakeMachine& machine = program.node->machine();
  program.id = tries ? machine.try_once(program.name) : machine.wait(program.name);
  // A try ends after a second, even without a store.
  if (tries) after(at, kSecond, &Simulation::give_up);
  if (!tries && !program.patient) after(at, schedule_.between(100, 2 * kSecond), &Simulation::give_up);
}

void Simulation::give_up(std::size_t at) {
  Program& program = programs_[at];
  if (program.doing != Doing::waiting && program.doing != Doing::trying) return;
  program.node->machine().leave(program.name, program.id);
  think(at);
}

Simulation::Program* Simulation::find(const Node& node, FakeMachine::Id id) {
  for (Program& program : programs_)
    if (program.node == &node && program.id == id) return &program;
  return nullptr;
}

void Simulation::granted(Node& node, const LockName& name, FakeMachine::Id id, std::uint64_t number) {
  Program* program = find(node, id);
  if (program == nullptr || (program->doing != Doing::waiting && program->doing != Doing::trying)) {
    node.machine().release(name, id);
    return;
  }
  if (program->doing == Doing::waiting) longest_ = std::max(longest_, schedule_.now() - program->since);
  program->doing = Doing::inside;
  ++program->life;
  ++sections_;
  if (node.machine().valid(name, id)) {
    check_exclusion(node, name);
    check_number(name, number);
  }
  const bool is_long = schedule_.chance(0.002);
  const auto at = static_cast<std::size_t>(program - programs_.data());
  after(at, is_long ? kLongSection : schedule_.between(0, 2 * scene_.section), &Simulation::end_section);
}

void Simulation::refused(Node& node, const LockName&, FakeMachine::Id id) {
  Program* program = find(node, id);
  if (program != nullptr && program->doing == Doing::trying)
    think(static_cast<std::size_t>(program - programs_.data()));
}

void Simulation::end_section(std::size_t at) {
  Program& program = programs_[at];
  if (!program.node->machine().valid(program.name, program.id)) ++losses_;
  program.node->machine().release(program.name, program.id);
  think(at);
}

// --- checks ---

void Simulation::check_exclusion(const Node& node, const LockName& name) {
  for (const auto& other : nodes_) {
    if (other.get() == &node || !other->machine().holder(name)) continue;
    ++overlaps_;
    if (!scene_.trouble.exclusion_may_fail) fail("two machines hold " + name.key);
  }
}

void Simulation::check_number(const LockName& name, std::uint64_t number) {
  std::uint64_t& last = numbers_[name];
  if (number <= last && !scene_.trouble.exclusion_may_fail) fail("the token of " + name.key + " does not rise");
  last = std::max(last, number);
}

void Simulation::check_waits(Microseconds longest) {
  for (const Program& program : programs_) {
    if (program.doing != Doing::waiting) continue;
    longest_ = std::max(longest_, schedule_.now() - program.since);
    if (schedule_.now() - program.since > longest)
      fail("a program has waited for " + program.name.key + " since " + std::to_string(program.since) + " us");
  }
  if (longest_ > longest && scene_.longest_wait != 0) fail("a program waited for " + std::to_string(longest_) + " us");
}

void Simulation::check_end() {
  for (const Program& program : programs_)
    if (program.doing != Doing::thinking) fail("a program still uses " + program.name.key);
  for (const auto& [key, record] : store_.records())
    if (key.starts_with(kSpace + "/l/") || key.starts_with(kSpace + "/q/")) fail("the store still has " + key);
  for (const std::string& error : history_.errors()) fail(error);
}

// --- faults ---

bool Simulation::happens(double chance) { return schedule_.chance(chance); }

void Simulation::trouble() {
  if (!troubled_) return;
  const Trouble& trouble_now = scene_.trouble;
  Node& node = *nodes_[static_cast<std::size_t>(schedule_.between(0, scene_.machines - 1))];
  if (happens(trouble_now.agent_killed)) kill_agent(node);
  if (node.has_agent()) {
    if (happens(trouble_now.agent_stopped)) node.stop_agent_for(schedule_.between(1000, 12 * kSecond));
    if (happens(trouble_now.machine_cut)) node.cut_for(schedule_.between(1000, 15 * kSecond));
    if (happens(trouble_now.second_agent)) node.start_agent(true);
    if (happens(trouble_now.clock_leaps)) node.clock().leap(schedule_.chance(0.5) ? 5000 : -5000);
  }
  if (happens(trouble_now.store_away)) {
    const Microseconds time = schedule_.between(1000, 12 * kSecond);
    for (const auto& each : nodes_) each->cut_for(time);
  }
  const std::vector<agent::LeaseId> leases = store_.leases();
  if (happens(trouble_now.early_revoke) && !leases.empty())
    store_.revoke(leases[static_cast<std::size_t>(schedule_.between(0, static_cast<Microseconds>(leases.size()) - 1))]);
  if (happens(trouble_now.machine_dies)) replace(static_cast<std::size_t>(schedule_.between(0, scene_.machines - 1)));
  schedule_.after(kTroubleEvery, [this] { trouble(); });
}

void Simulation::kill_agent(Node& node) {
  if (!node.has_agent()) return;
  node.kill_agent();
  const bool late = schedule_.chance(0.1);
  schedule_.after(schedule_.between(0, late ? 15 * kSecond : kSecond / 10), [this, at = &node] {
    for (const auto& each : nodes_)
      if (each.get() == at && !at->has_agent()) at->start_agent();
  });
}

/// Makes the machine die, and replaces it with a machine whose memory is empty.
void Simulation::replace(std::size_t at) {
  const Node* dead = nodes_[at].get();
  std::unique_ptr<Node> node = make_node();
  for (std::size_t i = 0; i < programs_.size(); ++i) {
    if (programs_[i].node != dead) continue;
    programs_[i].node = node.get();
    programs_[i].id = 0;  // ids restart on the new machine
    think(i);
  }
  nodes_[at] = std::move(node);
  nodes_[at]->start_agent();
}

}  // namespace holdfast::test
