// Tests which endpoint gets requests, and when.
#include "etcd/endpoints.h"

#include <gtest/gtest.h>

namespace holdfast::etcd {
namespace {

TEST(Backoff, grows_from_20_ms_to_1_s_and_is_up_to_half_random) {
  Backoff backoff(1);
  for (int round = 0; round < 2; ++round) {
    std::int64_t most = Backoff::kFirstMs;
    for (int i = 0; i < 12; ++i) {
      const std::int64_t pause = backoff.next_ms();
      EXPECT_GE(pause, most / 2);
      EXPECT_LE(pause, most);
      most = std::min(2 * most, Backoff::kLongestMs);
    }
    EXPECT_EQ(most, Backoff::kLongestMs);
    backoff.reset();
  }
}

TEST(Endpoints, do_not_change_while_one_works) {
  Endpoints endpoints({"http://a/", "http://b", "http://c"}, 1);
  EXPECT_EQ(endpoints.url(0), "http://a");
  endpoints.failed(0, 1000);
  EXPECT_EQ(endpoints.current(), 1u);
  EXPECT_EQ(endpoints.pause_ms(1000), 0) << "it must be possible to try other endpoints immediately";
  endpoints.worked(1);
  EXPECT_EQ(endpoints.current(), 1u);
}

TEST(Endpoints, pause_when_all_have_failed_in_a_row) {
  Endpoints endpoints({"http://a", "http://b"}, 1);
  endpoints.failed(0, 1000);
  endpoints.failed(1, 1000);
  EXPECT_EQ(endpoints.current(), 0u);
  EXPECT_GT(endpoints.pause_ms(1000), 0);
  EXPECT_EQ(endpoints.pause_ms(1000 + Backoff::kFirstMs), 0);
  endpoints.worked(0);
  EXPECT_EQ(endpoints.pause_ms(1000), 0);
}

// A server that works again must get a request within a second, even if each failed attempt takes most of a second.
TEST(Endpoints, do_not_add_the_time_of_an_attempt_to_the_pause) {
  Endpoints endpoints({"http://a"}, 1);
  std::int64_t now = 1000;
  for (int i = 0; i < 20; ++i) {
    now += Backoff::kLongestMs;
    endpoints.failed(0, now, 700);
    EXPECT_LE(endpoints.pause_ms(now), Backoff::kLongestMs - 700);
  }
  endpoints.failed(0, now += Backoff::kLongestMs);
  EXPECT_GE(endpoints.pause_ms(now), Backoff::kLongestMs / 2)
      << "an immediate refusal must be followed by the whole pause";
}

TEST(Endpoints, are_not_changed_twice_after_one_failure) {
  Endpoints endpoints({"http://a", "http://b", "http://c"}, 1);
  endpoints.failed(0, 1000);
  endpoints.failed(0, 1000);  // another request to the same endpoint
  EXPECT_EQ(endpoints.current(), 1u);
}

}  // namespace
}  // namespace holdfast::etcd
