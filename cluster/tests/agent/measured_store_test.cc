// Tests what the measured store concludes from revisions while requests overlap and answers arrive in any order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <utility>
#include <vector>

#include "agent/measured_store.h"
#include "agent/silent_store.h"

namespace holdfast::test {
namespace {

using agent::Answer;
using agent::Outcome;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

/// Answers transactions when the test requires it, with the revision that the test gives.
class ScriptedStore final : public SilentStore {
 public:
  void transact(agent::Change, std::function<void(const Answer&)> done) override { asked.push_back(std::move(done)); }

  void answer(std::size_t request, agent::Revision revision, Outcome outcome = Outcome::answered) {
    Answer answer;
    answer.outcome = outcome;
    answer.revision = revision;
    asked[request](answer);
  }

  std::vector<std::function<void(const Answer&)>> asked;
};

class StoppedClock final : public agent::Clock {
 public:
  agent::Milliseconds boot_ms() const override { return 0; }
  std::int64_t boot_us() const override { return now_us; }
  agent::Milliseconds wall_ms() const override { return 0; }
  std::int64_t now_us = 0;
};

class MeasuredStoreTest : public ::testing::Test {
 protected:
  void ask() {
    measured_.transact({}, [](const Answer&) {});
  }
  /// Sends a request, which the store answers immediately.
  void answered(agent::Revision revision, Outcome outcome = Outcome::answered) {
    ask();
    store_.answer(store_.asked.size() - 1, revision, outcome);
  }

  ScriptedStore store_;
  StoppedClock clock_;
  std::vector<std::pair<agent::Revision, agent::Revision>> back_;
  agent::MeasuredStore measured_{store_, clock_,
                                 [this](agent::Revision from, agent::Revision to) { back_.emplace_back(from, to); }};
};

TEST_F(MeasuredStoreTest, a_smaller_revision_than_before_the_request_was_sent_means_that_the_store_went_back) {
  answered(100);
  answered(99);
  EXPECT_THAT(back_, ElementsAre(Pair(100, 99)));
}

TEST_F(MeasuredStoreTest, answers_that_overtake_each_other_mean_nothing) {
  ask();
  answered(100);
  store_.answer(0, 99);
  answered(100);
  EXPECT_THAT(back_, IsEmpty());
}

TEST_F(MeasuredStoreTest, a_refusal_has_no_revision) {
  answered(100);
  answered(0, Outcome::refused);
  answered(0, Outcome::unknown);
  EXPECT_THAT(back_, IsEmpty());
}

TEST_F(MeasuredStoreTest, one_step_back_is_reported_once_whatever_is_in_flight) {
  answered(100);
  ask();
  ask();
  store_.answer(1, 50);
  store_.answer(2, 51);
  answered(52);
  EXPECT_THAT(back_, ElementsAre(Pair(100, 50)));
  answered(51);
  EXPECT_THAT(back_, ElementsAre(Pair(100, 50), Pair(52, 51)));
}

TEST_F(MeasuredStoreTest, the_time_in_the_agents_own_queue_does_not_count_as_the_stores) {
  ask();
  Answer answer;
  answer.outcome = Outcome::answered;
  answer.queued_us = 700;
  clock_.now_us = 1000;
  store_.asked[0](answer);
  EXPECT_EQ(measured_.latency().sum_us(), 300);
  EXPECT_EQ(measured_.queued_us(), 700);
}

TEST_F(MeasuredStoreTest, a_refusal_of_changes_is_reported_until_a_change_succeeds) {
  using agent::Fault;
  using agent::Trouble;
  const agent::Change change{{}, {agent::Step::put("k", "v", 0)}, {}};
  const auto trouble_after = [this](const agent::Change& asked, Outcome outcome, Fault fault, bool guarded) {
    measured_.transact(asked, [](const Answer&) {});
    Answer answer;
    answer.outcome = outcome;
    answer.fault = fault;
    answer.guarded = guarded;
    answer.sentence = "etcd says";
    store_.asked.back()(answer);
    return measured_.trouble();
  };
  EXPECT_EQ(trouble_after(change, Outcome::refused, Fault::no_space, false), Trouble::no_room);
  EXPECT_EQ(measured_.sentence(), "etcd says");
  EXPECT_EQ(trouble_after({}, Outcome::answered, Fault::none, true), Trouble::no_room);
  EXPECT_EQ(trouble_after(change, Outcome::answered, Fault::none, false), Trouble::no_room);
  EXPECT_EQ(trouble_after(change, Outcome::refused, Fault::no_lease, false), Trouble::no_room);
  EXPECT_EQ(trouble_after(change, Outcome::answered, Fault::none, true), Trouble::none);
  EXPECT_EQ(measured_.sentence(), "");
  EXPECT_EQ(trouble_after(change, Outcome::refused, Fault::too_large, false), Trouble::none);
  EXPECT_EQ(trouble_after(change, Outcome::refused, Fault::denied, false), Trouble::denied);
  EXPECT_EQ(trouble_after(change, Outcome::unknown, Fault::none, false), Trouble::unanswered);
  EXPECT_EQ(trouble_after({}, Outcome::answered, Fault::none, true), Trouble::none);
}

}  // namespace
}  // namespace holdfast::test
