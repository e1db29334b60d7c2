// Tests a cluster's locks on one machine (gate/cluster_lock.h). The tests act as the agent.
#include "gate/cluster_lock.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "dict/guard.h"
#include "lock/lock.h"
#include "lock/lock_entry.h"
#include "lock/lock_info.h"
#include "support/dict_test.h"
#include "support/others.h"
#include "support/started.h"
#include "support/waiting.h"
#include "world/world.h"

namespace holdfast::test {
namespace {

constexpr std::uint64_t kLongMs = 60'000;
constexpr double kLong = 60;  // seconds
constexpr double kShort = 0.05;

using OwnedParker = std::unique_ptr<holdfast_parker, CloseParker>;

/// A waiter for the C calls.
struct BareWaiter {
  explicit BareWaiter(bool tries = false) {
    wait.parker = parker();
    wait.waiter = holdfast_waiter_open(parker());
    wait.tries = tries ? 1 : 0;
  }
  holdfast_parker* parker() const { return owned.get(); }
  bool is_woken() const { return sleep_until_woken(parker(), wait.waiter, kLong); }

  OwnedParker owned{holdfast_parker_new()};
  holdfast_wait wait{};
};

class StandingTest : public DictTest {
 protected:
  explicit StandingTest(const Options& options = {.cluster = "main"}) : DictTest(options) {}

  Session session() { return Session(dict.segment()); }
  void begin(std::uint16_t epoch, std::uint64_t ms = kLongMs) { begin_at(epoch, boottime_ms() + ms); }
  void begin_at(std::uint16_t epoch, std::uint64_t deadline_ms) {
    ASSERT_TRUE(session().begin(session().now(), epoch, 100, deadline_ms));
  }
  Code stand(std::string_view key, std::uint16_t epoch, std::uint64_t revision) {
    return holdfast::stand(dict.dictionary(), key, epoch, revision);
  }
  /// Makes this machine own the lock "k" in epoch 1, at revision 7.
  void own() {
    begin(1);
    ASSERT_EQ(stand("k", 1, 7), Code::ok);
  }
  /// Also makes this process hold the lock.
  void hold() {
    own();
    ASSERT_EQ(dict.try_lock("k", 0, &lease), HOLDFAST_OK);
  }
  LockState state(std::string_view key) {
    LockState state;
    EXPECT_EQ(state_of_lock(dict.dictionary(), key, state), Code::ok);
    return state;
  }
  static Lease lease_of(const holdfast_lease& lease) { return {lease.owner, lease.sequence}; }
  std::vector<std::string> wanted() { return wanted_keys(dict.dictionary(), {}); }
  /// Takes and releases the lock until it has no fencing tokens left.
  void use_up(const std::string& key) {
    ASSERT_EQ(dict.try_lock(key, 0, &lease), HOLDFAST_OK);
    entry(key).standing->grants.store(kGrantsMax - 1);
    ASSERT_EQ(dict.unlock(key, &lease), HOLDFAST_OK);
    ASSERT_EQ(dict.try_lock(key, 0, &lease), HOLDFAST_OK);
  }
  /// The stored fields of a lock, which a test can damage.
  struct Stored {
    Entry* entry;
    LockFields* lock;
    StandingFields* standing;
  };
  Stored entry(const std::string& key) {
    Position position{};
    EXPECT_TRUE(dict.segment().shards()[0].find(Key(key, dict.segment().seed()), position));
    LockFields& lock = position.view.lock();
    return {position.view.entry, &lock, reinterpret_cast<StandingFields*>(&lock + 1)};
  }

  holdfast_lease lease{};
};

TEST_F(StandingTest, a_lock_that_was_never_given_to_this_machine_is_granted_to_nobody) {
  EXPECT_EQ(dict.try_lock("k", 0, &lease), HOLDFAST_ELSEWHERE);
  begin(1);
  EXPECT_EQ(dict.try_lock("k", 0, &lease), HOLDFAST_ELSEWHERE);
  Waiting waiting;
  EXPECT_EQ(waiting.once(dict, "k", &lease), HOLDFAST_LOCKED);
  EXPECT_EQ(wanted(), std::vector<std::string>{"k"});
  EXPECT_EQ(waiting.leave(dict, "k"), HOLDFAST_OK);
  EXPECT_EQ(wanted(), std::vector<std::string>{});
}

TEST_F(StandingTest, an_owned_lock_is_taken_and_handed_over_like_any_lock) {
  hold();
  holdfast_lease other{};
  EXPECT_EQ(dict.try_lock("k", 0, &other), HOLDFAST_LOCKED);
  Waiting waiting;
  ASSERT_EQ(waiting.once(dict, "k", &other), HOLDFAST_LOCKED);
  EXPECT_EQ(dict.unlock("k", &lease), HOLDFAST_OK);
  EXPECT_EQ(waiting.lock(dict, "k", kLong, &other), HOLDFAST_OK);
  EXPECT_EQ(dict.unlock("k", &other), HOLDFAST_OK);
}

TEST_F(StandingTest, giving_the_lock_to_this_machine_wakes_the_first_waiter) {
  begin(1);
  Waiting waiting;
  ASSERT_EQ(waiting.once(dict, "k", &lease), HOLDFAST_LOCKED);
  ASSERT_EQ(stand("k", 1, 7), Code::ok);
  EXPECT_TRUE(waiting.sleep(kLong));
  EXPECT_EQ(waiting.once(dict, "k", &lease), HOLDFAST_OK);
}

TEST_F(StandingTest, fencing_tokens_count_from_the_revision_and_never_repeat) {
  own();
  std::uint64_t last = std::uint64_t{7} << kGrantBits;
  const auto take = [&] {
    ASSERT_EQ(dict.try_lock("k", 0, &lease), HOLDFAST_OK);
    EXPECT_GT(lease.sequence, last);
    last = lease.sequence;
    ASSERT_EQ(dict.unlock("k", &lease), HOLDFAST_OK);
  };
  for (int i = 0; i < 3; ++i) take();
  EXPECT_EQ(last, (std::uint64_t{7} << kGrantBits) + 3);
  ASSERT_EQ(stand("k", 1, 7), Code::ok);  // repeated
  take();
  EXPECT_EQ(state("k").grants, 4U);
  ASSERT_EQ(stand("k", 1, 9), Code::ok);
  take();
  EXPECT_EQ(last, (std::uint64_t{9} << kGrantBits) + 1);
}

TEST_F(StandingTest, the_largest_revision_gives_tokens_that_fit_into_a_lua_number) {
  begin(1);
  EXPECT_EQ(stand("k", 1, 0), Code::invalid);
  EXPECT_EQ(stand("k", 1, kRevisionMax + 1), Code::invalid);
  ASSERT_EQ(stand("k", 1, kRevisionMax), Code::ok);
  ASSERT_EQ(dict.try_lock("k", 0, &lease), HOLDFAST_OK);
  EXPECT_LT(lease.sequence, std::uint64_t{1} << 53);
  EXPECT_EQ(dict.unlock("k", &lease), HOLDFAST_OK);
}

TEST_F(StandingTest, a_lock_without_tokens_left_is_owned_only_for_its_holder) {
  own();
  for (std::uint32_t i = 1; i < kGrantsMax; ++i) {
    ASSERT_EQ(dict.try_lock("k", 0, &lease), HOLDFAST_OK);
    ASSERT_EQ(dict.unlock("k", &lease), HOLDFAST_OK);
  }
  ASSERT_EQ(dict.try_lock("k", 0, &lease), HOLDFAST_OK);
  EXPECT_EQ(dict.renew("k", lease, 30), HOLDFAST_OK);
  EXPECT_EQ(dict.unlock("k", &lease), HOLDFAST_OK);
  EXPECT_EQ(dict.try_lock("k", 0, &lease), HOLDFAST_ELSEWHERE);
  ASSERT_EQ(stand("k", 1, 8), Code::ok);
  EXPECT_EQ(dict.try_lock("k", 0, &lease), HOLDFAST_OK);
}

TEST_F(StandingTest, a_lock_lost_with_the_session_belongs_to_nobody_here) {
  hold();
  EXPECT_GT(dict.remaining("k", lease), 0);
  session().lose(1);
  EXPECT_EQ(dict.remaining("k", lease), -1);
  EXPECT_EQ(dict.renew("k", lease, 30), HOLDFAST_NOT_OWNER);
  EXPECT_EQ(dict.adopt("k", lease, 1), HOLDFAST_NOT_OWNER);
  holdfast_lease other{};
  EXPECT_EQ(dict.try_lock("k", 0, &other), HOLDFAST_ELSEWHERE);
  EXPECT_EQ(dict.unlock("k", &lease), HOLDFAST_NOT_OWNER);
}

TEST_F(StandingTest, a_lock_reserved_for_a_waiter_is_lost_with_the_session) {
  hold();
  Waiting waiting;
  holdfast_lease other{};
  ASSERT_EQ(waiting.once(dict, "k", &other), HOLDFAST_LOCKED);
  sleep_ms(3);  // after this time, a release grants the lock to the waiter
  ASSERT_EQ(dict.unlock("k", &lease), HOLDFAST_OK);
  ASSERT_TRUE(state("k").held) << "the lock was not reserved for the waiter";
  session().lose(1);
  EXPECT_EQ(waiting.once(dict, "k", &other), HOLDFAST_LOCKED);
  EXPECT_FALSE(state("k").held);
  EXPECT_EQ(waiting.leave(dict, "k"), HOLDFAST_OK);
}

TEST_F(StandingTest, the_release_of_a_lost_lock_grants_it_to_nobody) {
  hold();
  Waiting waiting;
  holdfast_lease other{};
  ASSERT_EQ(waiting.once(dict, "k", &other), HOLDFAST_LOCKED);
  sleep_ms(3);
  session().lose(1);
  EXPECT_EQ(dict.unlock("k", &lease), HOLDFAST_NOT_OWNER);
  EXPECT_FALSE(state("k").held);
  EXPECT_EQ(waiting.leave(dict, "k"), HOLDFAST_OK);
}

TEST_F(StandingTest, a_session_is_not_renewed_after_an_unnoticed_deadline) {
  begin_at(1, 1);
  EXPECT_FALSE(session().renew(SessionWord::make(1, 1), boottime_ms() + kLongMs));
  EXPECT_TRUE(session().now().lost());
}

TEST_F(StandingTest, a_session_is_lost_permanently_when_its_deadline_passes) {
  begin(1, 20);
  ASSERT_EQ(stand("k", 1, 7), Code::ok);
  const SessionWord before = session().now();
  while (!session().now().lost()) sleep_ms(1);
  EXPECT_EQ(dict.try_lock("k", 0, &lease), HOLDFAST_ELSEWHERE);
  EXPECT_FALSE(session().renew(before, boottime_ms() + kLongMs));
  EXPECT_EQ(dict.try_lock("k", 0, &lease), HOLDFAST_ELSEWHERE);
}

TEST_F(StandingTest, a_lease_lasts_no_longer_than_the_session) {
  begin(1, kLongMs);
  ASSERT_EQ(stand("k", 1, 7), Code::ok);
  ASSERT_EQ(dict.try_lock("k", 3600, &lease), HOLDFAST_OK);
  EXPECT_LE(dict.remaining("k", lease), kLongMs / 1e3);
  EXPECT_TRUE(session().renew(session().now(), boottime_ms() + 7'200'000));
  EXPECT_GT(dict.remaining("k", lease), kLongMs / 1e3);
  EXPECT_LE(dict.remaining("k", lease), 3601);
}

TEST_F(StandingTest, a_new_epoch_ends_the_grants_of_the_last_epoch) {
  hold();
  session().lose(1);
  begin(2);
  holdfast_lease other{};
  EXPECT_EQ(dict.try_lock("k", 0, &other), HOLDFAST_ELSEWHERE) << "the lock was owned only in the last epoch";
  ASSERT_EQ(stand("k", 2, 8), Code::ok);
  ASSERT_EQ(dict.try_lock("k", 0, &other), HOLDFAST_OK);
  EXPECT_EQ(dict.unlock("k", &lease), HOLDFAST_NOT_OWNER);
  EXPECT_EQ(dict.remaining("k", other) > 0, true);
}

TEST_F(StandingTest, the_agent_withdraws_a_lock_that_it_holds) {
  own();
  Waiting agent(true);
  ASSERT_EQ(agent.lock(dict, "k", kLong, &lease), HOLDFAST_OK);
  Waiting waiting;
  holdfast_lease other{};
  ASSERT_EQ(waiting.once(dict, "k", &other), HOLDFAST_LOCKED);
  Lease held = lease_of(lease);
  ASSERT_EQ(withdraw(dict.dictionary(), "k", held), Code::ok);
  EXPECT_EQ(withdraw(dict.dictionary(), "k", held), Code::not_owner);
  EXPECT_EQ(waiting.once(dict, "k", &other), HOLDFAST_LOCKED);
  EXPECT_EQ(wanted(), std::vector<std::string>{"k"});
  EXPECT_FALSE(state("k").stands);
  EXPECT_EQ(waiting.leave(dict, "k"), HOLDFAST_OK);
}

TEST_F(StandingTest, only_an_idle_lock_is_withdrawn_without_holding_it) {
  begin(1);
  EXPECT_EQ(withdraw_idle(dict.dictionary(), "k"), Code::ok) << "withdrawing a lock that does not exist must succeed";
  ASSERT_EQ(stand("k", 1, 7), Code::ok);
  ASSERT_EQ(dict.try_lock("k", 0, &lease), HOLDFAST_OK);
  EXPECT_EQ(withdraw_idle(dict.dictionary(), "k"), Code::locked);
  ASSERT_EQ(dict.unlock("k", &lease), HOLDFAST_OK);
  EXPECT_EQ(withdraw_idle(dict.dictionary(), "k"), Code::ok);
  EXPECT_EQ(dict.try_lock("k", 0, &lease), HOLDFAST_ELSEWHERE);
}

TEST_F(StandingTest, a_lock_is_withdrawn_from_a_holder_after_the_lease_time) {
  own();
  ASSERT_EQ(dict.try_lock("k", 0.05, &lease), HOLDFAST_OK);
  EXPECT_TRUE(eventually([&] { return withdraw_idle(dict.dictionary(), "k") == Code::ok; }));
  EXPECT_EQ(dict.unlock("k", &lease), HOLDFAST_NOT_OWNER);
  EXPECT_EQ(dict.try_lock("k", 0, &lease), HOLDFAST_ELSEWHERE);
  ASSERT_EQ(stand("k", 1, 8), Code::ok);
  EXPECT_EQ(dict.try_lock("k", 0, &lease), HOLDFAST_OK);
}

TEST_F(StandingTest, a_refusal_ends_the_wait_of_a_try) {
  begin(1);
  BareWaiter waiter(true);
  ASSERT_EQ(holdfast_lock_wait(dict.handle, "k", 1, 0, &waiter.wait, &lease), HOLDFAST_LOCKED);
  Waiting patient;
  ASSERT_EQ(patient.once(dict, "k", &lease), HOLDFAST_LOCKED);
  ASSERT_EQ(refuse(dict.dictionary(), "k", Code::elsewhere), Code::ok);
  EXPECT_TRUE(waiter.is_woken());
  EXPECT_EQ(holdfast_lock_wait(dict.handle, "k", 1, 0, &waiter.wait, &lease), HOLDFAST_ELSEWHERE);
  EXPECT_EQ(patient.once(dict, "k", &lease), HOLDFAST_LOCKED);
  // The next try begins after the refusal.
  EXPECT_EQ(holdfast_lock_wait(dict.handle, "k", 1, 0, &waiter.wait, &lease), HOLDFAST_LOCKED);
  EXPECT_EQ(dict.leave("k", waiter.parker(), waiter.wait.waiter), HOLDFAST_OK);
  EXPECT_EQ(patient.leave(dict, "k"), HOLDFAST_OK);
}

TEST_F(StandingTest, a_try_is_answered_behind_any_number_of_waiters) {
  begin(1);
  std::vector<std::unique_ptr<Waiting>> crowd;
  for (int i = 0; i < 100; ++i) {
    crowd.push_back(std::make_unique<Waiting>());
    ASSERT_EQ(crowd.back()->once(dict, "k", &lease), HOLDFAST_LOCKED);
  }
  BareWaiter waiter(true);
  ASSERT_EQ(holdfast_lock_wait(dict.handle, "k", 1, 0, &waiter.wait, &lease), HOLDFAST_LOCKED);
  EXPECT_TRUE(state("k").tried_for);
  ASSERT_EQ(refuse(dict.dictionary(), "k", Code::elsewhere), Code::ok);
  EXPECT_TRUE(waiter.is_woken());
  EXPECT_EQ(holdfast_lock_wait(dict.handle, "k", 1, 0, &waiter.wait, &lease), HOLDFAST_ELSEWHERE);
  for (const auto& waiting : crowd) EXPECT_EQ(waiting->leave(dict, "k"), HOLDFAST_OK);
}

TEST_F(StandingTest, a_replaced_agent_gives_nothing_and_begins_no_session) {
  begin(1);
  const SessionWord word = session().now();
  session().attend(session().agent(), (**World::current()).token() + 1, 1);
  EXPECT_EQ(stand("k", 1, 7), Code::not_owner);
  EXPECT_EQ(dict.try_lock("k", 0, &lease), HOLDFAST_ELSEWHERE);
  session().lose(1);
  begin(2);
  EXPECT_FALSE(session().begin(word.as_lost(), 2, 200, boottime_ms() + 2 * kLongMs));
  EXPECT_EQ(session().lease(), 100U);
}

TEST_F(StandingTest, contenders_notify_the_agent_of_the_locks_that_they_want) {
  begin(1);
  World& world = **World::current();
  BareWaiter agent;
  session().attend(session().agent(), world.token(), agent.wait.waiter);
  reinterpret_cast<Parker*>(agent.parker())->begin(agent.wait.waiter, world.token());
  std::array<std::uint64_t, kWants> hashes{};
  EXPECT_EQ(session().take_wants(hashes), 0U);
  Waiting waiting;
  ASSERT_EQ(waiting.once(dict, "k", &lease), HOLDFAST_LOCKED);
  EXPECT_TRUE(agent.is_woken());
  ASSERT_EQ(session().take_wants(hashes), 1U);
  EXPECT_EQ(wanted_keys(dict.dictionary(), {hashes.data(), 1}), std::vector<std::string>{"k"});
  EXPECT_EQ(session().take_wants(hashes), 0U);
  EXPECT_EQ(waiting.leave(dict, "k"), HOLDFAST_OK);
}

TEST_F(StandingTest, too_many_hints_hide_no_wanted_lock) {
  begin(1);
  std::vector<std::unique_ptr<Waiting>> crowd;
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < 3 * kWants; ++i) {
    keys.push_back("key-" + std::to_string(i));
    crowd.push_back(std::make_unique<Waiting>());
    ASSERT_EQ(crowd.back()->once(dict, keys.back(), &lease), HOLDFAST_LOCKED);
  }
  std::array<std::uint64_t, kWants> hashes{};
  EXPECT_GT(session().take_wants(hashes), kWants);
  std::vector<std::string> found = wanted();
  std::sort(found.begin(), found.end());
  std::sort(keys.begin(), keys.end());
  EXPECT_EQ(found, keys);
  for (std::size_t i = 0; i < crowd.size(); ++i)
    EXPECT_EQ(crowd[i]->leave(dict, "key-" + std::to_string(i)), HOLDFAST_OK);
}

TEST_F(StandingTest, a_lock_without_tokens_left_is_not_withdrawn_from_its_holder) {
  own();
  use_up("k");
  EXPECT_EQ(withdraw_idle(dict.dictionary(), "k"), Code::locked);
  EXPECT_EQ(dict.unlock("k", &lease), HOLDFAST_OK);
  EXPECT_EQ(withdraw_idle(dict.dictionary(), "k"), Code::ok);
}

TEST_F(StandingTest, the_agent_wakes_watchers_of_a_grant_that_it_ends) {
  for (const bool withdraws : {true, false}) {
    const std::uint16_t epoch = withdraws ? 1 : 3;
    begin(epoch);
    ASSERT_EQ(stand("k", epoch, epoch), Code::ok);
    ASSERT_EQ(dict.try_lock("k", 0, &lease), HOLDFAST_OK);
    BareWaiter waiter;
    std::uint64_t grant = 0;
    ASSERT_EQ(holdfast_lock_watch(dict.handle, "k", 1, &waiter.wait, &grant), HOLDFAST_LOCKED);
    Lease held = lease_of(lease);
    if (withdraws)
      ASSERT_EQ(withdraw(dict.dictionary(), "k", held), Code::ok);
    else
      ASSERT_EQ(stand("k", 4, 9), Code::ok);
    EXPECT_TRUE(waiter.is_woken());
    EXPECT_EQ(holdfast_lock_watch(dict.handle, "k", 1, &waiter.wait, &grant), HOLDFAST_OK);
  }
}

TEST_F(StandingTest, nobody_waits_for_a_holder_that_has_lost_the_lock) {
  hold();
  ASSERT_EQ(dict.adopt("k", lease, 5), HOLDFAST_OK);
  const auto blocker = [&] {
    static constexpr WatchKind kKind{nullptr, &blocker_of_lock, nullptr, false, true};
    Blocker found;
    dict.dictionary().transact("k", [&](Transaction& change) {
      found = blocker_of_lock(watch_entry(kKind, LockEntry::of(change), 1));
      return Code::ok;
    });
    return found;
  };
  EXPECT_EQ(blocker().token, lease.owner);
  session().lose(1);
  EXPECT_EQ(blocker().token, kNobody);
}

TEST_F(StandingTest, an_observer_sees_no_holder_that_has_lost_the_lock) {
  HolderInfo holder;
  const auto holders = [&] {
    HolderCount count;
    EXPECT_EQ(peek_holders(dict.dictionary(), "k", {&holder, 1}, {}, count), Code::ok);
    return count.holders;
  };
  hold();
  EXPECT_EQ(holders(), 1U);
  EXPECT_EQ(holder.revision, 7U);
  ASSERT_TRUE(session().renew(session().now(), boottime_ms() + 1));
  EXPECT_TRUE(eventually([&] { return holders() == 0; }));
}

TEST_F(StandingTest, a_child_of_fork_does_not_have_its_parents_lease) {
  own();
  ASSERT_EQ(dict.try_lock("k", 60, &lease), HOLDFAST_OK);
  Started child("-1", [&](Channel& parent) {
    parent.say(std::to_string(static_cast<int>(dict.remaining("k", lease))));
    return 0;
  });
  EXPECT_GT(dict.remaining("k", lease), 0);
}

// --- damage ---

TEST_F(StandingTest, an_overwritten_limit_lets_nobody_take_a_lock_that_is_not_owned) {
  hold();
  ASSERT_EQ(dict.unlock("k", &lease), HOLDFAST_OK);
  ASSERT_EQ(withdraw_idle(dict.dictionary(), "k"), Code::ok);
  LockFields& lock = *entry("k").lock;
  lock.limit.store(load_word_of(lock).turn() + 100);
  EXPECT_EQ(dict.try_lock("k", 0, &lease), HOLDFAST_ELSEWHERE);
  EXPECT_EQ(dict.try_lock("k", 0, &lease), HOLDFAST_ELSEWHERE) << "the limit was not restored";
}

TEST_F(StandingTest, a_refusal_with_a_future_time_is_ignored) {
  own();
  ASSERT_EQ(withdraw_idle(dict.dictionary(), "k"), Code::ok);
  entry("k").standing->refused_ns.store(~std::uint64_t{0});
  BareWaiter waiter(true);
  EXPECT_EQ(holdfast_lock_wait(dict.handle, "k", 1, 0, &waiter.wait, &lease), HOLDFAST_LOCKED);
  EXPECT_EQ(dict.leave("k", waiter.parker(), waiter.wait.waiter), HOLDFAST_OK);
}

TEST_F(StandingTest, tokens_continue_if_revisions_restart) {
  begin(1);
  ASSERT_EQ(stand("k", 1, 1000), Code::ok);
  use_up("k");
  const std::uint64_t last = lease.sequence;
  ASSERT_EQ(dict.unlock("k", &lease), HOLDFAST_OK);
  ASSERT_EQ(stand("k", 1, 1000), Code::ok);
  EXPECT_EQ(dict.try_lock("k", 0, &lease), HOLDFAST_ELSEWHERE) << "these tokens were already granted";
  ASSERT_EQ(stand("k", 1, 7), Code::ok);
  ASSERT_EQ(dict.try_lock("k", 0, &lease), HOLDFAST_OK);
  EXPECT_GT(lease.sequence, last);
}

// Otherwise, the agent would request new tokens endlessly from then on.
TEST_F(StandingTest, tokens_of_a_revision_that_goes_back_are_renewed_after_half_are_given) {
  begin(1);
  ASSERT_EQ(stand("k", 1, 1000), Code::ok);
  ASSERT_EQ(dict.try_lock("k", 0, &lease), HOLDFAST_OK);
  entry("k").standing->grants.store(kGrantsMax / 2);
  ASSERT_EQ(stand("k", 1, 7), Code::ok);
  EXPECT_EQ(state("k").grants, kGrantsMax / 2) << "the tokens were renewed too early";
  entry("k").standing->grants.store(kGrantsMax / 2 + 1);
  ASSERT_EQ(stand("k", 1, 7), Code::ok);
  EXPECT_EQ(state("k").grants, 0U);
  const std::uint64_t last = lease.sequence;
  ASSERT_EQ(dict.unlock("k", &lease), HOLDFAST_OK);
  ASSERT_EQ(dict.try_lock("k", 0, &lease), HOLDFAST_OK);
  EXPECT_GT(lease.sequence, last);
}

/// Returns keys that are in the same chain as `key`.
std::vector<std::string> of_the_same_bucket(Dict& dict, const std::string& key, std::size_t count) {
  Segment& segment = dict.segment();
  const Key wanted(key, segment.seed());
  Shard& shard = segment.shard_of(wanted.hash);
  const auto bucket_of = [&](const Key& one) { return one.short_hash() & (shard.buckets() - 1); };
  std::vector<std::string> found;
  for (int i = 0; found.size() < count; ++i) {
    const std::string name = "v" + std::to_string(i);
    const Key one(name, segment.seed());
    if (&segment.shard_of(one.hash) == &shard && bucket_of(one) == bucket_of(wanted)) found.push_back(name);
  }
  return found;
}

TEST_F(StandingTest, hints_for_the_same_bucket_return_a_key_only_once) {
  std::vector<std::string> keys = of_the_same_bucket(dict, "k", 2);
  std::sort(keys.begin(), keys.end());
  std::vector<Waiting> crowd(keys.size());
  std::vector<std::uint64_t> hashes;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    ASSERT_EQ(crowd[i].once(dict, keys[i], &lease), HOLDFAST_LOCKED);
    hashes.push_back(Key(keys[i], dict.segment().seed()).hash);
  }
  EXPECT_EQ(wanted_keys(dict.dictionary(), hashes), keys);
  for (std::size_t i = 0; i < keys.size(); ++i) EXPECT_EQ(crowd[i].leave(dict, keys[i]), HOLDFAST_OK);
}

TEST_F(StandingTest, waiters_are_found_in_a_dictionary_full_of_small_values) {
  for (int i = 0; i < 20'000; ++i) ASSERT_EQ(dict.set("value" + std::to_string(i), "0123456789"), HOLDFAST_OK);
  std::vector<Waiting> crowd(20);
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < crowd.size(); ++i) {
    keys.push_back("lock" + std::to_string(10 + i));
    ASSERT_EQ(crowd[i].once(dict, keys.back(), &lease), HOLDFAST_LOCKED);
  }
  std::vector<std::string> found = wanted();
  std::sort(found.begin(), found.end());
  EXPECT_EQ(found, keys);
  for (std::size_t i = 0; i < crowd.size(); ++i) EXPECT_EQ(crowd[i].leave(dict, keys[i]), HOLDFAST_OK);
}

// To make room for the waiter, the dictionary may free the lock that was just created.
TEST_F(StandingTest, each_waiter_has_its_entry_whatever_fills_the_dictionary) {
  for (std::size_t length = 1; length <= 96; ++length) {
    Dict full(new_name(), {.size = 64 << 10, .cluster = "main"});
    const std::string bytes(length % 3 * 16 + 1, 'x');
    for (int i = 0; i < 4000; ++i) ASSERT_EQ(full.set("value" + std::to_string(i), bytes), HOLDFAST_OK);
    const std::string key(length, 'k');
    Waiting waiting;
    const auto is_wanted = [&] {
      EXPECT_EQ(waiting.once(full, key, &lease), HOLDFAST_LOCKED);
      return wanted_keys(full.dictionary(), {}) == std::vector<std::string>{key};
    };
    EXPECT_TRUE(is_wanted() || is_wanted()) << "key of " << length << " bytes, values of " << bytes.size();
    EXPECT_EQ(waiting.leave(full, key), HOLDFAST_OK);
    EXPECT_EQ(holdfast_remove(full.dictionary().name().data(), full.dictionary().name().size()), HOLDFAST_OK);
  }
}

// If a block is freed during a walk along the chain, the walk may lead elsewhere. This is rare, so two seconds may not
// be enough to show a fault.
TEST_F(StandingTest, all_owned_locks_are_listed_while_their_neighbours_change) {
  const std::vector<std::string> neighbours = of_the_same_bucket(dict, "k", 4);
  own();
  Started other("changes", [&](Channel& parent) {
    parent.say("changes");
    pollfd end{parent.read_fd(), POLLIN, 0};
    for (unsigned n = 0; n % 64 != 0 || ::poll(&end, 1, 0) == 0; ++n) {
      dict.set(neighbours[n % neighbours.size()], std::string(n % 7 * 40, 'x'));
      dict.set("other" + std::to_string(n % 50), std::string(n % 7 * 40, 'x'));
      if (n % 3 == 0) dict.remove("other" + std::to_string(n % 50));
    }
    return 0;
  });
  int walks = 0;
  for (const double end = now() + 2; now() < end; ++walks) {
    const auto keys = standing_keys(dict.dictionary(), 1);
    if (!keys) continue;
    ASSERT_EQ(*keys, std::vector<std::string>{"k"}) << "walk " << walks;
  }
  other.say("end");
  EXPECT_EQ(other.wait(), 0);
}

/// A dictionary with several shards. A different process makes the shards grow, and the agent has not accessed them
/// since then.
class GrowingTest : public StandingTest {
 protected:
  GrowingTest() : StandingTest({.size = 8 << 20, .cluster = "main"}) {}

  static constexpr int kValues = 12'000;
  static constexpr int kLocks = 50;
  static std::string key_of(int i) { return "k" + std::to_string(i); }
  int fill(std::size_t bytes) {
    for (int i = 0; i < kValues; ++i)
      if (const int code = dict.set("value" + std::to_string(i), std::string(bytes, 'x')); code != HOLDFAST_OK)
        return code;
    return HOLDFAST_OK;
  }
  /// Stores values, and then waits for each of the locks, whose entries come after the values.
  int grow_and_wait(Channel& parent) {
    if (fill(400) != HOLDFAST_OK) return 1;
    std::vector<std::unique_ptr<Waiting>> crowd;
    holdfast_lease none{};
    for (int i = 0; i < kLocks; ++i)
      if (crowd.emplace_back(std::make_unique<Waiting>())->once(dict, key_of(i), &none) != HOLDFAST_LOCKED) return 2;
    parent.say("waits");
    parent.hear();
    return 0;
  }
};

TEST_F(GrowingTest, all_owned_locks_are_listed) {
  Started other("filled", [this](Channel& parent) {
    fill(10);
    parent.say("filled");
    parent.hear();
    parent.say(fill(400) == HOLDFAST_OK ? "grown" : holdfast_error());
    parent.hear();
    return 0;
  });
  begin(1);
  for (int i = 0; i < kLocks; ++i) ASSERT_EQ(stand(key_of(i), 1, 7), Code::ok);
  ASSERT_EQ(other.ask("grow"), "grown");
  const auto keys = standing_keys(dict.dictionary(), 1);
  ASSERT_TRUE(keys);
  EXPECT_EQ(keys->size(), std::size_t{kLocks});
}

TEST_F(GrowingTest, waiters_are_found) {
  begin(1);
  std::array<holdfast_lease, kLocks> leases{};
  for (int i = 0; i < kLocks; ++i) {
    ASSERT_EQ(stand(key_of(i), 1, 7), Code::ok);
    ASSERT_EQ(dict.try_lock(key_of(i), 0, &leases.at(i)), HOLDFAST_OK);
  }
  Started other("waits", [this](Channel& parent) { return grow_and_wait(parent); });
  for (int i = 0; i < kLocks; ++i) {
    std::uint32_t holders = 0;
    std::uint32_t waiters = 0;
    const std::string key = key_of(i);
    EXPECT_EQ(holdfast_look(dict.handle, key.data(), key.size(), nullptr, 0, &holders, nullptr, sizeof(holdfast_waiter),
                            0, &waiters),
              HOLDFAST_OK);
    EXPECT_EQ(holders, 1U) << key;
    EXPECT_EQ(waiters, 1U) << key;
  }
}

TEST_F(GrowingTest, all_wanted_locks_are_found) {
  fill(10);
  Started other("waits", [this](Channel& parent) { return grow_and_wait(parent); });
  EXPECT_EQ(wanted().size(), std::size_t{kLocks});
}

TEST_F(GrowingTest, all_wanted_locks_are_found_by_hints) {
  fill(10);
  Started other("waits", [this](Channel& parent) { return grow_and_wait(parent); });
  std::vector<std::uint64_t> hashes;
  for (int i = 0; i < kLocks; ++i) hashes.push_back(Key(key_of(i), dict.segment().seed()).hash);
  EXPECT_EQ(wanted_keys(dict.dictionary(), hashes).size(), std::size_t{kLocks});
}

TEST_F(StandingTest, an_invalid_base_is_replaced) {
  own();
  for (const std::uint64_t bad :
       {~std::uint64_t{0}, (std::uint64_t{7} << kGrantBits) + 1, (kRevisionMax + 1) << kGrantBits}) {
    entry("k").standing->base.store(bad);
    ASSERT_EQ(stand("k", 1, 8), Code::ok);
    ASSERT_EQ(dict.try_lock("k", 0, &lease), HOLDFAST_OK);
    EXPECT_EQ(lease.sequence >> kGrantBits, 8U);
    EXPECT_EQ(dict.unlock("k", &lease), HOLDFAST_OK);
  }
}

TEST_F(StandingTest, a_lock_that_lacks_fields_is_created_again) {
  begin(1);
  for (const bool by_the_agent : {true, false}) {
    ASSERT_EQ(stand("k", 1, 7), Code::ok);
    entry("k").entry->value_size.store(sizeof(LockFields));
    if (!by_the_agent) {
      EXPECT_EQ(dict.try_lock("k", 0, &lease), HOLDFAST_ELSEWHERE);
    }
    ASSERT_EQ(stand("k", 1, 8), Code::ok);
    EXPECT_EQ(dict.try_lock("k", 0, &lease), HOLDFAST_OK);
    EXPECT_EQ(dict.unlock("k", &lease), HOLDFAST_OK);
    const ShardGuard guard(dict.segment().shards()[0]);
    repair(dict.segment().shards()[0]);  // frees the memory of the missing fields
  }
}

TEST_F(StandingTest, the_keys_of_an_epoch_are_found) {
  begin(3);
  ASSERT_EQ(stand("a", 3, 7), Code::ok);
  ASSERT_EQ(stand("b", 2, 8), Code::ok);
  EXPECT_EQ(standing_keys(dict.dictionary(), 3), std::vector<std::string>{"a"});
}

TEST_F(StandingTest, values_are_local_and_permits_are_refused) {
  EXPECT_EQ(dict.set("v", "text"), HOLDFAST_OK);
  EXPECT_EQ(dict.get("v"), text("text"));
  EXPECT_EQ(dict.try_permits("p", HOLDFAST_SEMAPHORE, 1, 2, 0, &lease), HOLDFAST_UNSUPPORTED);
  begin(1);
  EXPECT_EQ(stand("v", 1, 7), Code::exists);
}

TEST_F(StandingTest, a_lost_lock_has_no_local_holder_and_permits_do_not_exist) {
  hold();
  holdfast_holder holder{};
  EXPECT_EQ(holdfast_lock_holder(dict.handle, "k", 1, &holder), HOLDFAST_OK);
  session().lose(1);
  EXPECT_EQ(holdfast_lock_holder(dict.handle, "k", 1, &holder), HOLDFAST_NOT_FOUND);
  std::uint32_t used = 0;
  EXPECT_EQ(holdfast_permits_count(dict.handle, "p", 1, &used, &used), HOLDFAST_UNSUPPORTED);
  EXPECT_EQ(holdfast_permits_upgrade(dict.handle, "p", 1, 0, nullptr, &lease), HOLDFAST_UNSUPPORTED);
}

TEST_F(StandingTest, a_lock_that_this_machine_does_not_own_is_not_reported_as_free) {
  const auto look = [&](std::uint64_t& grant) { return holdfast_lock_watch(dict.handle, "k", 1, nullptr, &grant); };
  std::uint64_t grant = 0;
  EXPECT_EQ(look(grant), HOLDFAST_ELSEWHERE);
  begin(1);
  EXPECT_EQ(look(grant), HOLDFAST_ELSEWHERE);
  ASSERT_EQ(stand("k", 1, 7), Code::ok);
  EXPECT_EQ(look(grant), HOLDFAST_OK);
  ASSERT_EQ(dict.try_lock("k", 0, &lease), HOLDFAST_OK);
  EXPECT_EQ(look(grant), HOLDFAST_LOCKED);
  EXPECT_EQ(grant, lease.sequence);
  session().lose(1);
  EXPECT_EQ(look(grant), HOLDFAST_OK) << "the watched grant has ended";
  grant = 0;
  EXPECT_EQ(look(grant), HOLDFAST_ELSEWHERE);
}

TEST_F(StandingTest, watchers_of_a_grant_are_notified_of_its_loss) {
  hold();
  BareWaiter waiter;
  std::uint64_t grant = 0;
  ASSERT_EQ(holdfast_lock_watch(dict.handle, "k", 1, &waiter.wait, &grant), HOLDFAST_LOCKED);
  session().lose(1);
  EXPECT_TRUE(waiter.is_woken());
  EXPECT_EQ(holdfast_lock_watch(dict.handle, "k", 1, &waiter.wait, &grant), HOLDFAST_OK);
}

TEST_F(StandingTest, the_state_of_the_cluster_is_reported) {
  holdfast_cluster state{};
  EXPECT_EQ(holdfast_cluster_state(dict.handle, &state), HOLDFAST_UNAVAILABLE);
  EXPECT_STREQ(state.name, "main");
  EXPECT_EQ(state.agent, 0U);
  EXPECT_EQ(state.seconds, 0);
  begin(7);
  EXPECT_EQ(holdfast_cluster_state(dict.handle, &state), HOLDFAST_UNAVAILABLE);
  EXPECT_NE(std::string(holdfast_error()).find("no agent of cluster \"main\""), std::string::npos);
  EXPECT_GT(state.seconds, 0);
  session().attend(session().agent(), (**World::current()).token(), 0);
  EXPECT_EQ(holdfast_cluster_state(dict.handle, &state), HOLDFAST_OK);
  EXPECT_EQ(state.agent, static_cast<std::uint32_t>(::getpid()));
  EXPECT_EQ(state.epoch, 7U);
  EXPECT_GT(state.seconds, 0);
  EXPECT_LE(state.seconds, kLongMs / 1e3);
  session().lose(7);
  EXPECT_EQ(holdfast_cluster_state(dict.handle, &state), HOLDFAST_UNAVAILABLE);
  EXPECT_NE(std::string(holdfast_error()).find("has no session"), std::string::npos);
  EXPECT_EQ(state.seconds, 0);
  const Dict plain(new_name());
  EXPECT_EQ(holdfast_cluster_state(plain.handle, &state), HOLDFAST_NOT_FOUND);
}

TEST_F(StandingTest, a_dead_process_does_not_count_as_an_agent) {
  begin(1);
  Started agent("attends", [&](Channel& channel) {
    session().attend(session().agent(), (**World::current()).token(), 0);
    channel.say("attends");
    channel.hear();
    return 0;
  });
  holdfast_cluster state{};
  EXPECT_EQ(holdfast_cluster_state(dict.handle, &state), HOLDFAST_OK);
  agent.kill();
  agent.wait();
  EXPECT_EQ(holdfast_cluster_state(dict.handle, &state), HOLDFAST_UNAVAILABLE);
  EXPECT_EQ(state.agent, 0U);
}

TEST_F(StandingTest, a_handle_of_a_cluster_never_finds_a_local_dictionary) {
  const std::string name = new_name();
  Dict mine(name, {.cluster = "main"});
  ASSERT_EQ(holdfast_remove(name.data(), name.size()), HOLDFAST_OK);
  const Started other("made", [&](Channel& channel) {
    const Dict local(name);
    channel.say("made");
    channel.hear();
    return local.status;
  });
  EXPECT_EQ(mine.try_lock("k", 0, &lease), HOLDFAST_REMOVED);
}

TEST_F(StandingTest, a_dictionary_belongs_to_its_declared_cluster) {
  const std::string name = new_name();
  ::setenv("HOLDFAST_CLUSTER", (dict_name + "=main," + name + "=main").c_str(), 1);
  EXPECT_EQ(Dict(dict_name, {}).status, HOLDFAST_OK);
  EXPECT_EQ(Dict(dict_name, {.cluster = "other"}).status, HOLDFAST_MISMATCH);
  const Dict made(name);
  ASSERT_EQ(made.status, HOLDFAST_OK);
  holdfast_cluster state{};
  EXPECT_EQ(holdfast_cluster_state(made.handle, &state), HOLDFAST_UNAVAILABLE);
  ::setenv("HOLDFAST_CLUSTER", (dict_name + "=other").c_str(), 1);
  EXPECT_EQ(Dict(dict_name, {}).status, HOLDFAST_MISMATCH);
  holdfast_dict* found = nullptr;
  EXPECT_EQ(holdfast_attach(dict_name.data(), dict_name.size(), &found), HOLDFAST_MISMATCH);
  ::unsetenv("HOLDFAST_CLUSTER");
}

TEST_F(StandingTest, a_dictionary_has_one_cluster_or_none) {
  Dict plain(dict_name, {});
  EXPECT_EQ(plain.status, HOLDFAST_MISMATCH);
  EXPECT_NE(std::string(holdfast_error()).find("cluster \"main\""), std::string::npos) << holdfast_error();
  EXPECT_EQ(Dict(dict_name, {.cluster = "other"}).status, HOLDFAST_MISMATCH);
  EXPECT_EQ(Dict(dict_name, {.cluster = "main"}).status, HOLDFAST_OK);
  for (const char* bad : {"", "a/b", ".", "a b", "\xff"})
    EXPECT_EQ(Dict(new_name(), {.cluster = bad}).status, HOLDFAST_INVALID);
  EXPECT_EQ(Dict(new_name(), {.cluster = std::string(64, 'x').c_str()}).status, HOLDFAST_INVALID);
}

// --- waiting calls and tries ---

class BlockingInClusterTest : public StandingTest {
 protected:
  void attend() { ASSERT_TRUE(session().attend(session().agent(), (**World::current()).token(), 1)); }
  /// Makes a call that does not wait while the agent answers its question.
  int try_with_agent(const std::function<Code()>& agent) {
    std::atomic<int> code{-1};
    std::thread thread([&] { code = lock(0); });
    EXPECT_TRUE(eventually([&] { return code != -1 || is_tried_for(); }));
    EXPECT_EQ(agent(), Code::ok);
    thread.join();
    return code;
  }
  int lock(double timeout) { return holdfast_lock(dict.handle, "k", 1, timeout, 0, &lease); }
  bool is_wanted() { return wanted() == std::vector<std::string>{"k"}; }
  bool is_tried_for() {
    LockState state;
    return state_of_lock(dict.dictionary(), "k", state) == Code::ok && state.tried_for;
  }
};

TEST_F(BlockingInClusterTest, a_wait_lasts_until_the_agent_has_the_lock) {
  begin(1);
  std::atomic<int> code{-1};
  std::thread thread([&] { code = lock(INFINITY); });
  EXPECT_TRUE(eventually([&] { return is_wanted(); }));
  ASSERT_EQ(stand("k", 1, 7), Code::ok);
  thread.join();
  EXPECT_EQ(code, HOLDFAST_OK);
  EXPECT_EQ(dict.unlock("k", &lease), HOLDFAST_OK);
}

TEST_F(BlockingInClusterTest, a_failed_wait_reports_that_the_store_is_out_of_reach_and_why) {
  begin(1);
  EXPECT_EQ(lock(kShort), HOLDFAST_UNAVAILABLE);
  EXPECT_NE(std::string(holdfast_error()).find("no agent of cluster \"main\""), std::string::npos) << holdfast_error();
  EXPECT_FALSE(is_wanted()) << "the failed wait has not left the queue";
}

TEST_F(BlockingInClusterTest, a_wait_for_a_lock_that_another_machine_keeps_returns_locked) {
  begin(1);
  attend();
  EXPECT_EQ(lock(kShort), HOLDFAST_LOCKED);
}

TEST_F(BlockingInClusterTest, a_wait_for_a_locally_held_lock_returns_locked_whatever_the_store_does) {
  begin(1);
  ASSERT_EQ(stand("k", 1, 7), Code::ok);
  holdfast_lease held{};
  ASSERT_EQ(dict.try_lock("k", 0, &held), HOLDFAST_OK);
  EXPECT_EQ(lock(kShort), HOLDFAST_LOCKED);
  EXPECT_EQ(lock(0), HOLDFAST_LOCKED);
}

TEST_F(BlockingInClusterTest, a_try_learns_from_the_store_that_another_machine_has_the_lock) {
  begin(1);
  attend();
  EXPECT_EQ(try_with_agent([&] { return refuse(dict.dictionary(), "k", Code::elsewhere); }), HOLDFAST_ELSEWHERE);
}

TEST_F(BlockingInClusterTest, a_try_gets_the_lock_from_the_agent) {
  begin(1);
  attend();
  EXPECT_EQ(try_with_agent([&] { return stand("k", 1, 7); }), HOLDFAST_OK);
}

TEST_F(BlockingInClusterTest, a_store_that_does_not_answer_counts_as_unavailable) {
  begin(1);
  attend();
  const double start = now();
  EXPECT_EQ(lock(0), HOLDFAST_UNAVAILABLE);
  EXPECT_GE(now() - start, 1);
  EXPECT_STREQ(holdfast_error(), "the agent of cluster \"main\" got no answer from the store");
}

TEST_F(BlockingInClusterTest, without_a_session_a_try_asks_nobody) {
  EXPECT_EQ(lock(0), HOLDFAST_UNAVAILABLE);
  EXPECT_FALSE(is_tried_for());
}

TEST_F(BlockingInClusterTest, permits_are_refused) {
  const holdfast_request read = HOLDFAST_REQUEST(.kind = HOLDFAST_HELD_RWLOCK, .timeout = kLong, .want = 1);
  EXPECT_EQ(holdfast_acquire(dict.handle, "k", 1, &read, &lease), HOLDFAST_UNSUPPORTED);
}

}  // namespace
}  // namespace holdfast::test
