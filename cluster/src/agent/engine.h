// The engine of an agent, for one store and one machine. It combines the lease, the locks, the questions of local
// programs and the housekeeping. The event loop calls step() at the time that due() returns, when Machine::wanted() or
// Machine::queries() returns something, and after the store's callbacks.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "agent/clock.h"
#include "agent/housekeeping.h"
#include "agent/keeper.h"
#include "agent/keys.h"
#include "agent/locks.h"
#include "agent/machine.h"
#include "agent/measured_store.h"
#include "agent/questions.h"
#include "agent/settings.h"
#include "agent/store.h"

namespace holdfast::agent {

class Engine {
 public:
  /// `space` is the prefix of all keys. `warn` writes a sentence to the log.
  Engine(Store& store, Machine& machine, const Clock& clock, const std::string& space, Settings settings,
         std::function<void(const std::string&)> warn);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  void start() { keeper_.start(); }
  /// Sets the function that describes the store in the answer to a status question.
  void describe_store(std::function<Figures()> describe) { describe_store_ = std::move(describe); }
  /// Sets the function that handles an order to accept a different store.
  void on_accept(std::function<Reply(std::uint64_t id)> accept) { accept_ = std::move(accept); }
  /// Forgets everything about the previous store, because a different store is in use from now on.
  void store_changed(const std::string& why) { keeper_.store_went_back(why); }
  /// Delays the start. Until then, questions are answered with `reason`.
  void hold_back(const std::string& reason) { reason_ = reason; }
  void step();
  /// Does the part of step() that is possible before start().
  void answer();
  /// Returns when step() is due, in BOOTTIME.
  Milliseconds due() const;

  /// Takes back each standing lock (agent/machine.h), unless a local program holds or wants the lock. Returns true if
  /// no living program holds or wants any lock.
  bool vacate();
  /// From now on, requests no new locks, and gives each lock back when its holder releases it. After that, drained()
  /// returns true.
  void drain() { locks_.drain(); }
  bool drained() const { return locks_.empty() && !keeper_.adopting(); }
  /// Gives back the lease, and all locks with it. If an agent exits without calling stop(), its successor takes over
  /// the lease. REQUIRES: vacate() or drained() has returned true.
  void stop(const std::function<void()>& done) { keeper_.stop(done); }

  const Keeper& keeper() const { return keeper_; }
  const Locks& locks() const { return locks_; }

 private:
  Reply status() const;
  /// Returns whether a change was sent to the store recently. If so, any trouble of the store is known.
  bool knows_trouble() const;
  void answer_status();
  void store_went_back(Revision from, Revision to);

  MeasuredStore store_;
  Machine& machine_;
  const Clock& clock_;
  const Milliseconds started_;
  Settings settings_;
  Keys keys_;
  Locks locks_;
  Keeper keeper_;
  Questions questions_;
  Housekeeping housekeeping_;
  std::function<void(const std::string&)> warn_;
  std::function<Figures()> describe_store_;
  std::function<Reply(std::uint64_t)> accept_;
  const std::string space_;
  std::vector<std::uint64_t> asked_;  // status questions that wait for the store, until asked_until_
  Milliseconds asked_until_ = 0;
  std::string reason_;  // why the engine has not been started
};

}  // namespace holdfast::agent
