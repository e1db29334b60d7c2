// A simulated machine, with its shared memory and its local programs. While the machine owns a lock, the programs take
// it one at a time, in order. The machine outlives its agents. Each agent has its own seat, which is the machine as the
// agent sees it.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/machine.h"
#include "agent/schedule.h"

namespace holdfast::test {

class FakeMachine {
 public:
  using Id = std::uint64_t;
  struct Listener {
    /// Called with the grant's number when a program gets the lock.
    std::function<void(const agent::LockName&, Id, std::uint64_t number)> granted;
    std::function<void(const agent::LockName&, Id, agent::Refusal)> refused;
    /// Called when there is work for the agent.
    std::function<void()> wanted;
  };

  FakeMachine(Schedule& schedule, const DriftingClock& clock, Listener listener)
      : schedule_(schedule), clock_(clock), listener_(std::move(listener)) {}
  ~FakeMachine() { *alive_ = false; }
  FakeMachine(const FakeMachine&) = delete;
  FakeMachine& operator=(const FakeMachine&) = delete;

  // --- for local programs ---
  Id wait(const agent::LockName& name) { return enter(name, false); }
  Id try_once(const agent::LockName& name) { return enter(name, true); }
  void leave(const agent::LockName& name, Id program);
  void release(const agent::LockName& name, Id program);
  /// Returns whether the program validly holds the lock now.
  bool valid(const agent::LockName& name, Id program) const;
  std::optional<agent::Reply> reply(std::uint64_t query) const;
  std::uint64_t ask(agent::Query query);

  /// Returns the first program that validly holds a lock.
  std::optional<Id> holder(const agent::LockName& name) const;
  bool stands(const agent::LockName& name) const;
  agent::Session session() const;

  /// The locks that a process was changing when it was stopped.
  std::set<agent::LockName> busy;
  /// The locks that standing() and adopt() omit from their lists of owned locks.
  std::set<agent::LockName> unlisted;
  /// Each of these makes standing() and adopt() return nothing, as if locks changed too fast (is_restless), or as if
  /// parts could not be reached (is_incomplete).
  bool is_restless = false;
  bool is_incomplete = false;
  /// The locks whose holder and waiters are dead.
  std::set<agent::LockName> orphans;

  /// How long the holder claims to have held the lock.
  agent::Milliseconds held = 0;

  /// The trouble that the agent has last recorded.
  agent::Trouble trouble = agent::Trouble::none;

  /// Makes an earlier agent continue that was stopped in the middle of grant().
  void stand_late(const agent::LockName& name) {
    locks_[name].epoch = session_.epoch;
    pass(name);
  }

  /// Returns a new agent, which supersedes earlier agents.
  std::unique_ptr<agent::Machine> seat();

 private:
  friend class Seat;

  struct Waiter {
    Id program = 0;  // 0 means the agent
    bool tries = false;
    std::shared_ptr<bool> seat;  // whether the agent exists
    std::function<void()> done;
  };
  struct Local {
    agent::Epoch epoch = 0;  // the epoch in which the machine owns the lock; 0: it does not own the lock
    agent::Revision revision = 0;
    std::uint32_t grants = 0;
    Id holder = 0;
    agent::Epoch holder_epoch = 0;
    std::deque<Waiter> waiters;
    bool wanted = false;  // whether a program wants the lock, but the agent does not know this yet
  };

  Id enter(const agent::LockName& name, bool tries);
  bool has(const Local& local) const;
  /// Makes the next program take the lock, if possible.
  void pass(const agent::LockName& name);
  void tell(Local& local);
  void forget_agent(Local& local);
  bool see_loss();

  Schedule& schedule_;
  const DriftingClock& clock_;
  Listener listener_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  std::uint64_t seats_ = 0;
  Id ids_ = 0;
  agent::Session session_;
  std::map<agent::LockName, Local> locks_;
  std::vector<agent::Query> queries_;
  std::map<std::uint64_t, agent::Reply> replies_;
};

}  // namespace holdfast::test
