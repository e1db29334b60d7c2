// Tests the agent's engine with one or two machines, a healthy store, and one fault at a time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "agent/virtual_cluster.h"

namespace holdfast::test {
namespace {

using agent::Change;
using agent::LeaseId;
using agent::LockName;
using agent::Reply;
using agent::Step;

const LockName kLock{"jobs", "a/b"};
const std::string kLockKey = "/test/l/jobs/a%2Fb";

LockName numbered(int i) { return {"jobs", std::to_string(i)}; }

/// Returns a function that chooses this fate for each change that contains a put.
std::function<std::optional<Fate>(const Change&)> of_puts(Fate fate) {
  return [fate](const Change& change) -> std::optional<Fate> {
    for (const std::vector<Step>* steps : {&change.then, &change.otherwise})
      for (const Step& step : *steps)
        if (step.kind == Step::Kind::put) return fate;
    return std::nullopt;
  };
}

class EngineTest : public ::testing::Test {
 protected:
  Node& make_node() {
    nodes_.push_back(std::make_unique<Node>(
        schedule_, store_, settings_, 1.0,
        [this](Node& node, const LockName&, FakeMachine::Id id, std::uint64_t number) {
          granted_.insert({&node, id});
          number_ = number;
        },
        [this](Node& node, const LockName&, FakeMachine::Id id, agent::Refusal) {
          refused_.insert({&node, id});
        }));
    nodes_.back()->start_agent();
    run_ms(10);
    return *nodes_.back();
  }
  struct Pair {
    Node& one;
    Node& two;
  };
  Pair make_nodes() {
    Node& one = make_node();
    return {one, make_node()};
  }
  void run_ms(Microseconds time) { schedule_.run_for(time * 1000); }
  FakeMachine::Id take(Node& node) {
    const FakeMachine::Id program = node.machine().wait(kLock);
    run_ms(10);
    EXPECT_TRUE(has(node, program));
    return program;
  }
  struct Contended {
    Node& one;
    Node& two;
    FakeMachine::Id first;
    FakeMachine::Id second;
  };
  /// One machine has the lock, and a program on another machine waits for it.
  Contended contend() {
    Node& one = make_node();
    Node& two = make_node();
    const auto first = take(one);
    return {one, two, first, two.machine().wait(kLock)};
  }
  using Taken = std::vector<std::pair<LockName, FakeMachine::Id>>;
  /// Takes the locks from "0" to `count` - 1. Returns each lock with the program that holds it.
  Taken take_many(Node& node, int count) {
    Taken taken;
    for (int i = 0; i < count; ++i) {
      const LockName name = numbered(i);
      taken.emplace_back(name, node.machine().wait(name));
    }
    run_ms(5000);
    return taken;
  }
  bool has(Node& node, FakeMachine::Id id) const { return granted_.contains({&node, id}); }
  bool is_refused(Node& node, FakeMachine::Id id) const { return refused_.contains({&node, id}); }
  bool stored(const std::string& key) const { return store_.records().contains(key); }
  /// Returns the number of machines that wait for the lock.
  std::ptrdiff_t places() const {
    return std::count_if(store_.records().begin(), store_.records().end(),
                         [](const auto& one) { return one.first.starts_with("/test/q/"); });
  }
  std::optional<Reply> ask(Node& node, agent::Query::Kind kind, agent::Revision revision = 0) {
    const std::uint64_t number = node.machine().ask({0, kind, kLock, revision});
    run_ms(20);
    return node.machine().reply(number);
  }
  /// Sets the fate of the next transaction that puts or erases the lock's key.
  void next_change(Node& node, Fate fate) {
    node.client().fate = [fate, done = false](const Change& change) mutable -> std::optional<Fate> {
      for (const Step& step : change.then)
        if (!done && step.key == kLockKey && (step.kind == Step::Kind::put || step.kind == Step::Kind::erase)) {
          done = true;
          return fate;
        }
      return std::nullopt;
    };
  }

  Schedule schedule_{1};
  FakeStore store_{schedule_};
  agent::Settings settings_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::set<std::pair<Node*, FakeMachine::Id>> granted_;
  std::set<std::pair<Node*, FakeMachine::Id>> refused_;
  std::uint64_t number_ = 0;
};

TEST_F(EngineTest, a_free_lock_costs_one_request_and_is_returned_when_unused) {
  Node& node = make_node();
  const std::uint64_t before = node.client().requests;
  node.machine().release(kLock, take(node));
  EXPECT_EQ(node.client().requests, before + 1);
  node.machine().release(kLock, take(node));  // immediately, so the machine still owns it
  EXPECT_EQ(node.client().requests, before + 1);
  EXPECT_TRUE(stored(kLockKey));
  run_ms(700);
  EXPECT_FALSE(stored(kLockKey));
  EXPECT_FALSE(node.machine().stands(kLock));
}

TEST_F(EngineTest, a_machine_that_waits_gets_the_lock_directly) {
  const auto [one, two] = make_nodes();
  const auto first = take(one);
  const std::uint64_t number = number_;
  const auto second = two.machine().wait(kLock);
  run_ms(200);
  EXPECT_FALSE(has(two, second));
  one.machine().release(kLock, first);
  run_ms(10);
  EXPECT_TRUE(has(two, second));
  EXPECT_FALSE(one.machine().stands(kLock));
  EXPECT_GT(number_, number);
}

TEST_F(EngineTest, a_refused_try_leaves_no_queue_entry) {
  const auto [one, two] = make_nodes();
  take(one);
  const auto second = two.machine().try_once(kLock);
  run_ms(10);
  EXPECT_TRUE(is_refused(two, second));
  EXPECT_EQ(places(), 0);
}

TEST_F(EngineTest, a_machine_that_no_longer_waits_leaves_the_queue) {
  const auto [one, two, first, second] = contend();
  run_ms(20);
  two.machine().leave(kLock, second);
  run_ms(500);
  EXPECT_EQ(places(), 0);
}

TEST_F(EngineTest, a_lost_notification_costs_only_a_poll) {
  const auto [one, two, first, second] = contend();
  two.client().hears = false;
  run_ms(100);
  one.machine().release(kLock, first);
  run_ms(1100);
  EXPECT_TRUE(has(two, second));
}

// The requests are one poll a second for all locks together, the renewals of the lease, and notes, which become rare.
TEST_F(EngineTest, waits_for_many_locks_cost_about_one_request_a_second) {
  constexpr int kLocks = 20;
  constexpr int kSeconds = 100;
  const auto [one, two] = make_nodes();
  for (int i = 0; i < kLocks; ++i) {
    const LockName name = numbered(i);
    one.machine().wait(name);
    run_ms(20);
    two.machine().wait(name);
  }
  run_ms(200);
  const std::uint64_t before = two.client().requests;
  run_ms(kSeconds * 1000);
  EXPECT_LT(two.client().requests - before, 2 * kSeconds + 8 * kLocks);
}

TEST_F(EngineTest, no_poll_is_sent_while_an_earlier_poll_is_unanswered) {
  settings_.poll_ms = 50;
  const auto [one, two] = make_nodes();
  take(one);
  two.machine().wait(kLock);
  run_ms(500);
  two.client().fate = [](const Change&) { return Fate::lost_answer; };
  const std::uint64_t before = two.client().requests;
  run_ms(5 * FakeStore::kPatience / 1000);
  EXPECT_LT(two.client().requests - before, 5 * 1000 / 50 / 4);
}

TEST_F(EngineTest, the_lock_of_a_dead_machine_is_claimed_after_its_lease) {
  const auto [one, two, first, second] = contend();
  run_ms(100);
  one.kill_agent();
  run_ms(9000);
  EXPECT_FALSE(has(two, second)) << "the lease has not ended yet";
  run_ms(5000);
  EXPECT_TRUE(has(two, second));
}

TEST_F(EngineTest, waiters_behind_a_machine_that_claims_the_lock_are_found_immediately) {
  const auto [one, two] = make_nodes();
  run_ms(500);  // so that polls do not coincide
  Node& three = make_node();
  take(one);
  const auto second = two.machine().wait(kLock);
  run_ms(20);
  const auto third = three.machine().wait(kLock);
  run_ms(20);
  one.kill_agent();
  store_.revoke(one.machine().session().lease);
  while (!has(two, second)) run_ms(1);
  two.machine().release(kLock, second);
  run_ms(100);
  EXPECT_TRUE(has(three, third));
}

TEST_F(EngineTest, a_machine_that_is_cut_off_loses_its_locks_before_another_gets_them) {
  const auto [one, two, first, second] = contend();
  run_ms(5000);  // the lease was renewed once
  one.cut_for(60'000'000);
  while (one.machine().valid(kLock, first) && !has(two, second)) run_ms(1);
  EXPECT_FALSE(has(two, second));
  run_ms(5000);
  EXPECT_TRUE(has(two, second));
}

TEST_F(EngineTest, a_deadline_counts_from_before_the_request_was_sent) {
  EXPECT_EQ(agent::deadline_of(1000, 10), 1000 + 9900 - 100);
  EXPECT_EQ(agent::deadline_of(1000, 2), 1000 + 1980 - 50);
  Node& node = make_node();
  const std::uint64_t requests = node.client().requests;
  while (node.client().requests == requests) run_ms(1);
  const agent::Milliseconds sent = node.clock().boot_ms();
  node.stop_agent_for(900'000);  // so that the answer is read late
  run_ms(950);
  EXPECT_LE(node.machine().session().deadline, agent::deadline_of(sent, settings_.ttl_s));
}

TEST_F(EngineTest, a_lost_lease_stays_lost_whatever_the_store_answers_later) {
  Node& node = make_node();
  const auto program = take(node);
  const agent::Session session = node.machine().session();
  node.stop_agent_for(9'900'000);  // past the deadline, while the answer to a keepalive is on its way
  while (schedule_.now() < 9'950'000) {
    store_.keep_alive(session.lease);  // the store keeps the lease
    run_ms(100);
  }
  EXPECT_FALSE(node.machine().valid(kLock, program));
  run_ms(3000);
  EXPECT_GT(node.machine().session().epoch, session.epoch);
  EXPECT_FALSE(node.machine().valid(kLock, program));
}

TEST_F(EngineTest, an_agent_that_returns_in_time_loses_nothing) {
  Node& node = make_node();
  const auto program = take(node);
  const agent::Session session = node.machine().session();
  node.kill_agent();
  run_ms(5000);
  node.start_agent();
  run_ms(20'000);
  EXPECT_EQ(node.machine().session().lease, session.lease);
  EXPECT_TRUE(node.machine().valid(kLock, program));
  node.machine().release(kLock, program);
  run_ms(700);
  EXPECT_FALSE(stored(kLockKey)) << "the new agent does not know the lock";
}

TEST_F(EngineTest, a_lock_that_an_earlier_agent_may_be_granting_is_kept) {
  Node& node = make_node();
  const auto program = take(node);
  node.machine().release(kLock, program);
  next_change(node, Fate::lost_request);  // of the release
  run_ms(450);
  ASSERT_FALSE(node.machine().stands(kLock));
  node.kill_agent();
  node.machine().busy.insert(kLock);
  node.start_agent();
  run_ms(3000);
  EXPECT_TRUE(stored(kLockKey));
  node.machine().busy.clear();
  run_ms(1000);
  EXPECT_FALSE(stored(kLockKey));
}

TEST_F(EngineTest, an_owned_lock_on_another_lease_is_dropped_before_the_deadline_advances) {
  Node& node = make_node();
  const LockName other{"jobs", "other"};
  const agent::Session session = node.machine().session();
  node.kill_agent();
  ASSERT_TRUE(node.machine().seat()->grant(other, session.epoch, 1000));
  ASSERT_TRUE(node.machine().stands(other));
  node.start_agent();
  while (node.machine().session().deadline == session.deadline && node.machine().stands(other)) schedule_.run_for(10);
  EXPECT_FALSE(node.machine().stands(other));
  EXPECT_EQ(node.machine().session().deadline, session.deadline);
}

TEST_F(EngineTest, a_new_agent_immediately_finds_a_waiter_that_came_while_there_was_none) {
  const auto [one, two] = make_nodes();
  const auto first = take(one);
  one.kill_agent();
  const auto second = two.machine().wait(kLock);
  run_ms(300);
  one.machine().release(kLock, first);
  one.start_agent();
  run_ms(50);
  EXPECT_TRUE(has(two, second));
}

TEST_F(EngineTest, a_deleted_notification_key_ends_the_epoch) {
  Node& node = make_node();
  const auto program = take(node);
  store_.revoke(node.machine().session().lease);
  run_ms(10);
  EXPECT_FALSE(node.machine().valid(kLock, program));
  EXPECT_EQ(node.engine().keeper().losses(), 1U);
  run_ms(10);
  take(node);
}

TEST_F(EngineTest, requests_of_the_session_precede_requests_of_locks) {
  Node& node = make_node();
  const LeaseId lease = node.machine().session().lease;
  bool announced = false;
  bool probed = false;
  bool asked = false;
  node.client().fate = [&](const Change& change) -> std::optional<Fate> {
    const std::string& key = change.then.empty() ? "" : change.then.front().key;
    announced = announced || (key.starts_with("/test/b/") && change.urgent);
    probed = probed || (key.starts_with("/test/m/") && change.urgent);
    asked = asked || (key == kLockKey && !change.urgent);
    return key == kLockKey ? std::optional(Fate::no_leader) : std::nullopt;
  };
  store_.revoke(lease);
  run_ms(100);
  EXPECT_NE(node.machine().session().lease, lease);
  node.machine().wait(kLock);
  run_ms(3000);
  EXPECT_TRUE(announced);
  EXPECT_TRUE(probed) << "a probe must show whether the store works again";
  EXPECT_TRUE(asked);
}

TEST_F(EngineTest, requests_of_an_epoch_are_unwanted_after_its_end) {
  const auto [one, two] = make_nodes();
  take(one);
  std::vector<std::function<bool()>> wanted;
  std::optional<Fate> fate;
  two.client().fate = [&](const Change& change) {
    if (!change.urgent) wanted.push_back(change.wanted ? change.wanted : [] { return true; });
    return fate;
  };
  two.machine().wait(kLock);
  run_ms(2000);  // sends the request, the note, and polls
  fate = Fate::lost_request;
  two.machine().wait({"jobs", "other"});
  run_ms(10);
  ASSERT_GE(wanted.size(), 4U);
  EXPECT_TRUE(wanted.back()());
  store_.revoke(two.machine().session().lease);
  run_ms(10);
  for (const auto& is_wanted : wanted) EXPECT_FALSE(is_wanted());
}

TEST_F(EngineTest, a_leap_of_the_wall_clock_ends_the_epoch_and_does_not_touch_the_old_lease) {
  Node& node = make_node();
  const auto program = take(node);
  const agent::LeaseId lease = node.machine().session().lease;
  node.clock().leap(3'600'000);
  run_ms(4000);
  EXPECT_FALSE(node.machine().valid(kLock, program));
  EXPECT_THAT(store_.leases(), ::testing::Contains(lease));
}

TEST_F(EngineTest, a_store_that_was_restored_to_an_earlier_state_ends_the_epoch) {
  Node& node = make_node();
  store_.skip_to(1000);
  const auto program = take(node);
  const agent::LeaseId lease = node.machine().session().lease;
  store_.skip_to(500);
  run_ms(1500);
  EXPECT_FALSE(node.machine().valid(kLock, program));
  EXPECT_THAT(store_.leases(), ::testing::Not(::testing::Contains(lease)));
  EXPECT_TRUE(node.engine().keeper().alive());
  run_ms(10'000);
  EXPECT_EQ(node.engine().keeper().losses(), 1U);
}

// While a process is stopped in a change of the lock, the machine cannot record the new fencing tokens that the store
// has granted.
TEST_F(EngineTest, an_owned_lock_is_kept_if_new_tokens_cannot_be_recorded) {
  const auto [one, two] = make_nodes();
  const auto first = take(one);
  const auto holder = one.machine().wait(kLock);
  one.machine().release(kLock, first);
  run_ms(10);
  ASSERT_TRUE(has(one, holder));
  one.machine().busy.insert(kLock);
  const std::uint64_t requests = one.client().requests;
  run_ms(10'000);  // the agent sends the new holder to the store
  EXPECT_LT(one.client().requests - requests, 40U);
  one.machine().busy.clear();
  const auto other = two.machine().wait(kLock);
  run_ms(5000);
  EXPECT_FALSE(has(two, other));
  EXPECT_TRUE(one.machine().valid(kLock, holder));
  one.machine().release(kLock, holder);
  run_ms(1500);
  EXPECT_TRUE(has(two, other));
}

// The loss may mean that the store was restored to an earlier state, even if its revision has risen since then.
TEST_F(EngineTest, losing_a_lock_that_nobody_broke_causes_a_check_of_all_locks) {
  Node& node = make_node();
  const Taken taken = take_many(node, 600);
  for (const auto& [name, program] : taken) {
    ASSERT_TRUE(node.machine().valid(name, program));
    store_.apply({{}, {Step::erase("/test/l/jobs/" + name.key)}, {}});
  }
  run_ms(2500);
  for (const auto& [name, program] : taken) EXPECT_FALSE(node.machine().valid(name, program));
}

TEST_F(EngineTest, a_key_in_a_queue_that_belongs_to_no_machine_blocks_nobody) {
  store_.apply({{}, {Step::put("/test/q/jobs/a%2Fb/x", "", 0)}, {}});
  const auto [one, two] = make_nodes();
  const auto first = one.machine().wait(kLock);
  run_ms(1500);
  ASSERT_TRUE(has(one, first));
  const auto second = two.machine().wait(kLock);
  run_ms(500);
  one.machine().release(kLock, first);
  run_ms(1500);
  ASSERT_TRUE(has(two, second));
  two.machine().release(kLock, second);
  run_ms(1000);
  const std::uint64_t requests = two.client().requests;
  run_ms(10'000);
  EXPECT_LT(two.client().requests - requests, 40U);
  const auto holder = two.machine().wait(kLock);
  run_ms(1500);
  ASSERT_TRUE(has(two, holder));
  const std::uint64_t broken =
      two.machine().ask({0, agent::Query::Kind::break_lock, kLock, store_.records().at(kLockKey).modified});
  run_ms(1000);
  ASSERT_TRUE(two.machine().reply(broken));
  EXPECT_EQ(two.machine().reply(broken)->code, Reply::Code::unavailable);
}

TEST_F(EngineTest, a_store_that_accepts_no_changes_is_reported_until_it_accepts_a_change) {
  using agent::Trouble;
  Node& node = make_node();
  const auto holder = take(node);
  node.client().fate = of_puts(Fate::no_leader);
  EXPECT_EQ(node.machine().trouble, Trouble::none);
  const auto waiter = node.machine().wait({"jobs", "other"});
  run_ms(5000);  // the store answers reads
  EXPECT_EQ(node.machine().trouble, Trouble::no_leader);
  EXPECT_FALSE(ask(node, agent::Query::Kind::status)->sentence.empty());
  EXPECT_TRUE(node.machine().valid(kLock, holder));
  node.machine().leave({"jobs", "other"}, waiter);
  run_ms(5000);
  EXPECT_EQ(node.machine().trouble, Trouble::no_leader);
  node.client().fate = nullptr;
  run_ms(3000);  // no program requests a lock
  EXPECT_EQ(node.machine().trouble, Trouble::none);
  EXPECT_TRUE(ask(node, agent::Query::Kind::status)->sentence.empty());
  node.client().fate = [](const Change&) { return Fate::lost_answer; };
  node.machine().wait({"jobs", "third"});
  run_ms(3000);
  EXPECT_EQ(node.machine().trouble, Trouble::unanswered);
  node.client().fate = nullptr;
  run_ms(3000);
  EXPECT_EQ(node.machine().trouble, Trouble::none);
}

// A full store refuses requests immediately, so an agent could repeat them endlessly.
TEST_F(EngineTest, refused_locks_retry_one_at_a_time_and_all_once_the_store_accepts_changes) {
  constexpr int kLocks = 50;
  constexpr int kSeconds = 10;
  const auto [one, two] = make_nodes();
  Taken held;
  std::vector<FakeMachine::Id> waiters;
  for (int i = 0; i < kLocks; ++i) {
    const LockName name = numbered(i);
    held.emplace_back(name, one.machine().wait(name));
    run_ms(10);
    waiters.push_back(two.machine().wait(name));
  }
  one.client().fate = two.client().fate = of_puts(Fate::no_leader);
  for (const auto& [name, program] : held) one.machine().release(name, program);
  run_ms(5000);
  std::uint64_t before_one = one.client().requests;
  std::uint64_t before_two = two.client().requests;
  run_ms(kSeconds * 1000);
  EXPECT_LE(one.client().requests - before_one, 10U * kSeconds);
  EXPECT_LE(two.client().requests - before_two, 10U * kSeconds);
  one.client().fate = two.client().fate = {};
  run_ms(3000);
  for (const auto& waiter : waiters) EXPECT_TRUE(has(two, waiter));
}

TEST_F(EngineTest, a_try_is_answered_immediately_while_the_store_refuses_its_lock) {
  Node& node = make_node();
  node.client().fate = of_puts(Fate::no_leader);
  node.machine().wait(kLock);
  run_ms(5000);
  const auto tries = node.machine().try_once(kLock);
  run_ms(10);
  EXPECT_TRUE(is_refused(node, tries));
}

// The store may refuse changes of only some keys.
TEST_F(EngineTest, a_single_refused_lock_blocks_no_other) {
  Node& node = make_node();
  node.client().fate = [](const Change& change) -> std::optional<Fate> {
    const bool is_bad = !change.then.empty() && change.then.front().key == "/test/l/jobs/bad";
    return is_bad && change.then.front().kind == Step::Kind::put ? std::optional(Fate::no_leader) : std::nullopt;
  };
  node.machine().wait({"jobs", "bad"});
  run_ms(5000);
  const std::uint64_t before = node.client().requests;
  for (int i = 0; i < 20; ++i) {
    const LockName name = numbered(i);
    const auto program = node.machine().wait(name);
    run_ms(10);
    EXPECT_TRUE(has(node, program));
  }
  EXPECT_LE(node.client().requests - before, 20U + 4U);
}

// The store answers every poll, but no change.
TEST_F(EngineTest, the_pause_after_an_unanswered_change_grows_although_polls_are_answered) {
  Node& node = make_node();
  std::uint64_t asks = 0;
  node.client().fate = [&asks](const Change& change) -> std::optional<Fate> {
    if (change.guards.empty()) return std::nullopt;
    ++asks;
    return Fate::lost_request;
  };
  node.machine().wait(kLock);
  run_ms(60'000);
  EXPECT_LE(asks, 60U / 2 + 8) << "each request must take a second of silence and a second of pause";
}

TEST_F(EngineTest, the_outcome_of_an_unanswered_change_is_discovered) {
  for (const Fate fate : {Fate::lost_request, Fate::lost_answer}) {
    Node& node = make_node();
    next_change(node, fate);
    const auto program = node.machine().wait(kLock);
    run_ms(1500);
    EXPECT_TRUE(has(node, program));
    next_change(node, fate);
    node.machine().release(kLock, program);
    run_ms(3000);
    EXPECT_FALSE(stored(kLockKey));
  }
}

TEST_F(EngineTest, a_lock_from_a_late_request_is_returned) {
  Node& node = make_node();
  next_change(node, Fate::late);
  const auto program = node.machine().wait(kLock);
  run_ms(1);
  node.machine().leave(kLock, program);
  run_ms(20'000);
  EXPECT_FALSE(stored(kLockKey));
}

TEST_F(EngineTest, a_late_release_does_not_affect_the_next_holder) {
  const auto [one, two] = make_nodes();
  const auto first = take(one);
  const agent::Revision revision = store_.records().at(kLockKey).modified;
  next_change(one, Fate::late);
  one.machine().release(kLock, first);
  const std::uint64_t before = one.client().requests;
  for (int i = 0; i < 200 && one.client().requests == before; ++i) run_ms(10);
  ASSERT_EQ(store_.records().at(kLockKey).modified, revision) << "the release must still be on its way";
  // This acts as if the first machine's lease had ended.
  EXPECT_EQ(ask(two, agent::Query::Kind::break_lock, revision)->code, Reply::Code::yes);
  const auto second = take(two);
  const agent::Revision next = store_.records().at(kLockKey).created;
  run_ms(20'000);
  ASSERT_TRUE(stored(kLockKey));
  EXPECT_EQ(store_.records().at(kLockKey).created, next);
  EXPECT_TRUE(two.machine().valid(kLock, second));
}

TEST_F(EngineTest, a_lock_that_may_have_been_given_away_is_owned_again_only_at_a_new_revision) {
  Node& one = make_node();
  const auto program = take(one);
  one.machine().release(kLock, program);
  const agent::Revision before = store_.records().at(kLockKey).modified;
  next_change(one, Fate::lost_request);  // of the release
  run_ms(450);
  ASSERT_FALSE(one.machine().stands(kLock));
  const auto again = one.machine().wait(kLock);
  run_ms(1500);
  EXPECT_TRUE(has(one, again));
  EXPECT_GT(store_.records().at(kLockKey).modified, before);
}

TEST_F(EngineTest, a_lock_in_endless_use_gets_new_tokens) {
  Node& node = make_node();
  std::uint64_t last = 0;
  for (std::uint32_t i = 0; i < 2 * agent::kGrantsMax; ++i) {
    const auto program = node.machine().wait(kLock);
    run_ms(has(node, program) ? 0 : 1);
    while (!has(node, program)) run_ms(1);
    ASSERT_GT(number_, last);
    last = number_;
    node.machine().release(kLock, program);
  }
}

TEST_F(EngineTest, revisions_that_are_too_large_for_tokens_are_refused) {
  Node& node = make_node();
  store_.skip_to(agent::kRevisionEnd);
  const auto program = node.machine().wait(kLock);
  run_ms(50);
  EXPECT_TRUE(is_refused(node, program));
  EXPECT_FALSE(stored(kLockKey));
}

TEST_F(EngineTest, a_name_that_is_too_long_is_refused) {
  Node& node = make_node();
  const LockName name{"jobs", std::string(10'000, 'x')};
  const auto program = node.machine().wait(name);
  run_ms(10);
  EXPECT_TRUE(is_refused(node, program));
}

TEST_F(EngineTest, the_holder_can_be_verified_and_named_from_anywhere) {
  settings_.host = "one";
  Node& one = make_node();
  settings_.host = "two";
  Node& two = make_node();
  EXPECT_EQ(ask(two, agent::Query::Kind::holder)->code, Reply::Code::no);
  const auto first = take(one);
  EXPECT_EQ(ask(one, agent::Query::Kind::verify)->code, Reply::Code::yes);
  EXPECT_EQ(ask(two, agent::Query::Kind::verify)->code, Reply::Code::no);
  EXPECT_EQ(ask(two, agent::Query::Kind::holder)->document.host, "one");
  EXPECT_EQ(ask(two, agent::Query::Kind::holder)->document.contender.why, "a test");
  two.machine().wait(kLock);
  one.machine().release(kLock, first);
  run_ms(50);
  EXPECT_EQ(ask(one, agent::Query::Kind::holder)->document.host, "two")
      << "the lock was transferred to another machine";
}

TEST_F(EngineTest, a_lasting_holder_is_described_at_the_store_once) {
  const auto [one, two, first, second] = contend();
  two.machine().held = 60'000;
  run_ms(20);
  one.machine().release(kLock, first);
  run_ms(3000);
  ASSERT_TRUE(has(two, second));
  const agent::Document document = ask(one, agent::Query::Kind::holder)->document;
  EXPECT_LE(document.when, two.clock().wall_ms() - two.machine().held)
      << "the time must count from the grant, not from its record in the store";
  const agent::Contender& told = document.contender;
  EXPECT_EQ(told.pid, static_cast<std::int64_t>(second));
  EXPECT_EQ(told.why, "holds");
  EXPECT_TRUE(two.machine().valid(kLock, second));
  const agent::Revision revision = store_.records().at(kLockKey).modified;
  run_ms(5000);
  EXPECT_EQ(store_.records().at(kLockKey).modified, revision);
}

// A program sets its reason when it has the lock, which is after the agent requested the lock.
TEST_F(EngineTest, the_reason_of_a_lasting_holder_is_sent_to_the_store) {
  const auto [one, two] = make_nodes();
  const auto first = take(one);
  run_ms(2 * settings_.linger_ms + 50);
  const agent::Contender told = ask(two, agent::Query::Kind::holder)->document.contender;
  EXPECT_EQ(told.pid, static_cast<std::int64_t>(first));
  EXPECT_EQ(told.why, "holds");
}

// The description matters most while another machine waits.
TEST_F(EngineTest, a_holder_is_described_even_while_another_machine_waits) {
  const auto [one, two] = make_nodes();
  const auto first = take(one);
  const auto second = one.machine().wait(kLock);
  two.machine().wait(kLock);
  run_ms(3000);
  one.machine().release(kLock, first);
  run_ms(3000);
  ASSERT_TRUE(one.machine().valid(kLock, second));
  const agent::Contender told = ask(two, agent::Query::Kind::holder)->document.contender;
  EXPECT_EQ(told.pid, static_cast<std::int64_t>(second));
  EXPECT_EQ(told.why, "holds");
  one.machine().release(kLock, second);
  run_ms(100);
  EXPECT_FALSE(one.machine().stands(kLock));
}

TEST_F(EngineTest, short_lived_holders_are_not_described) {
  Node& node = make_node();
  take(node);
  const agent::Revision revision = store_.records().at(kLockKey).modified;
  for (int i = 0; i < 50; ++i) {
    const auto next = node.machine().wait(kLock);
    run_ms(100);
    node.machine().release(kLock, *node.machine().holder(kLock));
    run_ms(10);
    EXPECT_TRUE(has(node, next));
  }
  EXPECT_EQ(store_.records().at(kLockKey).modified, revision);
}

TEST_F(EngineTest, a_grant_is_broken_only_by_its_revision_and_its_holder_notices) {
  const auto [one, two, first, second] = contend();
  run_ms(20);
  const agent::Revision revision = ask(two, agent::Query::Kind::holder)->revision;
  EXPECT_EQ(ask(two, agent::Query::Kind::break_lock, revision - 1)->code, Reply::Code::no);
  EXPECT_TRUE(one.machine().valid(kLock, first));
  EXPECT_EQ(ask(two, agent::Query::Kind::break_lock, revision)->code, Reply::Code::yes);
  run_ms(20);
  EXPECT_FALSE(one.machine().valid(kLock, first));
  EXPECT_TRUE(has(two, second));
}

/// Returns an agent's counter by its name.
std::uint64_t figure(const Reply& reply, const std::string& name) {
  for (const auto& [each, number] : reply.figures)
    if (each == name) return number;
  ADD_FAILURE() << "no " << name;
  return 0;
}

TEST_F(EngineTest, the_status_of_an_idle_agent_shows_that_its_store_accepts_no_changes) {
  Node& node = make_node();
  run_ms(10'000);
  node.client().fate = of_puts(Fate::no_leader);
  const auto full = ask(node, agent::Query::Kind::status);
  ASSERT_TRUE(full);
  EXPECT_FALSE(full->sentence.empty());
  EXPECT_EQ(full->space, "/test");
  EXPECT_EQ(node.machine().trouble, agent::Trouble::no_leader)
      << "observers of the dictionary must still find the trouble";
  node.client().fate = {};
  run_ms(3000);
  EXPECT_TRUE(ask(node, agent::Query::Kind::status)->sentence.empty());
}

TEST_F(EngineTest, the_status_does_not_wait_for_a_silent_store) {
  Node& node = make_node();
  run_ms(10'000);
  node.client().fate = [](const Change&) { return Fate::lost_request; };
  const std::uint64_t number = node.machine().ask({0, agent::Query::Kind::status, kLock, 0});
  run_ms(400);
  EXPECT_TRUE(node.machine().reply(number));
}

TEST_F(EngineTest, the_status_counts_what_the_agent_did) {
  const auto [one, two] = make_nodes();
  const auto before = *ask(one, agent::Query::Kind::status);
  const auto first = take(one);
  const auto second = two.machine().wait(kLock);
  run_ms(20);
  const auto held = *ask(one, agent::Query::Kind::status);
  EXPECT_EQ(held.code, Reply::Code::yes);
  EXPECT_EQ(held.machine, one.machine().session().lease);
  EXPECT_EQ(figure(held, "locks_here"), 1U);
  EXPECT_EQ(figure(held, "grants_by_answer"), 1U);
  EXPECT_EQ(figure(*ask(two, agent::Query::Kind::status), "locks_wanted"), 1U);
  one.machine().release(kLock, first);
  run_ms(50);
  const auto given = *ask(one, agent::Query::Kind::status);
  EXPECT_EQ(figure(given, "hand_overs"), 1U);
  EXPECT_EQ(figure(given, "locks_here"), 0U);
  EXPECT_GT(figure(given, "bells"), 0U) << "the waiting machine's notification was not counted";
  EXPECT_EQ(figure(given, "requests") - figure(before, "requests"), 2U)
      << "one request for the lock and one for the transfer";
  EXPECT_GT(figure(given, "up_ms"), figure(before, "up_ms"));
  two.machine().release(kLock, second);
  run_ms(700);
  const auto returned = *ask(two, agent::Query::Kind::status);
  EXPECT_EQ(figure(returned, "grants_by_bell"), 1U);
  EXPECT_EQ(figure(returned, "returns"), 1U);
}

TEST_F(EngineTest, the_status_counts_missing_answers_and_the_time_of_received_answers) {
  Node& node = make_node();
  const auto before = *ask(node, agent::Query::Kind::status);
  EXPECT_EQ(figure(before, "latency_count"), figure(before, "requests"));
  EXPECT_GT(figure(before, "latency_us_sum"), 0U);
  EXPECT_EQ(figure(before, "latency_us_1000000"), figure(before, "latency_count"));
  next_change(node, Fate::lost_answer);
  node.machine().wait(kLock);
  run_ms(1500);
  const auto after = *ask(node, agent::Query::Kind::status);
  EXPECT_EQ(figure(after, "requests_unanswered"), 1U);
  EXPECT_EQ(figure(after, "latency_count"), figure(after, "requests") - 1);
}

TEST_F(EngineTest, the_status_shows_why_a_session_was_lost) {
  Node& node = make_node();
  node.cut_for(30'000'000);
  run_ms(10'500);
  const auto lost = *ask(node, agent::Query::Kind::status);
  EXPECT_EQ(lost.machine, 0);
  EXPECT_FALSE(lost.sentence.empty());
  EXPECT_EQ(figure(lost, "sessions_lost"), 1U);
  EXPECT_GT(figure(lost, "requests_unanswered"), 0U);
}

TEST_F(EngineTest, the_reason_for_the_end_of_a_session_is_reported) {
  Node& one = make_node();
  std::string why;
  const auto loss_of = [&](Node& node) {
    const std::uint64_t losses = node.engine().keeper().losses();
    for (int i = 0; i < 20'000 && node.engine().keeper().losses() == losses; ++i) run_ms(1);
    return node.engine().keeper().sentence();
  };
  one.client().fate = [](const Change&) { return Fate::lost_request; };  // so that the agent cannot get a new lease
  store_.revoke(one.machine().session().lease);
  EXPECT_EQ(loss_of(one), "the store ended it");
  Node& two = make_node();
  two.client().fate = [](const Change&) { return Fate::lost_request; };
  two.clock().leap(3'600'000);
  EXPECT_THAT(loss_of(two), ::testing::StartsWith("the wall clock jumped"));
  Node& three = make_node();
  three.cut_for(60'000'000);
  EXPECT_THAT(loss_of(three), ::testing::StartsWith("it was not renewed before its deadline"));
  Node& four = make_node();
  store_.skip_to(1000);
  take(four);
  four.client().fate = of_puts(Fate::lost_request);
  store_.skip_to(500);
  EXPECT_THAT(loss_of(four), ::testing::StartsWith("the store's revision went back from 1001 to 50"));
}

TEST_F(EngineTest, a_dead_notification_connection_causes_a_warning_and_is_counted) {
  const auto [one, two] = make_nodes();
  two.client().hears = false;
  for (int i = 0; i < 30; ++i) {
    const auto first = one.machine().wait(kLock);
    run_ms(1500);
    const auto second = two.machine().wait(kLock);
    run_ms(100);
    one.machine().release(kLock, first);
    run_ms(1500);
    two.machine().release(kLock, second);
  }
  EXPECT_THAT(two.warnings, ::testing::Contains(::testing::HasSubstr("notifications are not arriving")));
  EXPECT_THAT(one.warnings, ::testing::IsEmpty());
  EXPECT_GT(figure(*ask(two, agent::Query::Kind::status), "dead_bells"), 0U);
  EXPECT_EQ(figure(*ask(one, agent::Query::Kind::status), "dead_bells"), 0U);
}

TEST_F(EngineTest, a_draining_agent_waits_for_holders_takes_no_new_lock_and_keeps_none) {
  const auto [one, two] = make_nodes();
  const LockName idle{"jobs", "idle"};
  const auto soon_over = one.machine().wait(idle);
  run_ms(10);
  one.machine().release(idle, soon_over);
  const auto first = take(one);
  const auto next = one.machine().wait(kLock);  // waits on the same machine before the agent begins to drain
  one.engine().drain();
  run_ms(5000);
  EXPECT_TRUE(one.machine().valid(kLock, first));
  EXPECT_FALSE(one.engine().drained());
  const LockName other{"jobs", "other"};
  const auto tried = one.machine().try_once(other);
  const auto waits = one.machine().wait(other);
  run_ms(20);
  EXPECT_TRUE(is_refused(one, tried));
  EXPECT_FALSE(has(one, waits));
  one.machine().release(kLock, first);
  run_ms(20);
  EXPECT_TRUE(has(one, next));
  const auto late = one.machine().wait(kLock);
  const auto elsewhere = two.machine().wait(kLock);
  one.machine().release(kLock, next);
  run_ms(1500);
  EXPECT_FALSE(has(one, late));
  EXPECT_TRUE(has(two, elsewhere));
  EXPECT_TRUE(one.engine().drained());
  bool stopped = false;
  one.engine().stop([&] { stopped = true; });
  run_ms(10);
  EXPECT_TRUE(stopped);
}

TEST_F(EngineTest, an_agent_that_drains_while_it_adopts_a_lease_gives_no_held_lock_away) {
  Node& node = make_node();
  const auto held = take(node);
  node.kill_agent();
  node.start_agent();
  node.engine().drain();
  EXPECT_FALSE(node.engine().drained()) << "the agent has not read the lease's keys yet";
  run_ms(100);
  EXPECT_FALSE(node.engine().drained());
  EXPECT_TRUE(node.machine().valid(kLock, held));
  node.machine().release(kLock, held);
  run_ms(100);
  EXPECT_TRUE(node.engine().drained());
}

TEST_F(EngineTest, a_draining_agent_leaves_the_queues_in_which_it_waits) {
  const auto [one, two] = make_nodes();
  take(one);
  two.machine().wait(kLock);
  run_ms(50);
  two.engine().drain();
  run_ms(50);
  EXPECT_TRUE(two.engine().drained());
  EXPECT_EQ(places(), 0);
}

TEST_F(EngineTest, a_stopping_agent_returns_everything) {
  Node& node = make_node();
  node.machine().release(kLock, take(node));
  EXPECT_TRUE(node.engine().vacate());
  bool stopped = false;
  node.engine().stop([&] { stopped = true; });
  run_ms(10);
  EXPECT_TRUE(stopped);
  EXPECT_THAT(store_.records(), ::testing::IsEmpty());
}

TEST_F(EngineTest, an_agent_is_idle_with_a_dead_holder_but_not_with_a_stopped_one) {
  Node& node = make_node();
  take(node);
  EXPECT_FALSE(node.engine().vacate());
  node.machine().orphans.insert(kLock);
  EXPECT_TRUE(node.engine().vacate());
  node.machine().busy.insert(kLock);
  EXPECT_FALSE(node.engine().vacate());
}

TEST_F(EngineTest, an_ending_agent_takes_free_locks_before_a_program_can) {
  Node& node = make_node();
  node.machine().release(kLock, take(node));
  EXPECT_TRUE(node.engine().vacate());
  const auto late = node.machine().wait(kLock);
  run_ms(1);
  EXPECT_FALSE(has(node, late)) << "the program would lose the lock immediately";
}

TEST_F(EngineTest, an_agent_that_cannot_reach_all_dictionaries_lets_the_lease_expire) {
  Node& node = make_node();
  take(node);
  node.machine().is_incomplete = true;
  bool stopped = false;
  node.engine().stop([&] { stopped = true; });
  run_ms(10);
  EXPECT_TRUE(stopped);
  EXPECT_TRUE(stored(kLockKey));
}

// --- one agent after another
// ------------------------------------------------------------------------------------------

TEST_F(EngineTest, an_owned_lock_is_kept_even_if_the_next_agent_does_not_know_it) {
  const auto [one, two] = make_nodes();
  const auto first = take(one);
  one.kill_agent();
  one.machine().unlisted = {kLock};
  one.start_agent();
  const auto second = two.machine().wait(kLock);
  run_ms(60'000);
  EXPECT_TRUE(one.machine().valid(kLock, first));
  EXPECT_FALSE(has(two, second));
  one.machine().release(kLock, first);
  run_ms(100);
  EXPECT_TRUE(has(two, second));
}

TEST_F(EngineTest, another_machines_lock_that_an_earlier_agent_grants_late_is_dropped) {
  const auto [one, two, first, second] = contend();
  run_ms(100);
  two.machine().stand_late(kLock);
  run_ms(500);
  EXPECT_TRUE(one.machine().valid(kLock, first));
  EXPECT_FALSE(two.machine().valid(kLock, second));
}

TEST_F(EngineTest, nothing_is_given_away_while_the_next_agent_does_not_know_the_owned_locks) {
  const auto [one, two] = make_nodes();
  const auto first = take(one);
  one.kill_agent();
  one.machine().is_restless = true;
  one.start_agent();
  const auto second = two.machine().wait(kLock);
  run_ms(3000);
  EXPECT_TRUE(one.machine().valid(kLock, first));
  EXPECT_FALSE(has(two, second));
  one.machine().is_restless = false;
  run_ms(60'000);
  EXPECT_TRUE(one.machine().valid(kLock, first)) << "the lease was not renewed";
  one.machine().release(kLock, first);
  run_ms(100);
  EXPECT_TRUE(has(two, second));
}

/// The first machine holds 100 locks. Deletes the middle lock in the store without a notification. Returns the number
/// of seconds until the machine notices.
int seconds_until_noticed(Node& one, FakeStore& store, const std::function<void(Microseconds)>& run_ms) {
  std::vector<std::pair<LockName, FakeMachine::Id>> held;
  for (int i = 0; i < 100; ++i) {
    const LockName name{"jobs", "held" + std::to_string(i)};
    held.emplace_back(name, one.machine().wait(name));
    run_ms(5);
  }
  run_ms(3000);
  one.client().hears = false;
  const auto& [name, program] = held[50];
  store.apply({{}, {Step::erase(agent::Keys("/test").lock(name))}, {}});
  int seconds = 0;
  for (; seconds < 60 && one.machine().valid(name, program); ++seconds) run_ms(1000);
  return seconds;
}

TEST_F(EngineTest, forty_locks_are_checked_each_second_however_many_are_wanted) {
  for (const int waited_for : {0, 20, 41, 42, 100}) {
    Node& one = make_node();
    Node& two = make_node();
    for (int i = 0; i < waited_for; ++i) {
      const LockName name{"jobs", "waited for" + std::to_string(i)};
      two.machine().wait(name);
      run_ms(5);
      one.machine().wait(name);
    }
    EXPECT_LE(seconds_until_noticed(one, store_, [this](Microseconds time) { run_ms(time); }), 8) << waited_for;
    nodes_.clear();
    run_ms(30'000);
  }
}

TEST_F(EngineTest, ten_thousand_locks_of_one_machine_are_kept_and_returned) {
  Node& node = make_node();
  const Taken taken = take_many(node, 10'000);
  for (const auto& [name, program] : taken) EXPECT_TRUE(node.machine().valid(name, program));
  for (const auto& [name, program] : taken) node.machine().release(name, program);
  run_ms(2000);
  EXPECT_EQ(store_.records().size(), 2U) << "only the machine's notification key and its document may remain";
}

TEST_F(EngineTest, a_new_agent_asks_for_many_locks_in_few_requests_and_keeps_them) {
  constexpr int kMany = 2000;
  Node& node = make_node();
  const Taken taken = take_many(node, kMany);
  node.kill_agent();
  node.start_agent();
  run_ms(500);
  EXPECT_LT(node.client().requests, kMany / 20);
  for (const auto& [name, program] : taken) {
    EXPECT_TRUE(node.machine().valid(name, program));
    EXPECT_TRUE(node.machine().stands(name));
  }
  node.machine().release(taken.front().first, taken.front().second);
  run_ms(1000);
  EXPECT_FALSE(stored("/test/l/jobs/0"));
  EXPECT_TRUE(stored("/test/l/jobs/1"));
}

// Without this limit, a busy store would get many more requests.
TEST_F(EngineTest, a_new_agent_limits_its_requests_and_repeats_unanswered_requests_unchanged) {
  constexpr std::uint64_t kMany = 2000;
  Node& node = make_node();
  const Taken taken = take_many(node, kMany);
  node.kill_agent();
  node.start_agent();
  const auto silence = [](const Change& change) -> std::optional<Fate> {
    return change.guards.empty() && !change.urgent ? std::optional(Fate::lost_request) : std::nullopt;
  };
  node.client().fate = silence;
  run_ms(500);
  EXPECT_LE(node.client().requests, 10U) << "too many requests were in flight at the same time";
  run_ms(3000);
  node.client().fate = {};
  run_ms(3000);
  EXPECT_LE(node.client().requests, kMany / 42 + 50);
  const auto status = *ask(node, agent::Query::Kind::status);
  EXPECT_EQ(figure(status, "locks_here"), kMany);
  for (const auto& [name, program] : taken) EXPECT_TRUE(node.machine().valid(name, program));
}

TEST_F(EngineTest, a_new_agent_polls_again_if_the_store_did_not_answer) {
  const auto [one, two] = make_nodes();
  const auto first = take(one);
  one.kill_agent();
  one.start_agent();
  one.client().fate = [](const Change& change) -> std::optional<Fate> {
    return change.guards.empty() ? std::optional(Fate::lost_request) : std::nullopt;
  };
  run_ms(1500);
  one.client().fate = {};
  const auto second = two.machine().wait(kLock);
  run_ms(200);
  EXPECT_TRUE(one.machine().valid(kLock, first));
  one.machine().release(kLock, first);
  run_ms(2500);
  EXPECT_TRUE(has(two, second));
}

}  // namespace
}  // namespace holdfast::test
