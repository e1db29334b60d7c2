// Tests locks that a single compare-and-swap takes or releases, while the process is held before or after the
// compare-and-swap.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "dict/guard.h"
#include "interleave/failpoint.h"
#include "support/dict.h"
#include "support/shard_check.h"
#include "support/started.h"
#include "support/waiting.h"

namespace holdfast::test {
namespace {

constexpr double kLong = 1000;

class TheDict : public Dict {
 public:
  TheDict() : Dict("locks", {.size = 32768}) {}  // one shard

  Shard& shard() { return segment().shards()[0]; }
  /// Returns the entry of the key, or block 0 if there is none.
  Position position_of(const std::string& key) {
    Position position{};
    shard().find(Key(key, segment().seed()), position);
    return position;
  }
  std::uint32_t block_of(const std::string& key) { return position_of(key).block; }
  /// REQUIRES: the key has a lock.
  LockFields& lock(const std::string& key) { return position_of(key).view.lock(); }
  int try_lock(const std::string& key, double exptime = 0) {
    if (!binds) return Dict::try_lock(key, exptime, &lease);
    if (std::exchange(bound_key_, key) != key) bound_.place[0] = 0;
    if (holdfast_lock_again(handle, key.data(), key.size(), exptime, 0, &bound_) == 1) return HOLDFAST_OK;
    return holdfast_lock_bind(handle, key.data(), key.size(), exptime, 0, 0, &bound_);
  }
  int unlock(const std::string& key) {
    if (key == bound_key_ && holdfast_unlock_again(handle, key.data(), key.size(), &bound_) == 1) return HOLDFAST_OK;
    return Dict::unlock(key, &lease);
  }

  /// Creates a free lock under "key". A sweep can move the lock, because it removes the entry in front of the lock. The
  /// lock's last lease has expired.
  bool make_lock() {
    if (set("ahead", std::string(300, 'a')) != HOLDFAST_OK) return false;
    for (int i = 0; i < 2; ++i)  // the second grant finds the place of the lock
      if (try_lock("key", 0.001) != HOLDFAST_OK || unlock("key") != HOLDFAST_OK) return false;
    ::usleep(5000);
    return !binds || bound_.place[0] != 0;
  }

  static inline bool binds = false;  // take locks with holdfast_lock_again

 private:
  holdfast_bound bound_{};
  std::string bound_key_;

 public:
  holdfast_lease& lease = bound_.lease;
};

class InterleaveLock : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override { TheDict::binds = GetParam(); }

  /// Runs the steps in a new process.
  static void in_new_process(const std::function<void(TheDict&)>& steps) {
    in_process([&] {
      TheDict dict;
      ASSERT_EQ(dict.status, HOLDFAST_OK);
      steps(dict);
    });
  }
  static void expect_sound(TheDict& dict) { EXPECT_EQ(check_segment(dict.segment()), ""); }

  /// Returns a process that creates the lock and is held while it takes the lock. Then the process reports the result,
  /// and releases the lock when it gets a line.
  static Started taker_at(const std::string& failpoint) {
    return {"at " + failpoint, [failpoint](Channel& parent) {
              TheDict dict;
              if (!dict.make_lock()) return 1;
              pause_at(failpoint, parent);
              parent.say(holdfast_code_text(dict.try_lock("key", kLong)));
              parent.hear();
              parent.say(holdfast_code_text(dict.unlock("key")));
              parent.hear();
              return 0;
            }};
  }
  /// Returns a process that takes the lock for `exptime` seconds, and is held while it releases the lock.
  static Started releaser(double exptime = 0) {
    return {"at fast_path.checked", [exptime](Channel& parent) {
              TheDict dict;
              if (!dict.make_lock()) return 1;
              if (dict.try_lock("key", exptime) != HOLDFAST_OK) return 2;
              pause_at("fast_path.checked", parent);
              parent.say(holdfast_code_text(dict.unlock("key")));
              parent.hear();
              return 0;
            }};
  }

  /// Deletes the key. Then stores values that consist of copies of the lock's word, until one of the values covers the
  /// lock's old position.
  static void put_words_in_place_of(TheDict& dict, const std::string& key) {
    const Word64& word = dict.lock(key).word;
    const std::uint64_t bits = word.load();
    dict.remove(key);
    const std::string value = values_of(bits);
    const std::uint32_t block = static_cast<std::uint32_t>(
        (reinterpret_cast<const char*>(&word) - reinterpret_cast<const char*>(dict.shard().words32(0))) / kGranule);
    for (int i = 0; i < 100; ++i) {
      ASSERT_EQ(dict.set("value " + std::to_string(i), value), HOLDFAST_OK);
      const Position stored = dict.position_of("value " + std::to_string(i));
      if (stored.block < block && block < stored.block + stored.view.granules) break;
    }
    ASSERT_EQ(word.load(), bits);
  }
  static std::string values_of(std::uint64_t bits) {
    std::string value;
    for (int i = 0; i < 200; ++i) value.append(reinterpret_cast<const char*>(&bits), sizeof bits);
    return value;
  }
  static void expect_whole_values(TheDict& dict) {
    for (int i = 0; i < 100; ++i) {
      const Got got = dict.get("value " + std::to_string(i));
      if (got.code != HOLDFAST_OK) continue;  // the value was evicted or never stored
      std::uint64_t bits = 0;
      std::memcpy(&bits, got.text.data(), sizeof bits);
      EXPECT_TRUE(got.text == values_of(bits)) << i;
    }
  }
  static void release_memory(TheDict& dict) {
    const std::uint64_t before = dict.shard().epoch();
    ASSERT_EQ(dict.try_lock("other"), HOLDFAST_OK);
    ASSERT_EQ(dict.remove("other"), HOLDFAST_OK);
    ASSERT_NE(dict.shard().epoch(), before);
  }
  /// Stores so many values that many entries are evicted and moved.
  static void press(TheDict& dict, int sets = 3000) {
    for (int i = 0; i < sets; ++i)
      dict.set("of many sizes " + std::to_string(i), std::string(static_cast<std::size_t>(i * 7919 % 700), 'p'));
  }

  const ScratchDirectory directory_;
};

const auto name_of = [](const testing::TestParamInfo<bool>& way) { return way.param ? "again" : "by_key"; };

INSTANTIATE_TEST_SUITE_P(locks, InterleaveLock, testing::Bool(), name_of);

// --- before the compare-and-swap ---

TEST_P(InterleaveLock, a_taker_that_found_a_removed_lock_does_not_take_its_replacement) {
  Started taker = taker_at("fast_path.found");
  Started other("has another", [](Channel& parent) {
    TheDict dict;
    const LockFields* const before = &dict.lock("key");
    if (dict.remove("key") != HOLDFAST_OK || dict.try_lock("yek") != HOLDFAST_OK) return 1;
    if (&dict.lock("yek") != before || dict.unlock("yek") != HOLDFAST_OK) return 2;
    const std::uint64_t word = dict.lock("yek").word.load();
    parent.say("has another");
    parent.hear();
    parent.say(dict.lock("yek").word.load() == word ? "unchanged" : "taken");
    parent.hear();
    return 0;
  });
  EXPECT_EQ(taker.ask("go on"), "ok");
  EXPECT_EQ(other.ask("look"), "unchanged");
  in_new_process([](TheDict& dict) {
    EXPECT_EQ(dict.try_lock("key"), HOLDFAST_LOCKED);
    EXPECT_EQ(dict.try_lock("yek"), HOLDFAST_OK);
    expect_sound(dict);
  });
  EXPECT_EQ(taker.ask("unlock"), "ok");
}

// Fails if the taker does not check the epoch again, or does not restore the value that it changed.
TEST_P(InterleaveLock, a_taker_does_not_mistake_a_value_with_the_same_bits_for_a_removed_lock) {
  Started taker = taker_at("fast_path.found");
  in_new_process([](TheDict& dict) { put_words_in_place_of(dict, "key"); });
  EXPECT_EQ(taker.ask("go on"), "ok");
  in_new_process([](TheDict& dict) {
    expect_whole_values(dict);
    EXPECT_EQ(dict.try_lock("key"), HOLDFAST_LOCKED);
    expect_sound(dict);
  });
  EXPECT_EQ(taker.ask("unlock"), "ok");
}

TEST_P(InterleaveLock, a_release_does_not_mistake_a_value_with_the_same_bits_for_a_removed_lock) {
  Started owner = releaser();
  in_new_process([](TheDict& dict) { put_words_in_place_of(dict, "key"); });
  EXPECT_EQ(owner.ask("go on"), "not owner");
  in_new_process([](TheDict& dict) {
    expect_whole_values(dict);
    expect_sound(dict);
  });
}

TEST_P(InterleaveLock, a_release_finds_a_lock_that_has_just_moved) {
  Started owner = releaser();
  in_new_process([](TheDict& dict) {
    const std::uint32_t before = dict.block_of("key");
    for (int i = 0; i < 20 && dict.block_of("key") == before; ++i) press(dict);
    ASSERT_NE(dict.block_of("key"), before);
  });
  EXPECT_EQ(owner.ask("go on"), "ok");
  in_new_process([](TheDict& dict) { EXPECT_EQ(dict.try_lock("key"), HOLDFAST_OK); });
}

TEST_P(InterleaveLock, a_release_counts_even_if_the_lock_is_then_moved_and_taken) {
  Started owner("at fast_path.released", [](Channel& parent) {
    TheDict dict;
    if (!dict.make_lock() || dict.try_lock("key") != HOLDFAST_OK) return 1;
    pause_at("fast_path.released", parent);
    parent.say(holdfast_code_text(dict.unlock("key")));
    parent.hear();
    return 0;
  });
  Started next("moved", [](Channel& parent) {
    TheDict dict;
    const std::uint32_t before = dict.block_of("key");
    if (dict.try_lock("key") != HOLDFAST_OK) return 1;
    for (int i = 0; i < 20 && dict.block_of("key") == before; ++i) press(dict);
    parent.say(dict.block_of("key") != before ? "moved" : "not moved");
    parent.hear();
    parent.say(holdfast_code_text(dict.unlock("key")));
    return 0;
  });
  EXPECT_EQ(owner.ask("go on"), "ok");
  EXPECT_EQ(next.ask("unlock"), "ok");
}

TEST_P(InterleaveLock, a_release_of_a_lease_that_has_ended_does_not_harm_the_next_one) {
  Started owner = releaser(0.02);
  Started next("has it", [](Channel& parent) {
    TheDict dict;
    if (!eventually([&] { return dict.try_lock("key") == HOLDFAST_OK; })) return 1;
    parent.say("has it");
    parent.hear();
    parent.say(holdfast_code_text(dict.unlock("key")));
    return 0;
  });
  EXPECT_EQ(owner.ask("go on"), "not owner");
  in_new_process([](TheDict& dict) { EXPECT_EQ(dict.try_lock("key"), HOLDFAST_LOCKED); });
  EXPECT_EQ(next.ask("unlock"), "ok");
}

// Fails if the lock is not MUTEX_OWNED when the waiter queues, or if the release does not detect this state. The test
// counts wake-ups, because the waiter would soon find the lock free even without a wake-up.
TEST_P(InterleaveLock, a_release_wakes_a_waiter_that_queued_just_before) {
  Started owner = releaser();
  Started waiter("locked", [](Channel& parent) {
    TheDict dict;
    Waiting waiting;
    parent.say(holdfast_code_text(waiting.once(dict, "key", &dict.lease)));
    parent.say(waiting.sleep(kPatience.count()) ? "woken" : "not woken");
    parent.say(holdfast_code_text(waiting.lock(dict, "key", kLong, &dict.lease)));
    return 0;
  });
  EXPECT_EQ(owner.ask("go on"), "ok");
  EXPECT_EQ(waiter.hear(), "woken");
  EXPECT_EQ(waiter.hear(), "ok");
  in_new_process([](TheDict& dict) { EXPECT_EQ(dict.stats().lock_wakes, 1U); });
}

TEST_P(InterleaveLock, a_spin_finds_the_lock_again_after_memory_was_released) {
  Started holder("has it", [](Channel& parent) {
    TheDict dict;
    if (!dict.make_lock() || dict.try_lock("key") != HOLDFAST_OK) return 1;
    parent.say("has it");
    parent.hear();
    parent.say(holdfast_code_text(dict.unlock("key")));
    parent.hear();
    return 0;
  });
  Started waiter("polls", [](Channel& parent) {
    TheDict dict;
    static bool polled_again = false;
    at_failpoint("fast_path.loaded", [&parent] {      // the attempt before the spin
      at_failpoint("fast_path.loaded", [&parent] {    // the spin finds the lock
        at_failpoint("fast_path.loaded", [&parent] {  // the first poll of the spin
          at_failpoint("fast_path.loaded", [] { polled_again = true; });
          parent.say("polls");
          parent.hear();
        });
      });
    });
    holdfast_lease mine{};
    parent.say(holdfast_code_text(holdfast_lock(dict.handle, "key", 3, kLong, 0, &mine)));
    parent.hear();
    parent.say(polled_again ? "polled another entry's word" : "searched");
    parent.hear();
    return 0;
  });
  EXPECT_EQ(holder.ask("unlock"), "ok");
  in_new_process([](TheDict& dict) { put_words_in_place_of(dict, "key"); });
  EXPECT_EQ(waiter.ask("go on"), "ok");
  in_new_process([](TheDict& dict) {
    expect_whole_values(dict);
    expect_sound(dict);
  });
  EXPECT_EQ(waiter.ask("what did it do"), "searched");
}

// --- between the compare-and-swap and the end of the grant ---

TEST_P(InterleaveLock, a_process_killed_as_it_takes_a_lock_leaves_it_to_the_next_attempt) {
  Started taker = taker_at("fast_path.taken");
  taker.kill_and_wait();
  in_new_process([](TheDict& dict) {
    EXPECT_EQ(dict.get("key"), nothing());
    EXPECT_EQ(dict.try_lock("key"), HOLDFAST_OK);
    expect_sound(dict);
  });
}

TEST_P(InterleaveLock, a_process_killed_as_it_takes_a_lock_leaves_it_to_the_next_waiter) {
  Started taker = taker_at("fast_path.taken");
  Started waiter("locked", [](Channel& parent) {
    TheDict dict;
    Waiting waiting;
    parent.say(holdfast_code_text(waiting.once(dict, "key", &dict.lease)));
    parent.say(holdfast_code_text(waiting.lock(dict, "key", kLong, &dict.lease)));
    parent.say(holdfast_code_text(dict.unlock("key")));
    return 0;
  });
  taker.kill_and_wait();
  EXPECT_EQ(waiter.hear(), "ok");
  EXPECT_EQ(waiter.hear(), "ok");
}

TEST_P(InterleaveLock, a_process_killed_as_it_takes_a_lock_leaves_its_memory) {
  Started taker = taker_at("fast_path.taken");
  Started keeps_the_dictionary("open", [](Channel& parent) {
    const TheDict dict;
    parent.say("open");
    parent.hear();
    return 0;
  });
  taker.kill_and_wait();
  in_new_process([](TheDict& dict) {
    for (int i = 0; dict.store(HOLDFAST_SAFE_SET, std::to_string(i), "v", 0, 0) == HOLDFAST_OK; ++i) {
    }
    EXPECT_EQ(dict.block_of("key"), 0U);
    expect_sound(dict);
  });
}

TEST_P(InterleaveLock, a_process_stopped_as_it_takes_a_lock_holds_it_exclusively) {
  Started taker = taker_at("fast_path.taken");
  in_new_process([](TheDict& dict) {
    const std::uint32_t block = dict.block_of("key");
    EXPECT_EQ(dict.try_lock("key"), HOLDFAST_LOCKED);
    EXPECT_EQ(dict.get("key"), boolean(true));
    EXPECT_EQ(dict.add("key", "v"), HOLDFAST_EXISTS);
    EXPECT_EQ(dict.remove("key"), HOLDFAST_TIMEOUT);
    EXPECT_EQ(dict.set("key", "v"), HOLDFAST_TIMEOUT);
    EXPECT_EQ(dict.expire("key", 1), HOLDFAST_TIMEOUT);
    press(dict);
    EXPECT_EQ(dict.flush_expired(), 0);
    EXPECT_EQ(dict.block_of("key"), block);
    EXPECT_EQ(dict.get("key"), boolean(true));
    expect_sound(dict);
  });
  EXPECT_EQ(taker.ask("go on"), "ok");
  in_new_process([](TheDict& dict) {
    EXPECT_EQ(dict.try_lock("key"), HOLDFAST_LOCKED);
    EXPECT_GT(dict.ttl("key"), kLong / 2);
    expect_sound(dict);
  });
  EXPECT_EQ(taker.ask("unlock"), "ok");
  in_new_process([](TheDict& dict) { EXPECT_EQ(dict.try_lock("key"), HOLDFAST_OK); });
}

// Fails if an operation changes a lease's grant without checking whether the grant is complete, or if another process
// can read the lease.
TEST_P(InterleaveLock, a_process_stopped_as_it_takes_a_lock_does_not_lose_it_through_its_lease) {
  Started taker = taker_at("fast_path.taken");
  in_new_process([](TheDict& dict) {
    const LockWord word = load_word_of(dict.lock("key"));
    const holdfast_lease lease{dict.segment().world().token_of(word.owner()), sequence_of(dict.lock("key"), word)};
    EXPECT_EQ(holdfast_lock_break(dict.handle, "key", 3, &lease), HOLDFAST_TIMEOUT);
    EXPECT_EQ(dict.try_lock("key"), HOLDFAST_LOCKED);
    holdfast_holder holder{};
    EXPECT_EQ(dict.holder("key", &holder), HOLDFAST_OK);
    EXPECT_EQ(holder.owner, lease.owner);
    EXPECT_EQ(holder.sequence, 0U);
    EXPECT_EQ(holder.remaining, 0) << "the grant has no end yet";
    std::uint32_t holders = 0;
    std::uint32_t waiters = 0;
    EXPECT_EQ(holdfast_look(dict.handle, "key", 3, &holder, 1, &holders, nullptr, sizeof(holdfast_waiter), 0, &waiters),
              HOLDFAST_OK);
    EXPECT_EQ(holders, 1U);
    EXPECT_EQ(holder.owner, lease.owner);
    EXPECT_EQ(holder.sequence, 0U);
    const holdfast_lease told{holder.owner, holder.sequence};
    EXPECT_EQ(holdfast_lock_break(dict.handle, "key", 3, &told), HOLDFAST_NOT_OWNER);
    expect_sound(dict);
  });
  EXPECT_EQ(taker.ask("go on"), "ok");
  in_new_process([](TheDict& dict) {
    EXPECT_EQ(dict.try_lock("key"), HOLDFAST_LOCKED);
    EXPECT_GT(dict.ttl("key"), kLong / 2);
    holdfast_holder holder{};
    EXPECT_EQ(dict.holder("key", &holder), HOLDFAST_OK);
    EXPECT_GT(holder.sequence, 0U);
  });
  EXPECT_EQ(taker.ask("unlock"), "ok");
}

// The test acts as if another thread of the process had guessed the lease.
TEST_P(InterleaveLock, a_lease_changes_nothing_before_its_grant_is_complete) {
  in_new_process([](TheDict& dict) {
    ASSERT_TRUE(dict.make_lock());
    constexpr std::uint32_t kTask = 77;
    std::vector<int> codes(4, HOLDFAST_OK);
    at_failpoint("fast_path.taken", [&] {
      const LockWord word = load_word_of(dict.lock("key"));
      const holdfast_lease lease{dict.segment().world().token(), sequence_of(dict.lock("key"), word)};
      holdfast_lease given_back = lease;
      std::vector<std::thread> threads;
      threads.emplace_back([&] { codes[0] = dict.renew("key", lease, 1); });
      threads.emplace_back([&] { codes[1] = dict.adopt("key", lease, kTask); });
      threads.emplace_back([&] { codes[2] = dict.explain("key", lease, "too early"); });
      threads.emplace_back([&] { codes[3] = holdfast_unlock(dict.handle, "key", 3, &given_back); });
      for (std::thread& thread : threads) thread.join();
    });
    EXPECT_EQ(dict.try_lock("key", kLong), HOLDFAST_OK);
    EXPECT_EQ(codes, std::vector<int>(4, HOLDFAST_TIMEOUT));
    EXPECT_EQ(dict.renew("key", dict.lease, kLong), HOLDFAST_OK);
    EXPECT_EQ(dict.unlock("key"), HOLDFAST_OK);
    expect_sound(dict);
  });
}

TEST_P(InterleaveLock, a_break_that_waits_for_a_grant_continues_when_the_owner_is_killed) {
  Started taker = taker_at("fast_path.taken");
  Started breaker("at settle.alive", [](Channel& parent) {
    TheDict dict;
    const LockWord word = load_word_of(dict.lock("key"));
    const holdfast_lease lease{dict.segment().world().token_of(word.owner()), sequence_of(dict.lock("key"), word)};
    pause_at("settle.alive", parent);
    parent.say(holdfast_code_text(holdfast_lock_break(dict.handle, "key", 3, &lease)));
    EXPECT_EQ(dict.try_lock("key"), HOLDFAST_OK);
    expect_sound(dict);
    return 0;
  });
  taker.kill_and_wait();
  EXPECT_EQ(breaker.ask("go on"), "not owner");
  EXPECT_EQ(breaker.wait(), 0);
}

// The grant's owner checks twice, and both times, memory is freed before the check. Another process mistakes the grant
// for an overwritten grant, and then the mutex is not available.
TEST_P(InterleaveLock, an_undone_grant_does_not_complete_the_next_grant) {
  Started taker("at fast_path.taken", [](Channel& parent) {
    TheDict dict;
    if (!dict.make_lock()) return 1;
    at_failpoint("fast_path.undo", [&parent] {
      parent.say("at fast_path.undo");
      parent.hear();
      pause_at("fast_path.found", parent);  // the same call tries again, and so reaches the failpoint again
    });
    at_failpoint("fast_path.taken", [&parent] {
      parent.say("at fast_path.taken");
      parent.hear();
      pause_at("fast_path.loaded", parent);
    });
    parent.say(holdfast_code_text(dict.try_lock("key", kLong)));
    parent.hear();
    return 0;
  });
  in_new_process(release_memory);
  EXPECT_EQ(taker.ask("go on"), "at fast_path.loaded");
  in_new_process(release_memory);
  EXPECT_EQ(taker.ask("go on"), "at fast_path.undo");
  in_new_process([](TheDict& dict) { EXPECT_EQ(dict.expire("key", 1), HOLDFAST_NOT_FOUND); });
  Started inside("has the mutex", [](Channel& parent) {
    TheDict dict;
    const ShardGuard guard(dict.shard());
    parent.say("has the mutex");
    parent.hear();
    return 0;
  });
  EXPECT_NE(taker.ask("go on"), "ok");
  inside.say("go on");
  EXPECT_EQ(inside.wait(), 0);
  Started next("at fast_path.taken", [](Channel& parent) {
    TheDict dict;
    pause_at("fast_path.taken", parent);
    parent.say(holdfast_code_text(dict.try_lock("key", kLong)));
    parent.hear();
    return 0;
  });
  in_new_process([](TheDict& dict) { EXPECT_EQ(dict.try_lock("key"), HOLDFAST_LOCKED); });
  EXPECT_EQ(next.ask("go on"), "ok");
}

TEST_P(InterleaveLock, a_change_that_waits_for_a_grant_continues_when_the_owner_is_killed) {
  struct Change {
    std::function<int(TheDict&)> run;
    std::string result;
  };
  const Change changes[] = {{[](TheDict& dict) { return dict.set("key", "v"); }, "ok"},
                            // The dead owner's grant does not count, so the delete finds nothing.
                            {[](TheDict& dict) { return dict.remove("key"); }, "ok"},
                            {[](TheDict& dict) { return dict.expire("key", 1); }, "not found"}};
  for (const Change& change : changes) {
    Started taker = taker_at("fast_path.taken");
    Started changer("at settle.alive", [&](Channel& parent) {
      TheDict dict;
      pause_at("settle.alive", parent);
      parent.say(holdfast_code_text(change.run(dict)));
      expect_sound(dict);
      dict.remove("key");
      return 0;
    });
    taker.kill_and_wait();
    EXPECT_EQ(changer.ask("go on"), change.result);
    EXPECT_EQ(changer.wait(), 0);
  }
}

TEST_P(InterleaveLock, a_repair_while_a_lock_is_taken_loses_nothing) {
  Started taker = taker_at("fast_path.taken");
  in_new_process([](TheDict& dict) {
    {
      const ShardGuard guard(dict.shard());
      ASSERT_TRUE(guard.held());
      EXPECT_EQ(repair(dict.shard()), 0U);
    }
    EXPECT_EQ(dict.try_lock("key"), HOLDFAST_LOCKED);
    expect_sound(dict);
  });
  EXPECT_EQ(taker.ask("go on"), "ok");
  in_new_process([](TheDict& dict) {
    EXPECT_EQ(dict.try_lock("key"), HOLDFAST_LOCKED);
    EXPECT_GT(dict.ttl("key"), kLong / 2);
  });
  EXPECT_EQ(taker.ask("unlock"), "ok");
}

// Fails if release_word() does not reset `granted`.
TEST_P(InterleaveLock, a_grant_whose_owner_died_before_storing_the_word_completes_no_other_grant) {
  in_new_process([](TheDict& dict) {
    ASSERT_TRUE(dict.make_lock());
    LockFields& lock = dict.lock("key");
    const LockWord word = take_over(lock);
    lock.granted.store(word.turn() + 1);
    ASSERT_EQ(dict.expire("key", 1), HOLDFAST_NOT_FOUND);  // which calls release_word()
    bool quiet = false;
    at_failpoint("fast_path.taken", [&] {
      quiet = true;
      EXPECT_FALSE(is_complete(lock, load_word_of(lock)));
    });
    EXPECT_EQ(dict.try_lock("key"), HOLDFAST_OK);
    EXPECT_TRUE(quiet);
  });
}

// --- which path a release takes ---

class InterleaveRelease : public InterleaveLock {
 protected:
  /// Releases the lock, and returns whether the release took the fast path.
  static bool releases_on_fast_path(TheDict& dict) {
    bool quiet = false;
    at_failpoint("fast_path.released", [&quiet] { quiet = true; });
    EXPECT_EQ(dict.unlock("key"), HOLDFAST_OK);
    at_failpoint("fast_path.released", [] {});
    return quiet;
  }
};

INSTANTIATE_TEST_SUITE_P(locks, InterleaveRelease, testing::Bool(), name_of);

TEST_P(InterleaveRelease, of_a_moved_lock_is_fast) {
  in_new_process([](TheDict& dict) {
    ASSERT_TRUE(dict.make_lock());
    ASSERT_EQ(dict.try_lock("key"), HOLDFAST_OK);
    EXPECT_TRUE(releases_on_fast_path(dict)) << "the recorded position is still right";
    ASSERT_EQ(dict.try_lock("key"), HOLDFAST_OK);
    const std::uint32_t before = dict.block_of("key");
    for (int i = 0; i < 20 && dict.block_of("key") == before; ++i) press(dict);
    ASSERT_NE(dict.block_of("key"), before);
    EXPECT_TRUE(releases_on_fast_path(dict)) << "a walk finds the new position";
    ASSERT_EQ(dict.try_lock("key"), HOLDFAST_OK);
    EXPECT_TRUE(releases_on_fast_path(dict)) << "the new position was recorded";
    ASSERT_EQ(dict.try_lock("key"), HOLDFAST_OK);
    expect_sound(dict);
  });
}

TEST_P(InterleaveRelease, is_fast_again_when_the_last_waiter_has_left) {
  in_new_process([](TheDict& dict) {
    ASSERT_TRUE(dict.make_lock());
    ASSERT_EQ(dict.try_lock("key"), HOLDFAST_OK);
    const holdfast_lease held = dict.lease;
    Waiting first;
    Waiting second;
    ASSERT_EQ(first.once(dict, "key", &dict.lease), HOLDFAST_LOCKED);
    ASSERT_EQ(second.once(dict, "key", &dict.lease), HOLDFAST_LOCKED);
    EXPECT_TRUE(load_word_of(dict.lock("key")).is_mutex_owned());
    ASSERT_EQ(first.leave(dict, "key"), HOLDFAST_OK);
    EXPECT_TRUE(load_word_of(dict.lock("key")).is_mutex_owned());
    ASSERT_EQ(second.leave(dict, "key"), HOLDFAST_OK);
    dict.lease = held;
    EXPECT_TRUE(releases_on_fast_path(dict));
  });
}

// Fails if a sweep releases the word of a lock that it did not take over itself.
TEST_P(InterleaveRelease, drops_a_reason_for_which_a_sweep_made_room) {
  in_new_process([](TheDict& dict) {
    ASSERT_TRUE(dict.make_lock());
    ASSERT_EQ(dict.try_lock("key"), HOLDFAST_OK);
    for (int i = 0; dict.store(HOLDFAST_SAFE_SET, std::to_string(i), "v", 0, 0) == HOLDFAST_OK; ++i) {
    }
    dict.shard().header().hand.store(dict.block_of("key"));
    ASSERT_EQ(dict.explain("key", dict.lease, std::string(kReasonMax, 'r')), HOLDFAST_OK);
    EXPECT_TRUE(load_word_of(dict.lock("key")).is_mutex_owned());
    EXPECT_FALSE(releases_on_fast_path(dict));
    EXPECT_EQ(dict.lock("key").reason.load(), 0U);
    expect_sound(dict);
  });
}

}  // namespace
}  // namespace holdfast::test
