// Tests every way in which a holder can end. Whatever happens to its pid, its parent and its children, the next waiter
// must get the key when the holder is gone, and not earlier.
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>

#include "death/contender.h"
#include "sync/mailbox.h"
#include "world/world.h"

extern char** environ;  // NOLINT(readability-redundant-declaration): POSIX requires programs to declare it

namespace holdfast::test {
namespace {

class OwnerTest : public DeathTest {
 protected:
  /// In a child: takes the key, reports the outcome, and runs `rest` when the next line arrives.
  template <class Rest>
  std::unique_ptr<Child> holder_that(Rest rest) {
    return std::make_unique<Child>([this, rest](Channel& channel) {
      Contender mine(GetParam(), dict);
      channel.say(outcome(mine.take()));
      channel.hear();
      return rest(channel, mine);
    });
  }
};

INSTANTIATE_TEST_SUITE_P(, OwnerTest, ::testing::ValuesIn(kExclusiveWays), name_of_way);

/// A process that no test waits for or kills ends by itself after this time.
constexpr unsigned kOrphanSeconds = 60;

[[noreturn]] void execute_another_program() {
  ::execl("/bin/sleep", "sleep", "60", nullptr);
  ::_exit(127);
}

TEST_P(OwnerTest, a_process_that_executes_another_program_holds_nothing) {
  const auto first = holder_that([](Channel&, Contender&) -> int { execute_another_program(); });
  ASSERT_EQ(first->hear(), kOk);
  const auto next = waiter();
  ASSERT_EQ(next->hear(), kLocked);
  first->say("exec");
  EXPECT_EQ(next->hear(), kOk);
  EXPECT_EQ(::kill(first->pid(), 0), 0);
  EXPECT_FALSE(is_zombie(first->pid())) << "the process continues as another program";
  EXPECT_EQ(next->ask("release"), kOk);
}

TEST_P(OwnerTest, a_holder_that_nobody_reaps_counts_as_dead) {
  const auto first = holder();
  ASSERT_EQ(first->hear(), kOk);
  const auto next = waiter();
  ASSERT_EQ(next->hear(), kLocked);
  first->kill();
  EXPECT_EQ(next->hear(), kOk);
  // The process loses its locks a moment before it becomes a zombie.
  EXPECT_TRUE(eventually([&] { return is_zombie(first->pid()); }));
  EXPECT_EQ(next->ask("release"), kOk);
  Contender late(GetParam(), dict);
  EXPECT_EQ(late.take(), HOLDFAST_OK);
  EXPECT_TRUE(is_zombie(first->pid()));
}

TEST_P(OwnerTest, the_way_a_holder_ends_does_not_matter) {
  const std::pair<const char*, void (*)()> kEnds[] = {
      {"returns from main", [] {}},
      {"exits at once", [] { std::_Exit(3); }},
      {"is terminated", [] { ::raise(SIGTERM); }},
      {"is killed", [] { ::raise(SIGKILL); }},
  };
  for (const auto& [how, end] : kEnds) {
    const auto first = holder_that([end = end](Channel&, Contender&) {
      end();
      return 0;
    });
    ASSERT_EQ(first->hear(), kOk) << how;
    const auto next = waiter();
    ASSERT_EQ(next->hear(), kLocked) << how;
    first->say("end");
    EXPECT_EQ(next->hear(), kOk) << how;
    EXPECT_EQ(next->ask("release"), kOk) << how;
  }
}

TEST_P(OwnerTest, a_death_is_detected_even_if_wake_ups_for_others_interrupt_each_sleep) {
  const auto first = holder();
  ASSERT_EQ(first->hear(), kOk);
  Child next([this](Channel& channel) {
    Contender mine(GetParam(), dict);
    const int queued = mine.queue();
    channel.say(std::to_string((*World::current())->token()));
    channel.hear();
    // The process makes no call except the sleep, so only the sleep itself can detect the death.
    channel.say(queued == HOLDFAST_LOCKED && mine.sleep(kLong) ? "noticed" : "still asleep");
    channel.say(outcome(mine.wait(kLong)));
    return mine.release() == HOLDFAST_OK ? 0 : 1;
  });
  const Token busy = std::stoull(next.hear());
  std::atomic<bool> over{false};
  std::thread others([&] {
    constexpr std::uint32_t kNobodysNumber = 99;
    while (!over) {
      post(**World::current(), busy, kNobodysNumber);
      sleep_ms(1);
    }
  });
  next.say("sleep");
  sleep_ms(5);
  first->kill();
  EXPECT_EQ(next.hear(), "noticed");
  EXPECT_EQ(next.hear(), kOk);
  over = true;
  others.join();
}

TEST_P(OwnerTest, a_process_lives_while_any_of_its_threads_does) {
  const auto first = std::make_unique<Child>([this](Channel& channel) -> int {
    std::thread holds([this, &channel] {
      Contender mine(GetParam(), dict);
      channel.say(outcome(mine.take()));
      channel.hear();
      channel.say(outcome(mine.release()));
      channel.hear();
      ::_exit(0);
    });
    ::syscall(SYS_exit, 0);  // ends only this thread, the first of the process
    std::abort();
  });
  ASSERT_EQ(first->hear(), kOk);
  EXPECT_TRUE(eventually([&] { return is_zombie(first->pid()); }))
      << "the end of the main thread must look like the end of the process";
  const auto impatient = waiter(0.2);
  EXPECT_EQ(impatient->hear(), kLocked);
  EXPECT_EQ(impatient->hear(), kLocked);
  const auto next = waiter();
  EXPECT_EQ(next->hear(), kLocked);
  EXPECT_EQ(first->ask("release"), kOk);
  EXPECT_EQ(next->hear(), kOk);
  EXPECT_EQ(next->ask("release"), kOk);
}

// --- children of the holder ---

TEST_P(OwnerTest, a_forked_child_neither_holds_nor_ends_its_parents_lock) {
  Contender mine(GetParam(), dict);
  ASSERT_EQ(mine.take(), HOLDFAST_OK);
  for (const bool killed : {false, true}) {
    Child child([&](Channel& channel) {
      channel.say(outcome(mine.renew(100)));
      channel.say(outcome(mine.release()));
      Contender own(GetParam(), dict);
      channel.say(outcome(own.take()));
      if (killed) ::raise(SIGKILL);
      return 0;
    });
    EXPECT_EQ(child.hear(), kNotOwner) << "renews";
    EXPECT_EQ(child.hear(), kNotOwner) << "releases";
    EXPECT_EQ(child.hear(), kLocked) << "takes";
    EXPECT_EQ(child.wait(), killed ? 128 + SIGKILL : 0);
    const auto other = waiter(0.1);
    EXPECT_EQ(other->hear(), kLocked);
    EXPECT_EQ(other->hear(), kLocked);
  }
  EXPECT_EQ(mine.renew(100), HOLDFAST_OK);
  EXPECT_EQ(mine.release(), HOLDFAST_OK);
}

TEST_P(OwnerTest, a_forked_child_gets_its_parents_lock_when_the_parent_releases_it_or_dies) {
  for (const bool dies : {false, true}) {
    const auto parent = holder_that([this](Channel& channel, Contender& mine) {
      if (::fork() == 0) {
        ::alarm(kOrphanSeconds);
        Contender own(GetParam(), dict);
        channel.say(outcome(own.queue()));
        channel.say(outcome(own.wait(kLong)));
        channel.say(outcome(own.release()));
        ::_exit(0);
      }
      channel.hear();
      mine.release();
      channel.hear();
      return 0;
    });
    ASSERT_EQ(parent->hear(), kOk);
    ASSERT_EQ(parent->ask("fork"), kLocked);
    if (dies)
      parent->kill();
    else
      parent->say("release");
    EXPECT_EQ(parent->hear(), kOk) << "the child does not take the lock; parent dies: " << dies;
    EXPECT_EQ(parent->hear(), kOk) << "the child does not release the lock; parent dies: " << dies;
  }
}

TEST_P(OwnerTest, the_lock_of_a_dead_process_is_free_while_its_children_live) {
  const auto parent = holder_that([](Channel& channel, Contender&) {
    const pid_t forked = ::fork();
    if (forked == 0) {
      ::alarm(kOrphanSeconds);
      for (;;) ::pause();
    }
    const pid_t becomes = ::fork();
    if (becomes == 0) execute_another_program();
    pid_t spawned = -1;
    const char* const arguments[] = {"sleep", "60", nullptr};
    ::posix_spawn(&spawned, "/bin/sleep", nullptr, nullptr, const_cast<char**>(arguments), environ);
    channel.say(std::to_string(forked) + " " + std::to_string(becomes) + " " + std::to_string(spawned));
    channel.hear();
    return 0;
  });
  ASSERT_EQ(parent->hear(), kOk);
  const std::string pids = parent->ask("be a parent");
  int children[3] = {};
  ASSERT_EQ(std::sscanf(pids.c_str(), "%d %d %d", &children[0], &children[1], &children[2]), 3) << pids;
  const auto impatient = waiter(0.1);
  EXPECT_EQ(impatient->hear(), kLocked);
  EXPECT_EQ(impatient->hear(), kLocked) << "the key became free although the parent is alive";
  const auto next = waiter();
  EXPECT_EQ(next->hear(), kLocked);
  parent->kill();
  EXPECT_EQ(next->hear(), kOk);
  for (const int child : children) {
    EXPECT_EQ(::kill(child, 0), 0) << "the child has not outlived its parent";
    ::kill(child, SIGKILL);
  }
  EXPECT_EQ(next->ask("release"), kOk);
}

}  // namespace
}  // namespace holdfast::test
