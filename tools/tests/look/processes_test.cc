// Processes that come and go between a look at them and a look at what they hold.
#include "inspect/processes.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "inspect/dictionaries.h"
#include "inspect/locks.h"

namespace holdfast::inspect {
namespace {

/// A child that holds a lock until it is ended.
class Holder {
 public:
  Holder(holdfast_dict* dict, const std::string& key) {
    std::array<int, 2> ends{};
    if (::pipe(ends.data()) != 0) return;
    pid_ = ::fork();
    if (pid_ == 0) {
      holdfast_lease lease{};
      const bool taken = holdfast_lock_try(dict, key.data(), key.size(), 0, 0, 0, &lease) == HOLDFAST_OK;
      if (::write(ends[1], taken ? "y" : "n", 1) == 1) ::pause();
      ::_exit(1);
    }
    char said = 'n';
    ::close(ends[1]);
    holds_ = ::read(ends[0], &said, 1) == 1 && said == 'y';
    ::close(ends[0]);
  }
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;
  ~Holder() { end(); }

  void end() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  bool holds() const noexcept { return holds_; }
  std::uint32_t pid() const noexcept { return static_cast<std::uint32_t>(pid_); }

 private:
  pid_t pid_ = 0;
  bool holds_ = false;
};

/// In one world, as a process enters only one.
class ProcessesThatComeAndGo : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    ASSERT_NE(nullptr, ::mkdtemp(folder_.data()));
    ::setenv("HOLDFAST_DIR", folder_.c_str(), 1);
    const holdfast_options options{1U << 20, HOLDFAST_MUTEX_FUTEX, HOLDFAST_TEMPORARY, 0, nullptr};
    ASSERT_EQ(HOLDFAST_OK, holdfast_open("a", 1, &options, &dict_)) << holdfast_error();
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(folder_); }

  static Lock look(const std::string& key) { return look_at_lock(dict_, "a", key); }

  static inline std::string folder_ = "/dev/shm/holdfast-test.XXXXXX";
  static inline holdfast_dict* dict_ = nullptr;
};

TEST_F(ProcessesThatComeAndGo, OneThatHasEnteredSinceItsWorldWasReadIsKnownAndLives) {
  auto processes = Processes::read();
  ASSERT_TRUE(processes);
  const Holder holder(dict_, "key");
  ASSERT_TRUE(holder.holds());
  std::vector<Lock> locks{look("key")};
  ASSERT_EQ(1U, locks.front().holders.size());
  const Process& process = processes->of(locks.front().holders.front().owner);
  EXPECT_EQ(holder.pid(), process.pid_here);
  EXPECT_EQ(Life::alive, process.life);
  EXPECT_NE(nullptr, living_holder(locks.front(), *processes));
  // The same for those that wait.
  locks.front().waiters.push_back({.owner = process.token, .waited = 1, .want = 1, .watches = 0});
  locks.front().waiter_count = 1;
  drop_dead_waiters(locks, *processes);
  EXPECT_EQ(1U, locks.front().waiter_count);
}

TEST_F(ProcessesThatComeAndGo, OneThatHasEndedIsDeadAlsoWhereAnotherHasItsPlace) {
  Holder first(dict_, "one");
  ASSERT_TRUE(first.holds());
  const Lock lock = look("one");
  ASSERT_EQ(1U, lock.holders.size());
  first.end();
  auto before = Processes::read();
  const Holder second(dict_, "two");
  ASSERT_TRUE(second.holds());
  auto after = Processes::read();
  ASSERT_TRUE(before && after);
  for (Processes* const processes : {&*before, &*after}) {
    EXPECT_EQ(Life::dead, processes->of(lock.holders.front().owner).life);
    EXPECT_EQ(nullptr, living_holder(lock, *processes));
    EXPECT_EQ(Life::alive, processes->of(look("two").holders.front().owner).life);
  }
}

TEST_F(ProcessesThatComeAndGo, AHolderThatHasNothingMappedUsesTheDictionary) {
  const Holder holder(dict_, "key");
  ASSERT_TRUE(holder.holds());
  auto processes = Processes::read();
  ASSERT_TRUE(processes);
  Dictionary dictionary = look_at(folder_, "a", Read::status);
  find_lockers(dictionary, holdfast_now() + 60);
  ASSERT_TRUE(dictionary.all_lockers);
  const Openers none = Openers::read(folder_, {}, 60);
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
