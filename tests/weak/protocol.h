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
#include <initializer_list>
#include <string>
#include <vector>

#include "weak/litmus.h"

namespace holdfast::weak {

inline constexpr auto kRelaxed = Order::relaxed;
inline constexpr auto kAcquire = Order::acquire;
inline constexpr auto kRelease = Order::release;
inline constexpr auto kAcqRel = Order::acq_rel;
inline constexpr auto kSeqCst = Order::seq_cst;

/// The findings of all programs that exercise a protocol, together.
Findings explore_all(const std::vector<Program>& programs);

/// Sets each of these parts of a protocol to `value`, one at a time: some claim of the programs must break.
template <class Protocol, class Value>
void expect_needed(std::vector<Program> (*programs)(const Protocol&), std::initializer_list<Value Protocol::*> parts,
                   Value value) {
  std::size_t number = 0;
  for (const auto part : parts) {
    Protocol protocol;
    protocol.*part = value;
    EXPECT_FALSE(explore_all(programs(protocol)).holds()) << "not needed: part " << number << " of the list";
    ++number;
  }
}

/// The claims hold, and no longer where one of these orderings is relaxed or one of these steps left out.
template <class Protocol>
void expect_proof(std::vector<Program> (*programs)(const Protocol&), std::initializer_list<Order Protocol::*> orderings,
                  std::initializer_list<bool Protocol::*> steps) {
  const Findings sound = explore_all(programs(Protocol{}));
  EXPECT_TRUE(sound.holds()) << sound.text();
  EXPECT_GT(sound.executions, 0U);
  testing::Test::RecordProperty("executions", std::to_string(sound.executions));
  expect_needed(programs, orderings, kRelaxed);
  expect_needed(programs, steps, false);
  std::printf("%llu executions, %zu faults\n", static_cast<unsigned long long>(sound.executions),
              orderings.size() + steps.size());
}

/// A line of a source file, spaces aside.
struct Quote {
  const char* file;
  const char* line;
};
void expect_quotes(const std::vector<Quote>& quotes);

}  // namespace holdfast::weak
