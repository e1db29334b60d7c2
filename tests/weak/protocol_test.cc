// Tests the reports of failed protocol tests.
#include "weak/protocol.h"

#include <gtest/gtest-spi.h>

namespace holdfast::weak {
namespace {

/// A message behind a flag.
struct Passing : Protocol {
  Ordering flag_store{this, "flag_store", kRelease};
  Ordering flag_load{this, "flag_load", kAcquire};
  Precaution asks_first{this, "asks_first"};
};

std::vector<Program> programs_with(const Passing& how, Order data_store) {
  Program program;
  const Location data = program.location("data");
  const Location flag = program.location("flag");
  program.thread([=](Thread& t) {
    t.store(data, 1, data_store);
    t.store(flag, 1, how.flag_store);
  });
  program.thread([=](Thread& t) {
    const bool there = t.load(flag, how.flag_load) == 1;
    if (how.asks_first) t.require(there);
    t.claim(t.load(data, kRelaxed) == 1, "the reader sees the message");
  });
  return {program};
}

std::vector<Program> programs(const Passing& how) { return programs_with(how, kRelaxed); }

struct MoreThanItNeeds : Passing {
  Ordering data_store{this, "data_store", kRelease};
};

std::vector<Program> more_programs(const MoreThanItNeeds& how) { return programs_with(how, how.data_store); }

TEST(weak_protocol, a_needless_part_is_reported_by_name) {
  expect_proof(programs);
  EXPECT_NONFATAL_FAILURE(expect_proof(more_programs), "not needed: data_store");
}

TEST(weak_protocol, a_line_missing_from_the_sources_is_reported) {
  EXPECT_NONFATAL_FAILURE(expect_quotes({{"src/sync/mailbox.cc", "there is no such line"}}), "there is no such line");
}

}  // namespace
}  // namespace holdfast::weak
