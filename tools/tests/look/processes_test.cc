// Tests processes that start or end after the command has read the processes and before it reads the locks.
#include "inspect/processes.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "inspect/dictionaries.h"
#include "inspect/locks.h"
#include "support/started.h"

namespace holdfast::inspect {
namespace {

/// A child that holds a lock until it is killed.
class Holder : public test::Started {
 public:
  Holder(holdfast_dict* dict, const std::string& key)
      : Started("true", [&](test::Channel& parent) {
          holdfast_lease lease{};
          const bool holds = holdfast_lock_try(dict, key.data(), key.size(), 0, 0, 0, &lease) == HOLDFAST_OK;
          parent.say(holds ? "true" : "false");
          parent.hear();
          return 1;
        }) {}
  std::uint32_t pid() const { return static_cast<std::uint32_t>(Child::pid()); }
};

/// All tests share one world, because a process can enter only one world.
class ProcessesThatComeAndGo : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_.emplace();
    const holdfast_options options{1U << 20, HOLDFAST_MUTEX_FUTEX, HOLDFAST_TEMPORARY, 0, nullptr};
    ASSERT_EQ(HOLDFAST_OK, holdfast_open("a", 1, &options, &dict_)) << holdfast_error();
  }
  static void TearDownTestSuite() { folder_.reset(); }

  static Lock look(const std::string& key) { return look_at_lock(dict_, "a", key); }

  static inline std::optional<test::ScratchDirectory> folder_;
  static inline holdfast_dict* dict_ = nullptr;
};

TEST_F(ProcessesThatComeAndGo, AProcessThatEnteredLaterIsKnownAndAlive) {
  auto processes = Processes::read();
  ASSERT_TRUE(processes);
  const Holder holder(dict_, "key");
  std::vector<Lock> locks{look("key")};
  ASSERT_EQ(1U, locks.front().holders.size());
  const Process& process = processes->of(locks.front().holders.front().owner);
  EXPECT_EQ(holder.pid(), process.pid_here);
  EXPECT_EQ(Life::alive, process.life);
  EXPECT_NE(nullptr, living_holder(locks.front(), *processes));
  // The same is true for waiters.
  locks.front().waiters.push_back({.owner = process.token, .waited = 1, .want = 1, .watches = 0});
  locks.front().waiter_count = 1;
  drop_dead_waiters(locks, *processes);
  EXPECT_EQ(1U, locks.front().waiter_count);
}

TEST_F(ProcessesThatComeAndGo, AnEndedProcessIsDeadEvenIfAnotherHasItsSlot) {
  Holder first(dict_, "one");
  const Lock lock = look("one");
  ASSERT_EQ(1U, lock.holders.size());
  first.kill_and_wait();
  auto before = Processes::read();
  const Holder second(dict_, "two");
  auto after = Processes::read();
  ASSERT_TRUE(before && after);
  for (Processes* const processes : {&*before, &*after}) {
    EXPECT_EQ(Life::dead, processes->of(lock.holders.front().owner).life);
    EXPECT_EQ(nullptr, living_holder(lock, *processes));
    EXPECT_EQ(Life::alive, processes->of(look("two").holders.front().owner).life);
  }
}

TEST_F(ProcessesThatComeAndGo, AHolderUsesTheDictionaryEvenWithoutMappingIt) {
  const Holder holder(dict_, "key");
  auto processes = Processes::read();
  ASSERT_TRUE(processes);
  Dictionary dictionary = look_at(folder_->path(), "a", Read::status);
  find_lockers(dictionary, holdfast_now() + 60);
  ASSERT_TRUE(dictionary.all_lockers);
  const Openers none = Openers::read(folder_->path(), {}, 60);
  const Users users = users_of(dictionary, none, *processes);
  ASSERT_EQ(1U, users.seen.size());
  EXPECT_EQ(holder.pid(), users.seen.front().pid);
  EXPECT_TRUE(users.complete);
  dictionary.lockers.clear();
  find_lockers(dictionary, holdfast_now() - 1);
  EXPECT_FALSE(users_of(dictionary, none, *processes).complete);
}

}  // namespace
}  // namespace holdfast::inspect
