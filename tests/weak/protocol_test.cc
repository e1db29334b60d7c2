// What the tests of protocols report.
#include "weak/protocol.h"

#include <gtest/gtest-spi.h>

namespace holdfast::weak {
namespace {

/// A message behind a flag.
struct Passing {
  Order data_store = kRelease;  // more than it needs
  Order flag_store = kRelease;
  Order flag_load = kAcquire;
  bool asks_first = true;
};

std::vector<Program> programs(const Passing& how) {
  Program program;
  const Location data = program.location("data");
  const Location flag = program.location("flag");
  program.thread([=](Thread& t) {
    t.store(data, 1, how.data_store);
    t.store(flag, 1, how.flag_store);
  });
  program.thread([=](Thread& t) {
    const bool there = t.load(flag, how.flag_load) == 1;
    if (how.asks_first) t.require(there);
    t.claim(t.load(data, kRelaxed) == 1, "the message is there");
  });
  return {program};
}

TEST(weak_protocol, a_part_that_is_not_needed_is_reported_by_its_name) {
  expect_proof(programs, PARTS(&Passing::flag_store, &Passing::flag_load), PARTS(&Passing::asks_first));
  EXPECT_NONFATAL_FAILURE(
      expect_proof(programs, PARTS(&Passing::flag_store, &Passing::data_store), PARTS(&Passing::asks_first)),
      "not needed: &Passing::data_store");
}

TEST(weak_protocol, a_line_that_the_sources_no_longer_have_is_reported) {
  EXPECT_NONFATAL_FAILURE(expect_quotes({{"src/sync/mailbox.cc", "there is no such line"}}), "there is no such line");
}

}  // namespace
}  // namespace holdfast::weak
