// What the tests of our own protocols share.
//
// Each protocol is a struct of the orderings that it uses, as the sources have them, and of its steps. The claims must
// hold with the orderings of the sources, and break with each that is weakened and each step that is left out. The
// steps quote the lines of the sources that they stand for, and the quotes must be there: a change of such a line leads
// here.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdio>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "weak/litmus.h"

namespace holdfast::weak {

inline constexpr auto kRelaxed = Order::relaxed;
inline constexpr auto kAcquire = Order::acquire;
inline constexpr auto kRelease = Order::release;
inline constexpr auto kAcqRel = Order::acq_rel;
inline constexpr auto kSeqCst = Order::seq_cst;

/// Takes a free mutex, or goes no further.
void lock(Thread& t, Location mutex, Value me, Order order = kAcquire);
/// Gives a mutex back, unless it was taken away.
void unlock(Thread& t, Location mutex, Value me, Order order = kRelease);

/// The findings of all programs that exercise a protocol, together.
Findings explore_all(const std::vector<Program>& programs);

/// Orderings or steps of a protocol, and their names for a report.
template <class... Members>
struct Parts {
  std::string names;  // as they are written, with commas between
  std::tuple<Members...> members;

  static constexpr std::size_t kCount = sizeof...(Members);
};

template <class... Members>
Parts<Members...> name_parts(const char* names, Members... members) {
  return {names, {members...}};
}

/// Members of a protocol with their names: PARTS(&Locking::take, &Locking::give).
#define PARTS(...) ::holdfast::weak::name_parts(#__VA_ARGS__, __VA_ARGS__)

/// Sets each of these parts of a protocol to `value`, one at a time: some claim of the programs must break.
template <class Protocol, class Value, class... Members>
void expect_needed(std::vector<Program> (*programs)(const Protocol&), const Parts<Members...>& parts, Value value) {
  std::istringstream names(parts.names);
  const auto expect_it = [&](auto member) {
    std::string name;
    std::getline(names >> std::ws, name, ',');
    Protocol protocol;
    protocol.*member = value;
    EXPECT_FALSE(explore_all(programs(protocol)).holds()) << "not needed: " << name;
  };
  std::apply([&](auto... members) { (expect_it(members), ...); }, parts.members);
}

/// The claims hold, and no longer where one of these orderings is relaxed or one of these steps left out.
template <class Protocol, class Orderings, class Steps>
void expect_proof(std::vector<Program> (*programs)(const Protocol&), const Orderings& orderings, const Steps& steps) {
  const Findings sound = explore_all(programs(Protocol{}));
  EXPECT_TRUE(sound.holds()) << sound.text();
  EXPECT_GT(sound.executions, 0U);
  testing::Test::RecordProperty("executions", std::to_string(sound.executions));
  expect_needed(programs, orderings, kRelaxed);
  expect_needed(programs, steps, false);
  std::printf("%llu executions, %zu faults\n", static_cast<unsigned long long>(sound.executions),
              Orderings::kCount + Steps::kCount);
}

/// A line of a source file, spaces aside.
struct Quote {
  const char* file;
  const char* line;
};
void expect_quotes(const std::vector<Quote>& quotes);

}  // namespace holdfast::weak
