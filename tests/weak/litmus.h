// Small programs, and all that C++20 allows them to do.
//
//   Program program;
//   const Location data = program.location("data");
//   const Location flag = program.location("flag");
//   program.thread([=](Thread& t) { t.store(data, 1, Order::relaxed); t.store(flag, 1, Order::release); });
//   program.thread([=](Thread& t) {
//     if (t.load(flag, Order::acquire) == 1) t.claim(t.load(data, Order::relaxed) == 1, "the data is there");
//   });
//   const Findings findings = explore(program);
//
// A thread is run again and again, so it must do the same when it reads the same: no state of its own outlives a run.
// Any thread may be stopped or killed at any step: a claim holds also if the others never go on.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "weak/execution.h"

namespace holdfast::weak {

struct Location {
  std::uint8_t number;
};

class Explorer;

/// What a thread does next.
struct Step {
  enum class Kind : std::uint8_t { load, store, exchange, add, set_bits, compare_exchange, fence, end };
  Kind kind = Kind::end;
  Order order = Order::relaxed;
  Order failure = Order::relaxed;  // compare_exchange
  std::uint8_t location = 0;
  Value value = 0;     // stored, added, set or desired
  Value expected = 0;  // compare_exchange

  bool reads() const noexcept { return kind != Kind::store && kind != Kind::fence && kind != Kind::end; }
};

/// A thread's view of shared memory. An operation that has not been decided yet ends the run by an exception.
class Thread {
 public:
  Value load(Location from, Order order);
  void store(Location to, Value value, Order order);
  Value exchange(Location at, Value value, Order order);
  Value fetch_add(Location at, Value value, Order order);
  Value fetch_or(Location at, Value bits, Order order);
  /// As std::atomic's: false leaves what was found in `expected`.
  bool compare_exchange(Location at, Value& expected, Value desired, Order success, Order failure = Order::relaxed);
  /// A relaxed one is none.
  void fence(Order order);

  /// Goes no further unless this is so: a loop that is not worth following, or a death.
  void require(bool holds);
  /// What must hold whenever this point is reached.
  void claim(bool holds, const char* what);
  /// Adds to the outcome of the execution, by which `Program::finally` judges it.
  void observe(const char* name, Value value);

 private:
  friend class Explorer;

  Value decide(const Step& step);

  std::vector<Value> decided_;  // what was read, by step
  std::size_t at_ = 0;
  Step next_;
  std::map<std::string, Value> observed_;
  const char* broken_ = nullptr;
};

using Outcome = std::map<std::string, Value>;

class Program {
 public:
  Location location(std::string name, Value initial = 0);
  void thread(std::function<void(Thread&)> body) { bodies_.push_back(std::move(body)); }
  /// What must hold of each complete execution. What a thread did not come to observe is missing.
  void finally(const char* what, std::function<bool(const Outcome&)> holds);

 private:
  friend class Explorer;

  std::vector<std::string> names_;
  std::vector<Value> initial_;
  std::vector<std::function<void(Thread&)>> bodies_;
  std::vector<std::pair<const char*, std::function<bool(const Outcome&)>>> final_claims_;
};

struct Findings {
  std::uint64_t executions = 0;               // complete ones, without those that differ in nothing
  std::uint64_t graphs = 0;                   // parts of executions that were gone through
  std::set<std::string> outcomes;             // "a=1 b=0", by name
  std::map<std::string, std::string> broken;  // claim, an execution that breaks it

  bool holds() const noexcept { return broken.empty(); }
  bool allows(const std::string& outcome) const { return outcomes.contains(outcome); }
  /// The claims that are broken, for people.
  std::string text() const;
};

Findings explore(const Program& program);

}  // namespace holdfast::weak
