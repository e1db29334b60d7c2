// An agent: the lease, the locks on it, the questions of local programs, and the housekeeping, over one store and one
// machine. Its loop calls step() at due(), when Machine::wanted() or Machine::queries() has something, and after the
// callbacks of the store.
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
  /// `space`: the prefix of all keys. `warn`: takes sentences for the log.
  Engine(Store& store, Machine& machine, const Clock& clock, const std::string& space, Settings settings,
         std::function<void(const std::string&)> warn);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  void start() { keeper_.start(); }
  /// Which store there is: for status().
  void describe_store(std::function<Figures()> describe) { describe_store_ = std::move(describe); }
  /// What an order to take another store as the right one does.
  void on_accept(std::function<Reply(std::uint64_t id)> accept) { accept_ = std::move(accept); }
  /// Another store is the right one from now on: nothing of the last one's counts.
  void store_changed(const std::string& why) { keeper_.store_went_back(why); }
  /// It is not to start yet: why, for those that ask.
  void hold_back(const std::string& reason) { reason_ = reason; }
  void step();
  /// Part of step(): also before start().
  void answer();
  /// BOOTTIME
  Milliseconds due() const;

  /// Takes back each lock that stands, unless a local program holds or wants it. True: none that lives does.
  bool vacate();
  /// Takes no new lock for local programs, and gives back each when its holder is done with it, until drained().
  void drain() { locks_.drain(); }
  bool drained() const { return locks_.empty() && !keeper_.adopting(); }
  /// Gives the lease back, and all locks with it: REQUIRES vacate() or drained(). An agent that ends without this
  /// leaves the lease to its successor.
  void stop(const std::function<void()>& done) { keeper_.stop(done); }

  const Keeper& keeper() const { return keeper_; }
  const Locks& locks() const { return locks_; }

 private:
  Reply status() const;
  /// Whether a change was asked of the store lately, so that its trouble is known.
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
  std::vector<std::uint64_t> asked_;  // questions for the status that wait for the store, and for how long at most
  Milliseconds asked_until_ = 0;
  std::string reason_;  // why it has not been started
};

}  // namespace holdfast::agent
