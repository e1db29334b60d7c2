// Tests the cost of a release: one wake-up if any process waits, and no system call if none does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <vector>

#include "death/contender.h"
#include "lock/request.h"
#include "world/process_table.h"
#include "world/world.h"

namespace holdfast::test {
namespace {

class WakesTest : public DeathTest {};

INSTANTIATE_TEST_SUITE_P(, WakesTest, ::testing::ValuesIn(kExclusiveWays), name_of_way);

/// Returns the number of posts to the mailboxes of all live processes (sync/mailbox.h). Each post is a wake-up.
std::uint64_t posts() {
  World& world = **World::current();
  std::uint64_t sum = 0;
  for (const Token token : world.living()) {
    const ProcessSlot* const slot = world.slot(token);
    if (slot != nullptr) sum += slot->signal.load() >> 1;
  }
  return sum;
}

/// Returns whether the process has gone to sleep on its mailbox since the last post to it.
bool is_asleep(pid_t pid) {
  constexpr std::uint32_t kAsleep = 1;
  World& world = **World::current();
  for (const Token token : world.living()) {
    const ProcessSlot* const slot = world.slot(token);
    if (slot != nullptr && slot->pid.load() == static_cast<std::uint32_t>(pid))
      return (slot->signal.load() & kAsleep) != 0;
  }
  return false;
}

/// Runs one event loop with many waiters for one key. Each waiter wants the key `times` times. Returns the number of
/// grants.
int run_crowd(const Way& way, Dict& dict, Channel& channel, std::size_t waiters, int times) {
  const OwnedParker parker(holdfast_parker_new());
  struct One {
    std::uint32_t waiter;
    int left;
    double again;  // when the loop next polls without a wake-up
  };
  std::vector<One> crowd;
  int grants = 0;
  const auto look = [&](One& one) {
    while (one.left > 0) {
      holdfast_lease lease{};
      double sleep = 0;
      const int code = way.wait(dict, "k", 0, parker.get(), one.waiter, &lease, &sleep);
      one.again = now() + sleep;
      if (code != HOLDFAST_OK) return;
      sleep_ms(1);
      if (way.release(dict, "k", &lease) == HOLDFAST_OK) ++grants;
      --one.left;
    }
  };
  for (std::size_t i = 0; i < waiters; ++i) {
    crowd.push_back({holdfast_waiter_open(parker.get()), times, 0});
    look(crowd.back());
  }
  channel.say("queued");
  const double end = now() + kLong;
  while (std::any_of(crowd.begin(), crowd.end(), [](const One& one) { return one.left > 0; }) && now() < end) {
    std::uint32_t woken[64];
    const int count = holdfast_parker_sleep(parker.get(), 0.01, woken, 64);
    for (One& one : crowd)
      if (std::find(woken, woken + std::max(count, 0), one.waiter) != woken + std::max(count, 0) || now() >= one.again)
        look(one);
  }
  return grants;
}

TEST_P(WakesTest, a_release_wakes_only_one_of_a_hundred_waiters) {
  constexpr int kProcesses = 4;
  constexpr std::size_t kWaiters = 25;  // per loop
  constexpr int kTimes = 5;
  constexpr int kGrants = kProcesses * static_cast<int>(kWaiters) * kTimes;
  Contender first(GetParam(), dict);
  ASSERT_EQ(first.take(), HOLDFAST_OK);
  std::vector<std::unique_ptr<Child>> crowds;
  for (int i = 0; i < kProcesses; ++i) {
    crowds.push_back(std::make_unique<Child>([this](Channel& channel) {
      channel.say(std::to_string(run_crowd(GetParam(), dict, channel, kWaiters, kTimes)));
      channel.hear();
      return 0;
    }));
    ASSERT_EQ(crowds.back()->hear(), "queued");
  }
  EXPECT_EQ(waiters(), kProcesses * kWaiters);
  const std::uint64_t before = posts();
  const std::uint64_t counted_before = dict.stats().lock_wakes;
  const double start = now();
  EXPECT_EQ(first.release(), HOLDFAST_OK);
  for (const auto& crowd : crowds) EXPECT_EQ(crowd->hear(), std::to_string(kTimes * static_cast<int>(kWaiters)));
  const double per_release = static_cast<double>(posts() - before) / (kGrants + 1);
  const double counted = static_cast<double>(dict.stats().lock_wakes - counted_before) / (kGrants + 1);
  RecordProperty("wakes_per_release", std::to_string(per_release));
  // A waiter that is delayed for a long time does not claim the key in time. Then the next waiter is woken, or notices
  // the delay itself. This is rare, except on a busy machine or with a sanitizer.
#ifdef HOLDFAST_SANITIZED
  constexpr double kSeldom = 0.5;
#else
  constexpr double kSeldom = 0.05;
#endif
  const double held_up = (now() - start) / kClaimSeconds;
  const double slack = kSeldom + 2 * held_up / (kGrants + 1);
  EXPECT_LE(per_release, 1 + slack);
  EXPECT_LE(counted, 1 + slack);
  // If the machine stalls, some waiters poll before the wake-up reaches them.
  constexpr double kSeen = 0.5;
  EXPECT_GE(counted, kSeen);
  EXPECT_GE(per_release, kSeen) << "most waiters polled before they were woken, so the test shows nothing";
  EXPECT_EQ(waiters(), 0U);
}

// --- system calls ---

/// The number of system calls of each kind that a function makes. If the calls cannot be recorded, `problem` is not
/// empty.
struct Calls {
  std::vector<std::uint64_t> numbers;
  std::string problem;

  bool has(std::uint64_t number) const { return std::count(numbers.begin(), numbers.end(), number) != 0; }
};

/// Runs `body` in a forked process, and records its system calls from the first mark to the second.
Calls calls_of(const std::function<void()>& prepare, const std::function<void()>& body) {
  constexpr std::uint64_t kMark = SYS_getppid;
  const pid_t child = ::fork();
  if (child == 0) {
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(200);
    prepare();
    ::raise(SIGSTOP);
    ::syscall(kMark);
    body();
    ::syscall(kMark);
    ::_exit(0);
  }
  Calls calls;
  int marks = 0;
  int status = 0;
  const auto next_stop = [&] {
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFSTOPPED(status);
  };
  if (!next_stop() || WSTOPSIG(status) != SIGSTOP) {
    calls.problem = "the process did not begin; ptrace may not be possible";
    return calls;
  }
  ::ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD);
  while (::ptrace(PTRACE_SYSCALL, child, nullptr, nullptr) == 0 && next_stop()) {
    if (WSTOPSIG(status) != (SIGTRAP | 0x80)) continue;
    __ptrace_syscall_info info{};
    ::ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof info, &info);
    if (info.op != PTRACE_SYSCALL_INFO_ENTRY) continue;
    if (info.entry.nr == kMark)
      ++marks;
    else if (marks == 1)
      calls.numbers.push_back(info.entry.nr);
  }
  if (marks != 2) calls.problem = "the process ended between the marks";
  return calls;
}

TEST_P(WakesTest, a_release_makes_a_system_call_only_if_a_waiter_sleeps) {
  std::unique_ptr<Contender> mine;
  const auto prepare = [&] {
    mine = std::make_unique<Contender>(GetParam(), dict);
    for (int i = 0; i < 2; ++i) {
      mine->take();
      mine->release();
    }
  };
  int code = -1;
  const Calls alone = calls_of(prepare, [&] {
    code = mine->take(30);
    if (code == HOLDFAST_OK) code = mine->release();
    if (code != HOLDFAST_OK) ::_exit(1);
  });
  ASSERT_EQ(alone.problem, "");
  EXPECT_THAT(alone.numbers, ::testing::IsEmpty());

  // Checks that this method can detect a wake-up.
  std::unique_ptr<Child> sleeper;
  const Calls watched = calls_of(
      [&] {
        mine = std::make_unique<Contender>(GetParam(), dict);
        mine->take();
        sleeper = waiter();
        sleeper->hear();
        eventually([&] { return is_asleep(sleeper->pid()); });
      },
      [&] { code = mine->release(); });
  ASSERT_EQ(watched.problem, "");
  EXPECT_TRUE(watched.has(SYS_futex)) << watched.numbers.size() << " system calls";
}

}  // namespace
}  // namespace holdfast::test
