// What the tests of our own protocols share.
//
// Each protocol is a struct of the orderings that it uses, as the sources have them, and a list of faults: an ordering
// weakened, a step left out. The claims must hold with the orderings of the sources and break with each fault. The
// steps quote the lines of the sources that they stand for, and the quotes must be there: a change of such a line leads
// here.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "weak/litmus.h"

namespace holdfast::weak {

inline constexpr auto kRelaxed = Order::relaxed;
inline constexpr auto kAcquire = Order::acquire;
inline constexpr auto kRelease = Order::release;
inline constexpr auto kAcqRel = Order::acq_rel;
inline constexpr auto kSeqCst = Order::seq_cst;

template <class Protocol>
struct Fault {
  const char* what;
  void (*plant)(Protocol&);
};

/// The findings of all programs that exercise a protocol, together.
Findings explore_all(const std::vector<Program>& programs);

template <class Protocol>
void expect_proof(std::vector<Program> (*programs)(const Protocol&), const std::vector<Fault<Protocol>>& faults) {
  const Findings sound = explore_all(programs(Protocol{}));
  EXPECT_TRUE(sound.holds()) << sound.text();
  EXPECT_GT(sound.executions, 0U);
  testing::Test::RecordProperty("executions", std::to_string(sound.executions));
  testing::Test::RecordProperty("faults", std::to_string(faults.size()));
  for (const Fault<Protocol>& fault : faults) {
    Protocol protocol;
    fault.plant(protocol);
    EXPECT_FALSE(explore_all(programs(protocol)).holds()) << "not found: " << fault.what;
  }
  std::printf("%llu executions, %zu faults found\n", static_cast<unsigned long long>(sound.executions), faults.size());
}

/// A line of a source file, spaces aside.
struct Quote {
  const char* file;
  const char* line;
};
void expect_quotes(const std::vector<Quote>& quotes);

}  // namespace holdfast::weak
