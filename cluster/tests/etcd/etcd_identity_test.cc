// Tests which store counts as the cluster's store (etcd/identity.h).
#include "etcd/identity.h"

#include <gtest/gtest.h>

namespace holdfast::etcd {
namespace {

using Accepted = Identity::Accepted;

constexpr std::int64_t kLease = 5000;
constexpr std::int64_t kFresh = Identity::kFreshMs;

TEST(Identity, of_the_only_endpoint_is_accepted_immediately_if_none_was_known) {
  Identity identity(1, "", kLease);
  EXPECT_TRUE(identity.known().empty());
  EXPECT_TRUE(identity.hear(0, "", 1000)) << "an answer that names no store must change nothing";
  EXPECT_TRUE(identity.hear(0, "7", 1000));
  EXPECT_EQ(identity.known(), "7");
  EXPECT_FALSE(identity.stranger(1000));
}

TEST(Identity, of_the_only_endpoint_never_changes_by_itself) {
  Identity identity(1, "7", kLease);
  for (std::int64_t now = 0; now < 10 * kLease; now += 1000) EXPECT_FALSE(identity.hear(0, "8", now));
  EXPECT_EQ(identity.known(), "7");
  EXPECT_EQ(identity.stranger(10 * kLease), 0U);
  EXPECT_EQ(identity.named(0, 10 * kLease), "8");
}

TEST(Identity, is_known_once_a_majority_of_the_endpoints_names_it) {
  Identity identity(3, "", kLease);
  EXPECT_FALSE(identity.hear(0, "7", 1000));
  EXPECT_FALSE(identity.hear(0, "7", 1001)) << "the same endpoint must count only once";
  EXPECT_FALSE(identity.hear(1, "8", 1002));
  EXPECT_TRUE(identity.hear(2, "7", 1003));
  EXPECT_FALSE(identity.hear(1, "8", 1004));
  EXPECT_TRUE(identity.hear(0, "7", 1005));
}

TEST(Identity, needs_both_of_two_endpoints) {
  Identity identity(2, "", kLease);
  EXPECT_FALSE(identity.hear(0, "7", 1000));
  EXPECT_FALSE(identity.hear(1, "8", 1000));
  EXPECT_TRUE(identity.known().empty());
  EXPECT_TRUE(identity.hear(1, "7", 1001));
}

TEST(Identity, ignores_old_answers) {
  Identity identity(3, "", kLease);
  EXPECT_FALSE(identity.hear(0, "7", 1000));
  EXPECT_FALSE(identity.hear(1, "7", 1001 + kFresh));
  EXPECT_TRUE(identity.hear(0, "7", 1002 + kFresh));
}

// The minority may be a member that was wiped and started alone while the other members are cut off.
TEST(Identity, does_not_change_for_a_minority_however_long_the_others_are_silent) {
  Identity identity(3, "7", kLease);
  for (std::int64_t now = 0; now < 10 * kLease; now += 1000) EXPECT_FALSE(identity.hear(0, "8", now));
  EXPECT_TRUE(identity.hear(1, "7", 10 * kLease));
}

TEST(Identity, changes_for_a_majority_once_the_last_stores_leases_have_ended) {
  Identity identity(3, "7", kLease);
  const auto look = [&](std::int64_t now) {
    identity.hear(1, "8", now);
    return identity.hear(0, "8", now);
  };
  EXPECT_FALSE(look(1000));
  EXPECT_FALSE(look(999 + kLease));
  EXPECT_TRUE(look(1000 + kLease));
  EXPECT_EQ(identity.known(), "8");
  EXPECT_FALSE(identity.hear(2, "7", 1001 + kLease));
}

TEST(Identity, restarts_the_lease_time_if_the_majority_was_interrupted) {
  Identity identity(3, "7", kLease);
  identity.hear(0, "8", 0);
  identity.hear(1, "8", 0);
  EXPECT_TRUE(identity.hear(1, "7", 1000));
  EXPECT_FALSE(identity.hear(1, "8", 2000));
  EXPECT_FALSE(identity.hear(1, "8", kLease));
  EXPECT_FALSE(identity.hear(1, "8", 1999 + kLease));
  EXPECT_TRUE(identity.hear(1, "8", 2000 + kLease));
}

TEST(Identity, changes_if_an_operator_accepts_a_store_once_the_last_stores_leases_have_ended) {
  Identity identity(1, "7", kLease);
  EXPECT_EQ(identity.accept("8", 0), Accepted::unnamed);
  EXPECT_FALSE(identity.hear(0, "8", 1000));
  EXPECT_EQ(identity.accept("9", 1000), Accepted::unnamed);
  EXPECT_EQ(identity.accept("8", 1500), Accepted::later);
  EXPECT_FALSE(identity.hear(0, "8", 999 + kLease));
  EXPECT_TRUE(identity.hear(0, "8", 1000 + kLease));
  EXPECT_EQ(identity.accept("8", 1000 + kLease), Accepted::done);
  EXPECT_FALSE(identity.hear(0, "7", 1001 + kLease)) << "the previous store must no longer be accepted";
}

TEST(Identity, changes_immediately_if_an_operator_accepts_a_long_named_store) {
  Identity identity(1, "7", kLease);
  EXPECT_FALSE(identity.hear(0, "8", 0));
  EXPECT_FALSE(identity.hear(0, "8", kLease));
  EXPECT_EQ(identity.accept("8", kLease), Accepted::done);
  EXPECT_TRUE(identity.hear(0, "8", kLease));
}

TEST(Identity, does_not_change_if_an_operator_accepts_a_store_against_most_endpoints) {
  Identity identity(3, "7", kLease);
  identity.hear(0, "8", 0);
  identity.hear(1, "7", 0);
  identity.hear(2, "7", 0);
  EXPECT_EQ(identity.accept("8", 0), Accepted::outvoted);
  EXPECT_FALSE(identity.hear(0, "8", kLease));
}

TEST(Identity, does_not_change_if_an_operator_accepts_a_store_while_most_endpoints_are_down) {
  Identity identity(3, "7", kLease);
  EXPECT_FALSE(identity.hear(0, "8", 0));
  EXPECT_EQ(identity.accept("8", 0), Accepted::later);
  EXPECT_TRUE(identity.hear(1, "7", 1));
  EXPECT_TRUE(identity.hear(2, "7", 1));
  EXPECT_FALSE(identity.hear(0, "8", kLease));
  EXPECT_EQ(identity.known(), "7");
}

TEST(Identity, is_formatted_as_in_etcd) {
  EXPECT_EQ(shown_id("14841639068965178418"), "cdf818194e3a8c32");
  EXPECT_EQ(shown_id("7"), "0000000000000007");
  EXPECT_EQ(shown_id("x"), "x");
  EXPECT_EQ(shown_id(""), "");
}

}  // namespace
}  // namespace holdfast::etcd
