// Tests that processes can reuse the memory of dead processes, even if some of them die in the middle of an attempt.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <string>

#include "interleave/failpoint.h"
#include "support/dict.h"
#include "support/started.h"

namespace holdfast::test {
namespace {

class InterleaveMemory : public testing::Test {
 protected:
  /// Takes locks under keys with this prefix until memory is full, and then reports "full".
  static int take_all(Channel& parent, const std::string& prefix) {
    Dict dict("locks", {.size = 65536});
    holdfast_lease lease{};
    int taken = 0;
    while (dict.try_lock(prefix + std::to_string(taken), 0, &lease) == HOLDFAST_OK) ++taken;
    parent.say(taken > 10 ? "full" : holdfast_error());
    parent.hear();
    return 0;
  }
  static void take_all_and_die(const std::string& prefix) {
    Started process("full", [&](Channel& parent) { return take_all(parent, prefix); });
    process.kill_and_wait();
  }

  /// Makes this process run `action` whenever it reaches the failpoint.
  static void always_at(const std::string& name, const std::function<void()>& action) {
    at_failpoint(name, [name, action] {
      action();
      always_at(name, action);
    });
  }

  /// Counts the searches under the mutex. After each pause, a complete search for dead owners and damage is allowed. A
  /// process that is often stopped makes many complete searches, so only the number of other searches between them is
  /// limited.
  class Searches {
   public:
    /// REQUIRES: the dictionary has one shard, and this object outlives all this process's calls on it.
    Searches(Dict& dict, std::initializer_list<const char*> failpoints)
        : asked_(dict.segment().shards()[0].header().asked) {
      for (const char* name : failpoints) always_at(name, [this] { count(); });
      always_at("reclaim.done", [this] {
        ++complete_;
        others_ = 0;
      });
    }

    /// Makes the call without counting its searches.
    template <class Call>
    int uncounted(Call&& call) {
      counts_ = false;
      const int code = call();
      counts_ = true;
      return code;
    }
    /// Ends the pause that follows a complete search, as if enough time had passed.
    void end_pause() {
      asked_.store(0);
      ++ended_;
    }
    /// Checks that each complete search came after a pause of at least 30 ms, with few other searches.
    void expect_few() const {
      constexpr double kPause = 0.03;
      constexpr int kFew = 8;
      EXPECT_GE(complete_, ended_);
      EXPECT_LE(complete_, 1 + ended_ + (holdfast_now() - start_) / kPause);
      EXPECT_LE(most_, kFew);
    }

   private:
    void count() {
      if (counts_) most_ = std::max(most_, ++others_);
    }

    Word32& asked_;
    const double start_ = holdfast_now();
    bool counts_ = true;
    int complete_ = 0;
    int ended_ = 0;   // pauses that have ended
    int others_ = 0;  // other searches since the last complete one
    int most_ = 0;
  };

  static constexpr int kRounds = 300;
  static constexpr int kRoundsPerPause = 100;

  const ScratchDirectory directory_;
};

TEST_F(InterleaveMemory, of_processes_that_die_during_the_search_is_found) {
  Started living("ready", [](Channel& parent) {
    Dict dict("locks", {.size = 65536});
    parent.say("ready");
    parent.hear();
    pause_at("reclaim.done", parent);
    holdfast_lease lease{};
    // A key of this length fits only into the memory that the dead processes' locks used.
    parent.say(holdfast_code_text(dict.try_lock("third 1000", 0, &lease)));
    return 0;
  });
  take_all_and_die("first ");
  ASSERT_EQ(living.ask("lock"), "at reclaim.done");
  take_all_and_die("second ");
  EXPECT_EQ(living.ask("go on"), "ok");
}

// A search covers the whole shard under the shard's mutex, so all other processes wait for the search.
TEST_F(InterleaveMemory, is_not_searched_again_on_each_call_after_a_refusal) {
  Dict dict("locks", {.size = 65536});
  holdfast_lease lease{};
  ASSERT_EQ(dict.set("neighbour", "one"), HOLDFAST_OK);
  int taken = 0;
  while (dict.try_lock("held " + std::to_string(1000 + taken), 0, &lease) == HOLDFAST_OK) ++taken;
  ASSERT_GT(taken, 100);
  const std::string value(200, 'v');
  Searches searches(dict, {"reclaimer.clear", "reclaimer.clear_at", "reclaimer.sweep"});
  for (int i = 0; i < kRounds; ++i) {
    if (i % kRoundsPerPause == 0) searches.end_pause();
    ASSERT_EQ(dict.try_lock("other " + std::to_string(1000 + i), 0, &lease), HOLDFAST_NO_MEMORY);
    ASSERT_EQ(dict.set("more", value), HOLDFAST_NO_MEMORY);
    ASSERT_EQ(dict.store(HOLDFAST_SAFE_SET, "more", value, 0, 0), HOLDFAST_NO_MEMORY);
    // This set needs the memory of the key's old value.
    ASSERT_EQ(searches.uncounted([&] { return dict.set("neighbour", i % 2 == 0 ? "two" : "six"); }), HOLDFAST_OK);
  }
  searches.expect_few();
}

// Permits and a lock are repeatedly taken and released. Before each refused call, a grant ends and frees memory, but
// not enough for this call.
TEST_F(InterleaveMemory, is_not_searched_again_while_too_little_is_freed) {
  Dict dict("beside-cycles", {.size = 65536});
  // The semaphore's entry is as long as a lock, so entries that are moved leave gaps that are long enough for it. One
  // permit stays taken, because a search would remove an entry that nobody holds, and a new entry needs a run of free
  // memory for itself and its holder.
  const std::string semaphore(48, 's');
  holdfast_lease kept{};
  holdfast_lease lease{};
  ASSERT_EQ(dict.try_permits(semaphore, HOLDFAST_SEMAPHORE, 1, 2, 0, &kept), HOLDFAST_OK);
  ASSERT_EQ(dict.try_permits(semaphore, HOLDFAST_SEMAPHORE, 1, 2, 0, &lease), HOLDFAST_OK);
  holdfast_lease lock{};
  ASSERT_EQ(dict.try_lock("lock", 0, &lock), HOLDFAST_OK);
  int taken = 0;
  holdfast_lease held{};
  while (dict.try_lock("held " + std::to_string(1000 + taken), 0, &held) == HOLDFAST_OK) ++taken;
  ASSERT_GT(taken, 100);
  const std::string value(600, 'v');
  Searches searches(dict, {"reclaimer.clear", "reclaimer.clear_at", "reclaimer.sweep"});
  for (int i = 0; i < kRounds; ++i) {
    if (i % kRoundsPerPause == 0) searches.end_pause();
    ASSERT_EQ(dict.unlock(semaphore, &lease), HOLDFAST_OK);
    ASSERT_EQ(dict.set("more", value), HOLDFAST_NO_MEMORY);
    ASSERT_EQ(dict.try_permits(semaphore, HOLDFAST_SEMAPHORE, 1, 2, 0, &lease), HOLDFAST_OK);
    ASSERT_EQ(dict.unlock("lock", &lock), HOLDFAST_OK);
    ASSERT_EQ(dict.store(HOLDFAST_SAFE_SET, "more", value, 0, 0), HOLDFAST_NO_MEMORY);
    ASSERT_EQ(dict.try_lock(std::string(100, 'k'), 0, &held), HOLDFAST_NO_MEMORY);
    ASSERT_EQ(dict.try_lock("lock", 0, &lock), HOLDFAST_OK);
  }
  searches.expect_few();
}

// The entry between two gaps is longer than either gap. A short entry could be moved, but this would not help.
TEST_F(InterleaveMemory, between_immovable_entries_is_not_searched_on_each_call) {
  Dict dict("in-pieces", {.size = 65536});
  const auto key = [](int i) { return "key " + std::to_string(1000 + i); };
  const auto safe_set = [&](const std::string& name, const std::string& bytes) {
    return dict.store(HOLDFAST_SAFE_SET, name, bytes, 0, 0);
  };
  int count = 0;
  while (safe_set(key(count), std::string(count % 2 == 0 ? 300 : 0, 'v')) == HOLDFAST_OK) ++count;
  for (std::size_t size = 300; size > 0 && safe_set("rest", std::string(size, 'v')) != HOLDFAST_OK; --size) {
  }
  for (int i = 3; i < count; i += 2) ASSERT_EQ(dict.remove(key(i)), HOLDFAST_OK);
  const std::string large(400, 'v');
  ASSERT_EQ(safe_set("large", large), HOLDFAST_NO_MEMORY);
  Searches searches(dict, {"reclaimer.clear", "reclaimer.clear_at", "reclaimer.sweep"});
  for (int i = 0; i < kRounds; ++i) {
    if (i % kRoundsPerPause == 0) searches.end_pause();
    ASSERT_EQ(dict.set(key(1), ""), HOLDFAST_OK);
    ASSERT_EQ(safe_set("large", large), HOLDFAST_NO_MEMORY);
  }
  searches.expect_few();
}

// After a complete search, a lock ends. A process that was refused must find this lock without searching the shard
// under its mutex.
TEST_F(InterleaveMemory, of_a_lock_that_ended_is_found_without_a_search_under_the_mutex) {
  Dict dict("but-one", {.size = 65536});
  holdfast_lease lease{};
  int taken = 0;
  while (dict.try_lock("held " + std::to_string(1000 + taken), 0, &lease) == HOLDFAST_OK) ++taken;
  ASSERT_GT(taken, 100);
  ASSERT_EQ(dict.remove("held 1007"), HOLDFAST_OK);
  Searches searches(dict, {"reclaimer.clear", "reclaimer.sweep"});
  for (int i = 0; i < kRounds; ++i) {
    if (i % kRoundsPerPause == 1) searches.end_pause();
    const std::string name = "next " + std::to_string(1000 + i);
    ASSERT_EQ(dict.try_lock(name, 0, &lease), HOLDFAST_OK) << i;
    ASSERT_EQ(dict.unlock(name, &lease), HOLDFAST_OK);
  }
  searches.expect_few();
}

}  // namespace
}  // namespace holdfast::test
