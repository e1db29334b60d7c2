#include "weak/litmus.h"

#include <algorithm>
#include <array>
#include <unordered_set>

namespace holdfast::weak {

namespace {

/// Thrown to end a thread's run, because the thread's next step is undecided or the thread stops.
struct Paused {};

}  // namespace

Value Thread::decide(const Step& step) {
  if (at_ < decided_.size()) return decided_[at_++];
  next_ = step;
  throw Paused{};
}

Value Thread::load(Location from, Order order) {
  return decide({.kind = Step::Kind::load, .order = order, .location = from.number});
}
void Thread::store(Location to, Value value, Order order) {
  decide({.kind = Step::Kind::store, .order = order, .location = to.number, .value = value});
}
Value Thread::exchange(Location at, Value value, Order order) {
  return decide({.kind = Step::Kind::exchange, .order = order, .location = at.number, .value = value});
}
Value Thread::fetch_add(Location at, Value value, Order order) {
  return decide({.kind = Step::Kind::add, .order = order, .location = at.number, .value = value});
}
Value Thread::fetch_or(Location at, Value bits, Order order) {
  return decide({.kind = Step::Kind::set_bits, .order = order, .location = at.number, .value = bits});
}
bool Thread::compare_exchange(Location at, Value& expected, Value desired, Order success, Order failure) {
  const Value found = decide({.kind = Step::Kind::compare_exchange,
                              .order = success,
                              .failure = failure,
                              .location = at.number,
                              .value = desired,
                              .expected = expected});
  const bool same = found == expected;
  expected = found;
  return same;
}
void Thread::fence(Order order) {
  if (order != Order::relaxed) decide({.kind = Step::Kind::fence, .order = order});
}

void Thread::require(bool holds) {
  if (holds) return;
  next_ = {};
  throw Paused{};
}
void Thread::claim(bool holds, const char* what) {
  if (!holds) broken_ = what;
}
void Thread::observe(const char* name, Value value) { observed_[name] = value; }

Location Program::location(std::string name, Value initial) {
  names_.push_back(std::move(name));
  initial_.push_back(initial);
  return {static_cast<std::uint8_t>(initial_.size() - 1)};
}

void Program::finally(const char* what, std::function<bool(const Outcome&)> holds) {
  final_claims_.emplace_back(what, std::move(holds));
}

std::string Findings::text() const {
  std::string text;
  for (const auto& [claim, execution] : broken) text += "broken: " + claim + "\n" + execution;
  return text.empty() ? "nothing is broken" : text;
}

/// Explores all graphs. If any thread's next step is a store or a fence, adds this step immediately, because no later
/// event of another thread depends on its absence. If all threads are about to read, lets each of them read first, in
/// turn. A graph that can be built in several ways is explored only once.
class Explorer {
 public:
  explicit Explorer(const Program& program) : program_(program) {}

  Findings run() {
    State start{Execution(program_.initial_, program_.bodies_.size()), std::vector<Thread>(program_.bodies_.size())};
    for (std::size_t i = 0; i < start.threads.size(); ++i) resume(start, i);
    visit(std::move(start));
    return std::move(findings_);
  }

 private:
  struct State {
    Execution execution;
    std::vector<Thread> threads;
  };
  struct Hash {
    std::size_t operator()(const std::array<std::uint64_t, 2>& print) const noexcept { return print[0]; }
  };

  /// Runs a thread to its next undecided step.
  void resume(State& state, std::size_t thread) {
    Thread& t = state.threads[thread];
    t.at_ = 0;
    t.observed_.clear();
    t.broken_ = nullptr;
    t.next_ = {};
    try {
      program_.bodies_[thread](t);
    } catch (const Paused&) {
    }
    if (t.broken_ != nullptr) report(t.broken_, state);
  }

  void visit(State state) {
    for (std::size_t i = 0; i < state.threads.size(); ++i) {
      const Step& next = state.threads[i].next_;
      if (next.kind == Step::Kind::end || next.reads()) continue;
      if (next.kind == Step::Kind::store) return visit_stores(state, i);
      state.execution.add_fence(static_cast<std::uint8_t>(i), next.order);
      if (!state.execution.consistent()) return;
      state.threads[i].decided_.push_back(0);
      resume(state, i);
      return visit(std::move(state));
    }
    if (!seen_.insert(state.execution.fingerprint()).second) return;
    ++findings_.graphs;
    bool complete = true;
    for (std::size_t i = 0; i < state.threads.size(); ++i) {
      if (state.threads[i].next_.kind == Step::Kind::end) continue;
      complete = false;
      visit_reads(state, i);
    }
    if (complete) finish(state);
  }

  void visit_stores(const State& state, std::size_t thread) {
    const Step& step = state.threads[thread].next_;
    const auto number = static_cast<std::uint8_t>(thread);
    const std::size_t end = state.execution.writes(step.location).size();
    for (std::size_t place = state.execution.oldest_readable(number, step.location) + 1; place <= end; ++place) {
      State next = state;
      next.execution.add_write(number, step.location, step.order, place, step.value);
      go_on(std::move(next), thread, 0);
    }
  }

  void visit_reads(const State& state, std::size_t thread) {
    const Step& step = state.threads[thread].next_;
    const auto number = static_cast<std::uint8_t>(thread);
    const auto& writes = state.execution.writes(step.location);
    for (std::size_t place = state.execution.oldest_readable(number, step.location); place < writes.size(); ++place) {
      State next = state;
      const Value found = state.execution.events()[writes[place]].written;
      add(next.execution, number, step, place, found);
      go_on(std::move(next), thread, found);
    }
  }

  static void add(Execution& execution, std::uint8_t thread, const Step& step, std::size_t place, Value found) {
    const auto update = [&](Value value) { execution.add_update(thread, step.location, step.order, place, value); };
    switch (step.kind) {
      case Step::Kind::exchange:
        return update(step.value);
      case Step::Kind::add:
        return update(found + step.value);
      case Step::Kind::set_bits:
        return update(found | step.value);
      case Step::Kind::compare_exchange:
        if (found == step.expected) return update(step.value);
        return execution.add_read(thread, step.location, step.failure, place);
      default:
        execution.add_read(thread, step.location, step.order, place);
    }
  }

  void go_on(State next, std::size_t thread, Value found) {
    if (!next.execution.consistent()) return;
    next.threads[thread].decided_.push_back(found);
    resume(next, thread);
    visit(std::move(next));
  }

  void finish(const State& state) {
    ++findings_.executions;
    Outcome outcome;
    for (const Thread& thread : state.threads) outcome.insert(thread.observed_.begin(), thread.observed_.end());
    std::string text;
    for (const auto& [name, value] : outcome) text += (text.empty() ? "" : " ") + name + "=" + std::to_string(value);
    findings_.outcomes.insert(text);
    for (const auto& [what, holds] : program_.final_claims_)
      if (!holds(outcome)) report(what, state);
  }

  void report(const char* what, const State& state) {
    if (!findings_.broken.contains(what)) findings_.broken[what] = text_of(state);
  }

  std::string text_of(const State& state) const {
    static constexpr std::array kKinds{"read", "write", "update", "fence"};
    static constexpr std::array kOrders{"relaxed", "acquire", "release", "acq_rel", "seq_cst"};
    const auto& events = state.execution.events();
    const auto writer = [&](EventId id) {
      return events[id].thread == kInitialThread ? std::string("the beginning")
                                                 : "thread " + std::to_string(events[id].thread);
    };
    std::string text;
    for (std::size_t thread = 0; thread < state.threads.size(); ++thread) {
      text += "  thread " + std::to_string(thread) + "\n";
      for (const EventId id : state.execution.events_of(thread)) {
        const Event& event = events[id];
        text += std::string("    ") + kKinds[static_cast<std::size_t>(event.kind)] + " " +
                kOrders[static_cast<std::size_t>(event.order)];
        if (event.kind != Kind::fence) text += " " + program_.names_[event.location];
        if (event.reads()) text += " = " + std::to_string(event.read) + " of " + writer(event.from);
        if (event.writes()) text += " := " + std::to_string(event.written);
        text += "\n";
      }
    }
    return text;
  }

  const Program& program_;
  Findings findings_;
  std::unordered_set<std::array<std::uint64_t, 2>, Hash> seen_;
};

Findings explore(const Program& program) { return Explorer(program).run(); }

}  // namespace holdfast::weak
