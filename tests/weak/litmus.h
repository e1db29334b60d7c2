// Explores every execution that C++20 allows for a small program:
//
//   Program program;
//   const Location data = program.location("data");
//   const Location flag = program.location("flag");
//   program.thread([=](Thread& t) { t.store(data, 1, Order::relaxed); t.store(flag, 1, Order::release); });
//   program.thread([=](Thread& t) {
//     if (t.load(flag, Order::acquire) == 1) t.claim(t.load(data, Order::relaxed) == 1, "the reader sees the data");
//   });
//   const Findings findings = explore(program);
//
// A thread's function runs many times. The same reads must always lead to the same steps, so no state may outlive a
// run. Any thread may be stopped or killed at any step, so a claim must hold even if the other threads never continue.
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

/// The next step of a thread.
struct Step {
  enum class Kind : std::uint8_t { load, store, exchange, add, set_bits, compare_exchange, fence, end };
  Kind kind = Kind::end;
  Order order = Order::relaxed;
  Order failure = Order::relaxed;  // the order of a compare_exchange that fails
  std::uint8_t location = 0;
  Value value = 0;     // the value to store, add or set
  Value expected = 0;  // the value that a compare_exchange expects

  bool reads() const noexcept { return kind != Kind::store && kind != Kind::fence && kind != Kind::end; }
};

/// A thread's view of shared memory. An operation whose result is undecided ends the run with an exception.
class Thread {
 public:
  Value load(Location from, Order order);
  void store(Location to, Value value, Order order);
  Value exchange(Location at, Value value, Order order);
  Value fetch_add(Location at, Value value, Order order);
  Value fetch_or(Location at, Value bits, Order order);
  /// Works like std::atomic's compare_exchange. On failure, `expected` gets the value that was found.
  bool compare_exchange(Location at, Value& expected, Value desired, Order success, Order failure = Order::relaxed);
  /// A relaxed fence has no effect.
  void fence(Order order);

  /// Stops the thread unless `holds` is true. Use this to leave a loop that need not be followed, or to simulate the
  /// thread's death.
  void require(bool holds);
  /// Claims that `holds` is true whenever the thread reaches this point.
  void claim(bool holds, const char* what);
  /// Adds a value to the outcome of the execution, which `Program::finally` checks.
  void observe(const char* name, Value value);

 private:
  friend class Explorer;

  Value decide(const Step& step);

  std::vector<Value> decided_;  // the values that were read, by step
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
  /// Claims that `holds` returns true for each complete execution. The outcome does not contain observations that a
  /// thread did not reach.
  void finally(const char* what, std::function<bool(const Outcome&)> holds);

 private:
  friend class Explorer;

  std::vector<std::string> names_;
  std::vector<Value> initial_;
  std::vector<std::function<void(Thread&)>> bodies_;
  std::vector<std::pair<const char*, std::function<bool(const Outcome&)>>> final_claims_;
};

struct Findings {
  std::uint64_t executions = 0;               // number of complete executions; equal executions count once
  std::uint64_t graphs = 0;                   // number of executions and partial executions that were explored
  std::set<std::string> outcomes;             // such as "a=1 b=0", sorted by name
  std::map<std::string, std::string> broken;  // each broken claim, with an execution that breaks it

  bool holds() const noexcept { return broken.empty(); }
  bool allows(const std::string& outcome) const { return outcomes.contains(outcome); }
  /// Returns the broken claims as text.
  std::string text() const;
};

Findings explore(const Program& program);

}  // namespace holdfast::weak
