#include "agent/fake_machine.h"

#include <algorithm>
#include <utility>

namespace holdfast::test {

using agent::Epoch;
using agent::LeaseId;
using agent::LockName;
using agent::Milliseconds;
using agent::Query;
using agent::Refusal;
using agent::Reply;
using agent::Revision;
using agent::Session;
using agent::Use;
using agent::Want;

/// The machine as one agent sees it.
class Seat : public agent::Machine {
 public:
  Seat(FakeMachine& machine, std::uint64_t number) : machine_(machine), number_(number) {}
  ~Seat() override {
    *taken_ = false;
    if (superseded()) return;
    for (auto& [name, local] : machine_.locks_) machine_.forget_agent(local);
  }
  Seat(const Seat&) = delete;
  Seat& operator=(const Seat&) = delete;

  bool superseded() const override { return machine_.seats_ != number_; }
  Session session() const override { return machine_.session(); }

  Epoch begin_epoch(LeaseId lease, Milliseconds deadline) override {
    if (superseded()) return 0;
    machine_.session_ = {machine_.session_.epoch + 1, lease, deadline, false};
    // All waiters notify the new agent.
    for (auto& [name, local] : machine_.locks_) {
      machine_.forget_agent(local);
      machine_.tell(local);
    }
    return machine_.session_.epoch;
  }

  bool renew(Milliseconds from, Milliseconds to) override {
    Session& session = machine_.session_;
    if (superseded() || session.lost || session.deadline != from) return false;
    session.deadline = to;
    return true;
  }

  bool lose() override {
    if (superseded()) return false;
    machine_.session_.lost = true;
    for (auto& [name, local] : machine_.locks_) machine_.forget_agent(local);
    return !machine_.is_incomplete;
  }

  void note(agent::Trouble trouble) override {
    if (!superseded()) machine_.trouble = trouble;
  }

  std::vector<Want> wanted() override {
    std::vector<Want> wants;
    if (superseded()) return wants;
    for (auto& [name, local] : machine_.locks_) {
      if (!std::exchange(local.wanted, false)) continue;
      wants.push_back({name,
                       {static_cast<std::int64_t>(local.waiters.empty() ? 0 : local.waiters.front().program), "program",
                        "a test"}});
    }
    return wants;
  }

  agent::Contender holder(const LockName& name) const override {
    const auto program = machine_.holder(name);
    if (!program) return {};
    return {static_cast<std::int64_t>(*program), "holder", "holds", machine_.held};
  }

  bool orphaned(const LockName& name) const override {
    return machine_.orphans.contains(name) && !machine_.busy.contains(name);
  }

  Use use(const LockName& name) const override {
    if (machine_.busy.contains(name)) return {.known = false};
    const auto found = machine_.locks_.find(name);
    if (found == machine_.locks_.end()) return {};
    const FakeMachine::Local& local = found->second;
    Use use;
    use.stands = local.epoch != 0 && local.epoch == machine_.session_.epoch;
    use.held = local.holder != 0 && local.holder_epoch == machine_.session_.epoch;
    use.grants = local.grants;
    for (const FakeMachine::Waiter& waiter : local.waiters) {
      if (waiter.program == 0) continue;
      (waiter.tries ? use.tries : use.waits) = true;
    }
    return use;
  }

  std::optional<std::vector<LockName>> standing() const override {
    if (machine_.is_restless) return std::nullopt;
    std::vector<LockName> names;
    for (const auto& [name, local] : machine_.locks_)
      if (local.epoch != 0 && local.epoch == machine_.session_.epoch && !machine_.unlisted.contains(name))
        names.push_back(name);
    return names;
  }

  std::optional<std::vector<LockName>> adopt(Milliseconds /*end*/) override { return standing(); }

  bool grant(const LockName& name, Epoch epoch, Revision revision) override {
    if (superseded() || machine_.see_loss() || machine_.session_.epoch != epoch) return false;
    if (machine_.busy.contains(name)) return false;
    FakeMachine::Local& local = machine_.locks_[name];
    if (local.holder_epoch != epoch) local.holder = 0;
    local.epoch = epoch;
    local.revision = revision;
    local.grants = 0;
    later([name](FakeMachine& machine) { machine.pass(name); });
    return true;
  }

  void refuse(const LockName& name, Refusal why) override {
    if (superseded()) return;
    const bool all = why == Refusal::exhausted || why == Refusal::too_long;
    FakeMachine::Local& local = machine_.locks_[name];
    std::vector<FakeMachine::Id> refused;
    std::erase_if(local.waiters, [&](const FakeMachine::Waiter& waiter) {
      const bool told = waiter.program != 0 && (all || waiter.tries);
      if (told) refused.push_back(waiter.program);
      return told;
    });
    later([name, refused, why](FakeMachine& machine) {
      for (const FakeMachine::Id program : refused) machine.listener_.refused(name, program, why);
      machine.pass(name);
    });
  }

  void recall(const LockName& name, std::function<void()> done) override {
    if (superseded()) return;
    machine_.locks_[name].waiters.push_back({0, false, taken_, std::move(done)});
    later([name](FakeMachine& machine) { machine.pass(name); });
  }

  bool try_recall(const LockName& name) override {
    FakeMachine::Local& local = machine_.locks_[name];
    const bool held = local.holder != 0 && local.holder_epoch == machine_.session_.epoch;
    if (superseded() || held || !local.waiters.empty() || machine_.busy.contains(name)) return false;
    local.epoch = 0;
    return true;
  }

  void drop(const LockName& name) override {
    if (superseded()) return;
    FakeMachine::Local& local = machine_.locks_[name];
    local.epoch = 0;
    local.holder = 0;
    machine_.forget_agent(local);
    later([name](FakeMachine& machine) { machine.pass(name); });
  }

  std::vector<Query> queries() override { return std::exchange(machine_.queries_, {}); }
  void answer(std::uint64_t number, const Reply& reply) override { machine_.replies_[number] = reply; }

 private:
  void later(std::function<void(FakeMachine&)> call) {
    machine_.schedule_.after(5, [machine = &machine_, alive = machine_.alive_, call = std::move(call)] {
      if (*alive) call(*machine);
    });
  }

  FakeMachine& machine_;
  std::uint64_t number_;
  std::shared_ptr<bool> taken_ = std::make_shared<bool>(true);
};

std::unique_ptr<agent::Machine> FakeMachine::seat() {
  ++seats_;
  for (auto& [name, local] : locks_) {
    forget_agent(local);
    tell(local);
  }
  return std::make_unique<Seat>(*this, seats_);
}

/// Marks the session as lost if its deadline has passed, as any program does that notices this.
bool FakeMachine::see_loss() {
  if (clock_.boot_ms() >= session_.deadline) session_.lost = true;
  return session_.lost;
}

agent::Session FakeMachine::session() const {
  Session session = session_;
  session.lost = session.lost || clock_.boot_ms() >= session.deadline;
  return session;
}

/// Cancels the agent's waits.
void FakeMachine::forget_agent(Local& local) {
  std::erase_if(local.waiters, [](const Waiter& waiter) { return waiter.program == 0; });
}

FakeMachine::Id FakeMachine::enter(const LockName& name, bool tries) {
  const Id program = ++ids_;
  locks_[name].waiters.push_back({program, tries, nullptr, {}});
  pass(name);
  return program;
}

void FakeMachine::leave(const LockName& name, Id program) {
  std::erase_if(locks_[name].waiters, [&](const Waiter& waiter) { return waiter.program == program; });
  pass(name);
}

void FakeMachine::release(const LockName& name, Id program) {
  Local& local = locks_[name];
  if (local.holder != program) return;
  local.holder = 0;
  pass(name);
}

bool FakeMachine::has(const Local& local) const {
  return local.epoch != 0 && local.epoch == session_.epoch && !session().lost;
}

bool FakeMachine::valid(const LockName& name, Id program) const {
  const auto found = locks_.find(name);
  return found != locks_.end() && found->second.holder == program && found->second.holder_epoch == session_.epoch &&
         has(found->second);
}

std::optional<FakeMachine::Id> FakeMachine::holder(const LockName& name) const {
  const auto found = locks_.find(name);
  if (found == locks_.end() || found->second.holder == 0 || !valid(name, found->second.holder)) return std::nullopt;
  return found->second.holder;
}

bool FakeMachine::stands(const LockName& name) const {
  const auto found = locks_.find(name);
  return found != locks_.end() && has(found->second);
}

void FakeMachine::tell(Local& local) {
  if (local.waiters.empty() || local.wanted) return;
  local.wanted = true;
  schedule_.after(5, [this, alive = alive_] {
    if (*alive) listener_.wanted();
  });
}

void FakeMachine::pass(const LockName& name) {
  Local& local = locks_[name];
  see_loss();
  if (local.waiters.empty()) return;
  if (local.holder != 0 && local.holder_epoch == session_.epoch) return;
  if (local.waiters.front().program == 0) {
    const Waiter agent = std::move(local.waiters.front());
    local.waiters.pop_front();
    local.epoch = 0;
    schedule_.after(5, [this, alive = alive_, agent] {
      if (!*alive || !*agent.seat) return;
      agent.done();
      listener_.wanted();
    });
    return;
  }
  if (!has(local) || local.grants >= agent::kGrantsMax) return tell(local);
  const Id program = local.waiters.front().program;
  local.waiters.pop_front();
  local.holder = program;
  local.holder_epoch = session_.epoch;
  const std::uint64_t number = static_cast<std::uint64_t>(local.revision) * (agent::kGrantsMax + 1) + ++local.grants;
  schedule_.after(0, [this, alive = alive_, name, program, number] {
    if (*alive) listener_.granted(name, program, number);
  });
}

std::uint64_t FakeMachine::ask(Query query) {
  query.number = ++ids_;
  queries_.push_back(query);
  listener_.wanted();
  return query.number;
}

std::optional<Reply> FakeMachine::reply(std::uint64_t query) const {
  const auto found = replies_.find(query);
  return found == replies_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace holdfast::test
