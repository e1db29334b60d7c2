// Tests the deadlock search, first with a table of waits that the test fills, then with simulated tasks.
#include "wait/deadlock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "platform/platform.h"
#include "wait/task_id.h"

namespace holdfast {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Found = WaitTable::Found;

Liveness all_live(Token) { return Liveness::alive; }

class DeadlockTest : public ::testing::Test {
 protected:
  /// Returns the record of a wait for `key` that began at `since` and was checked at `seen`.
  WaitRecord* put(Token token, std::uint32_t task, const std::string& key, const Blocker& blocker, std::uint64_t since,
                  std::uint64_t seen) {
    WaitRecord* const record = table.take(token, task, all_live);
    if (record != nullptr) WaitTable::write(*record, wait(token, task, key, blocker, since, seen));
    return record;
  }
  static Wait wait(Token token, std::uint32_t task, const std::string& key, const Blocker& blocker, std::uint64_t since,
                   std::uint64_t seen) {
    Wait wait;
    wait.token = token;
    wait.task = task;
    wait.since = since;
    wait.seen = seen;
    wait.blocker = blocker;
    wait.set_key(key);
    return wait;
  }
  /// Creates the records of a cycle: each of the processes 1 to `length` waits for the next, and the last waits for the
  /// first. The last process began to wait last.
  std::vector<WaitRecord*> put_cycle(std::size_t length, std::uint64_t seen) {
    std::vector<WaitRecord*> records;
    for (std::size_t i = 1; i <= length; ++i) {
      const Token next = i % length + 1;
      records.push_back(put(i, 7, "key" + std::to_string(i), {next, 7, next, 0}, kStart + i, seen));
    }
    return records;
  }
  void clear() {
    auto* const words = reinterpret_cast<Word64*>(memory.get());
    for (std::size_t i = 0; i < sizeof(WaitTableMemory) / 8; ++i) words[i].store(0);
  }
  Cycle search(Token token, std::uint32_t task, std::uint64_t now = kLater, Liveness (*judge)(Token) = all_live) {
    Wait own;
    EXPECT_EQ(table.find(token, task, own), Found::yes);
    keys.clear();
    return find_cycle(table, own, now, judge, keys);
  }

  static constexpr std::uint64_t kStart = 1'000'000'000;
  static constexpr std::uint64_t kLater = kStart + 1'000'000;

  std::unique_ptr<WaitTableMemory> memory = std::make_unique<WaitTableMemory>();
  WaitTable table{reinterpret_cast<std::byte*>(memory.get())};
  std::vector<std::string> keys;
};

// --- the table ---

TEST_F(DeadlockTest, a_wait_is_read_back_unchanged) {
  put(5, 9, "some key", {6, 3, 44, 99}, 1, 2);
  Wait found;
  ASSERT_EQ(table.find(5, 9, found), Found::yes);
  EXPECT_EQ(found.token, 5U);
  EXPECT_EQ(found.task, 9U);
  EXPECT_EQ(found.since, 1U);
  EXPECT_EQ(found.seen, 2U);
  EXPECT_EQ(found.blocker, (Blocker{6, 3, 44, 99}));
  EXPECT_EQ(found.kept_key(), "some key");
  EXPECT_EQ(table.find(5, 8, found), Found::no);
  EXPECT_EQ(table.find(4, 9, found), Found::no);
}

TEST_F(DeadlockTest, the_beginning_of_a_long_key_is_kept) {
  const std::string key = std::string(kWaitKeyBytes, 'a') + "b";
  put(5, 9, key, {}, 1, 2);
  Wait found;
  ASSERT_EQ(table.find(5, 9, found), Found::yes);
  EXPECT_EQ(found.key_length, key.size());
  EXPECT_EQ(found.kept_key(), key.substr(0, kWaitKeyBytes));
}

TEST_F(DeadlockTest, an_ended_wait_is_not_found_through_its_old_record) {
  WaitRecord* const record = put(5, 9, "key", {6, 3, 44, 0}, 1, 2);
  WaitTable::release(*record);
  Wait found;
  EXPECT_EQ(table.find(5, 9, found), Found::no);
  // The same or a different process has taken the record again, but has not written it yet.
  record->owner.store(5);
  EXPECT_EQ(table.find(5, 9, found), Found::no);
  WaitTable::write(*record, wait(5, 9, "key", {6, 3, 44, 0}, 1, 2));
  record->owner.store(6);
  EXPECT_EQ(table.find(6, 9, found), Found::no);
}

TEST_F(DeadlockTest, a_record_that_is_being_written_is_unreadable) {
  WaitRecord* const record = put(5, 9, "key", {6, 3, 44, 0}, 1, 2);
  record->stamp.fetch_or(1);
  Wait found;
  EXPECT_EQ(table.find(5, 9, found), Found::unreadable);
  WaitTable::write(*record, wait(5, 9, "key", {6, 3, 44, 0}, 1, 2));
  EXPECT_EQ(table.find(5, 9, found), Found::yes);
}

TEST_F(DeadlockTest, a_full_table_has_no_free_record_until_an_owner_is_dead) {
  std::vector<WaitRecord*> records;
  for (std::uint32_t task = 1; task <= 4 * kWaitRecords; ++task) {
    WaitRecord* const record = table.take(5, task, all_live);
    if (record != nullptr) records.push_back(record);
  }
  EXPECT_LE(records.size(), kWaitRecords);
  EXPECT_GT(records.size(), kWaitRecords * 9 / 10);
  std::sort(records.begin(), records.end());
  EXPECT_EQ(std::adjacent_find(records.begin(), records.end()), records.end()) << "one record was allocated twice";
  EXPECT_EQ(table.take(6, 1, all_live), nullptr);
  WaitRecord* const taken = table.take(6, 1, [](Token token) { return token != 5 ? Liveness::alive : Liveness::dead; });
  ASSERT_NE(taken, nullptr);
  EXPECT_TRUE(WaitTable::is_owner(*taken, 6));
}

// --- the search ---

TEST_F(DeadlockTest, cycles_of_all_lengths_are_found_and_the_last_to_wait_is_the_victim) {
  for (const std::size_t length : {2U, 3U, 5U, static_cast<unsigned>(kCycleMax)}) {
    clear();
    put_cycle(length, kLater);
    for (Token token = 1; token < length; ++token) EXPECT_EQ(search(token, 7), Cycle::there) << length;
    EXPECT_EQ(search(length, 7), Cycle::deadlock) << length;
    ASSERT_EQ(keys.size(), length);
    EXPECT_EQ(keys[0], "key" + std::to_string(length));
    for (std::size_t i = 1; i < length; ++i) EXPECT_EQ(keys[i], "key" + std::to_string(i));
  }
}

TEST_F(DeadlockTest, a_cycle_that_is_too_long_is_not_found) {
  put_cycle(kCycleMax + 1, kLater);
  EXPECT_EQ(search(kCycleMax + 1, 7), Cycle::none);
}

TEST_F(DeadlockTest, a_waiter_for_its_own_lock_gets_no_deadlock_error) {
  put_cycle(1, kLater);
  EXPECT_EQ(search(1, 7), Cycle::none);
}

TEST_F(DeadlockTest, observations_from_before_the_last_wait_began_prove_nothing) {
  for (std::size_t early = 0; early < 3; ++early) {
    clear();
    const auto records = put_cycle(3, kLater);
    records[early]->seen.store(kStart + 3);
    EXPECT_EQ(search(3, 7), Cycle::there);
    records[early]->seen.store(kStart + 4);
    EXPECT_EQ(search(3, 7), Cycle::deadlock);
  }
}

TEST_F(DeadlockTest, dead_processes_and_expired_grants_break_a_cycle) {
  const auto records = put_cycle(3, kLater);
  EXPECT_EQ(search(3, 7, kLater, [](Token token) { return token != 2 ? Liveness::alive : Liveness::dead; }),
            Cycle::there);
  EXPECT_EQ(search(3, 7, kLater, [](Token) { return Liveness::unknown; }), Cycle::there);
  records[0]->holder_end.store(1);
  EXPECT_EQ(search(3, 7), Cycle::there);
  records[0]->holder_end.store(platform::monotonic_ns() / 1'000'000 + 60'000);
  EXPECT_EQ(search(3, 7), Cycle::deadlock);
}

TEST_F(DeadlockTest, a_wait_that_ends_between_the_two_readings_breaks_the_cycle) {
  const auto records = put_cycle(2, kLater);
  Wait own;
  ASSERT_EQ(table.find(2, 7, own), Found::yes);
  // Ends the wait during the check of live processes that follows the first reading.
  const auto end_it = [&](Token) {
    WaitTable::release(*records[0]);
    return Liveness::alive;
  };
  EXPECT_EQ(find_cycle(table, own, kLater, end_it, keys), Cycle::there);
  clear();
  const auto others = put_cycle(2, kLater);
  const auto begin_again = [&](Token) {
    WaitTable::write(*others[0], wait(1, 7, "key1", {2, 7, 2, 0}, kStart + 1, kLater + 1));
    return Liveness::alive;
  };
  EXPECT_EQ(find_cycle(table, own, kLater, begin_again, keys), Cycle::deadlock)
      << "the wait was checked again, but is the same wait";
  const auto wait_for_another = [&](Token) {
    WaitTable::write(*others[0], wait(1, 7, "key1", {2, 7, 3, 0}, kStart + 1, kLater));
    return Liveness::alive;
  };
  EXPECT_EQ(find_cycle(table, own, kLater, wait_for_another, keys), Cycle::there);
}

TEST_F(DeadlockTest, a_lua_state_that_waits_as_a_whole_prevents_its_coroutines_from_releasing) {
  const std::uint32_t state = new_task_ids();
  const std::uint32_t other_state = new_task_ids();
  put(1, state, "a", {2, 7, 1, 0}, kStart, kLater);
  put(2, 7, "b", {1, state + 5, 2, 0}, kStart + 1, kLater);
  EXPECT_EQ(search(2, 7), Cycle::deadlock);
  EXPECT_THAT(keys, ElementsAre("b", "a"));
  clear();
  put(1, state, "a", {2, 7, 1, 0}, kStart, kLater);
  put(2, 7, "b", {1, other_state + 5, 2, 0}, kStart + 1, kLater);
  EXPECT_EQ(search(2, 7), Cycle::none);
}

TEST_F(DeadlockTest, if_the_last_waiter_does_not_respond_the_previous_one_is_the_victim) {
  put_cycle(3, kLater);
  const std::uint64_t closed = kStart + 3;
  EXPECT_EQ(search(2, 7, closed + kVictimPatienceNs - 1), Cycle::there);
  EXPECT_EQ(search(2, 7, closed + kVictimPatienceNs), Cycle::deadlock);
  EXPECT_EQ(search(1, 7, closed + kVictimPatienceNs), Cycle::there);
  EXPECT_EQ(search(1, 7, closed + 2 * kVictimPatienceNs), Cycle::deadlock);
}

TEST_F(DeadlockTest, garbage_in_the_table_does_no_harm) {
  const auto seed = std::random_device()();
  std::mt19937_64 random(seed);
  SCOPED_TRACE(seed);
  auto* const words = reinterpret_cast<Word64*>(memory.get());
  for (int round = 0; round < 20; ++round) {
    // Uses few tokens and tasks, so that many of the records refer to each other.
    for (std::size_t i = 0; i < sizeof(WaitTableMemory) / 8; ++i)
      words[i].store(random() % 4 == 0 ? random() : random() % 8 | (random() % 8) << 32);
    for (Token token = 0; token < 8; ++token) {
      for (std::uint32_t task = 0; task < 8; ++task) {
        Wait own;
        if (table.find(token, task, own) == Found::yes) find_cycle(table, own, random(), all_live, keys);
        for (const std::string& key : keys) ASSERT_LE(key.size(), kWaitKeyBytes);
        TrackedWait tracked;
        tracked.begin(token + 1, task + 1, "key");
        tracked.look(table, all_live, [&] {
          return Blocker{random() % 8, static_cast<std::uint32_t>(random() % 8), 1, 0};
        });
        tracked.end();
      }
    }
  }
}

// --- this process's waits ---

TEST_F(DeadlockTest, a_wait_is_checked_again_only_when_the_table_has_changed) {
  TrackedWait tracked;
  tracked.begin(1, 7, "key");
  int looks = 0;
  const auto blocker = [&] {
    ++looks;
    return Blocker{2, 7, 1, 0};
  };
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(tracked.look(table, all_live, blocker));
  EXPECT_EQ(looks, 2) << "expected one check to record the wait, and one because this changed the table";
  table.count_change();
  for (int i = 0; i < 5; ++i) tracked.look(table, all_live, blocker);
  EXPECT_EQ(looks, 3);
  tracked.end();
  Wait found;
  EXPECT_EQ(table.find(1, 7, found), Found::no);
}

TEST_F(DeadlockTest, a_cycle_is_reported_only_if_it_still_exists) {
  TrackedWait first;
  TrackedWait last;
  first.begin(1, 7, "a");
  last.begin(2, 7, "b");
  std::uint64_t grant = 1;
  const auto of_last = [] { return Blocker{2, 7, 5, 0}; };
  const auto of_first = [&] { return Blocker{1, 7, grant, 0}; };
  const auto find_it = [&] {
    bool told = false;
    for (int i = 0; i < 3 && !told; ++i) {
      first.look(table, all_live, of_last);
      told = last.look(table, all_live, of_first);
    }
    return told;
  };
  ASSERT_TRUE(find_it());
  EXPECT_TRUE(last.settle(table, all_live, of_first));
  EXPECT_FALSE(last.settle(table, all_live, of_first)) << "the other wait got the error";
  EXPECT_THAT(last.keys(), ElementsAre("b", "a"));
  ASSERT_TRUE(find_it());
  first.end();
  EXPECT_FALSE(last.settle(table, all_live, of_first));
}

TEST_F(DeadlockTest, keys_stay_until_the_next_wait) {
  TrackedWait first;
  TrackedWait last;
  first.begin(1, 7, "a");
  last.begin(2, 7, "b");
  for (int i = 0; i < 3; ++i) {
    first.look(table, all_live, [] { return Blocker{2, 7, 5, 0}; });
    last.look(table, all_live, [] { return Blocker{1, 7, 6, 0}; });
  }
  last.end();
  EXPECT_THAT(last.keys(), ElementsAre("b", "a"));
  last.begin(2, 7, "c");
  EXPECT_THAT(last.keys(), IsEmpty());
}

// --- simulated tasks: compares the reports with the truth ---

class Play {
 public:
  Play(WaitTable table, std::uint64_t seed) : table_(table), random_(seed) {}

  /// Makes one task act. Returns false if a false deadlock was reported.
  bool step() {
    Task& task = agents_[pick(kAgents)];
    if (task.waits_for < 0) {
      act(task);
      return true;
    }
    Lock& lock = locks_[task.waits_for];
    if (lock.holder < 0) return take(task, lock), true;
    if (pick(40) == 0) return stop_waiting(task), true;  // times out
    return pick(2) == 0 || look(task);
  }

  /// Makes all tasks search until none of them reports a deadlock. Returns false if a false deadlock was reported.
  bool settle() {
    for (int quiet = 0; quiet < 4; ++quiet) {
      for (Task& task : agents_) {
        const int told = told_;
        if (task.waits_for >= 0 && locks_[task.waits_for].holder >= 0 && !look(task)) return false;
        if (told_ != told) quiet = -1;
      }
    }
    return true;
  }
  bool has_deadlock() {
    for (std::size_t i = 0; i < kAgents; ++i)
      if (cycle_of(i) > 1) return true;
    return false;
  }
  int told() const { return told_; }

 private:
  static constexpr std::size_t kAgents = 8;
  static constexpr std::size_t kLocks = 6;
  struct Task {
    int waits_for = -1;
    TrackedWait tracked;
  };
  struct Lock {
    int holder = -1;  // the task that will release the lock
    std::uint64_t sequence = 0;
    int named = -1;  // the task that counts as the holder
  };

  std::size_t pick(std::size_t n) { return random_() % n; }
  int index(const Task& task) const { return static_cast<int>(&task - agents_.data()); }

  void act(Task& task) {
    Lock& lock = locks_[pick(kLocks)];
    if (lock.holder == index(task)) {
      if (pick(3) == 0) return change_hands(task, lock);
      lock.holder = -1;
    } else if (lock.holder < 0) {
      take(task, lock);
    } else {
      task.waits_for = static_cast<int>(&lock - locks_.data());
      task.tracked.begin(static_cast<Token>(index(task)) + 1, 7, std::to_string(task.waits_for));
    }
  }
  void take(Task& task, Lock& lock) {
    stop_waiting(task);
    lock = {index(task), ++sequence_, pick(8) == 0 ? -1 : index(task)};
  }
  /// Makes the task adopt a lock that it was given, or give its own lock away, perhaps to a waiting task.
  void change_hands(const Task& task, Lock& lock) {
    if (lock.named < 0) {
      lock.named = index(task);
    } else {
      lock.named = -1;
      lock.holder = static_cast<int>(pick(kAgents));
    }
  }
  void stop_waiting(Task& task) {
    task.tracked.end();
    task.waits_for = -1;
  }

  bool look(Task& task) {
    const auto blocker = [&] {
      const Lock& lock = locks_[task.waits_for];
      if (lock.holder < 0) return Blocker{};
      const Token token = static_cast<Token>(std::max(lock.named, 0)) + 1;
      return Blocker{token, lock.named < 0 ? kNoTask : 7, lock.sequence, 0};
    };
    if (!task.tracked.look(table_, all_live, blocker)) return true;
    if (!task.tracked.settle(table_, all_live, blocker)) return true;
    ++told_;
    const bool right = cycle_of(index(task)) == task.tracked.keys().size();
    stop_waiting(task);
    for (Lock& lock : locks_)
      if (lock.holder == index(task)) lock.holder = -1;
    return right;
  }

  /// Returns the length of this task's cycle, or 0 if the task is not in a cycle whose holders are all known.
  std::size_t cycle_of(std::size_t first) const {
    std::size_t at = first;
    for (std::size_t length = 1; length <= kAgents; ++length) {
      if (agents_[at].waits_for < 0) return 0;
      const Lock& lock = locks_[agents_[at].waits_for];
      if (lock.holder < 0 || lock.named != lock.holder) return 0;
      at = static_cast<std::size_t>(lock.holder);
      if (at == first) return length;
    }
    return 0;
  }

  WaitTable table_;
  std::mt19937_64 random_;
  std::vector<Task> agents_{kAgents};
  std::vector<Lock> locks_{kLocks};
  std::uint64_t sequence_ = 0;
  int told_ = 0;
};

TEST_F(DeadlockTest, every_report_is_true_and_every_deadlock_is_reported) {
  const auto seed = std::random_device()();
  SCOPED_TRACE(seed);
  int told = 0;
  for (std::uint64_t i = 0; i < 300; ++i) {
    clear();
    Play play(table, seed + i);
    for (int step = 0; step < 1000; ++step) ASSERT_TRUE(play.step()) << "reported a false deadlock, round " << i;
    ASSERT_TRUE(play.settle()) << "reported a false deadlock, round " << i;
    ASSERT_FALSE(play.has_deadlock()) << "missed a deadlock, round " << i;
    told += play.told();
  }
  EXPECT_GT(told, 300);
}

}  // namespace
}  // namespace holdfast
