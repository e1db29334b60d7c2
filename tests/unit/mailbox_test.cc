#include "sync/mailbox.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/time.h>

#include <algorithm>
#include <array>
#include <string>
#include <thread>
#include <vector>

#include "platform/platform.h"
#include "support/refused_call.h"
#include "support/started.h"
#include "support/world.h"
#include "world/process_table.h"
#include "world/world.h"

namespace holdfast::test {
namespace {

/// Waits for mail as every user of a mailbox does, and returns the numbers in ascending order.
std::string next_mail(World& world) {
  std::array<std::uint32_t, kMailboxEntries> waiters;
  for (;;) {
    const std::uint32_t seen = mailbox_value(world);
    const Mail mail = collect_mail(world, waiters);
    if (mail.count == 0 && !mail.all) {
      sleep_on_mailbox(world, seen, monotonic_ns() + kLongNs);
      continue;
    }
    std::sort(waiters.begin(), waiters.begin() + mail.count);
    std::string text = mail.all ? "all" : "some";
    for (std::size_t i = 0; i < mail.count; ++i) text += " " + std::to_string(waiters[i]);
    return text;
  }
}

/// A process that reports its token and then, on request, the mail that it gets.
class Listener : public Child {
 public:
  Listener()
      : Child([](Channel& parent) {
          World& world = enter();
          parent.say(std::to_string(world.token()));
          while (parent.hear() == "mail") parent.say(next_mail(world));
          return 0;
        }) {}
  const std::string token = hear();
};

class MailboxTest : public testing::Test {
 protected:
  /// Posts to these waiters from a new process.
  static void post_to(const std::string& token, const std::vector<std::uint32_t>& waiters) {
    in_process([&] {
      World& world = enter();
      for (const std::uint32_t waiter : waiters) post(world, std::stoull(token), waiter);
    });
  }
  static void in_world(const std::function<void(World&)>& body) {
    in_process([&body] { body(enter()); });
  }

  ScratchDirectory directory_;
};

TEST_F(MailboxTest, a_post_reaches_a_sleeping_process) {
  Listener listener;
  listener.say("mail");
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  post_to(listener.token, {7});
  EXPECT_EQ("some 7", listener.hear());
}

TEST_F(MailboxTest, a_post_before_the_sleep_is_not_lost) {
  Listener listener;
  post_to(listener.token, {1, 2, 3});
  EXPECT_EQ("some 1 2 3", listener.ask("mail"));
}

TEST_F(MailboxTest, a_post_between_reading_the_mailbox_and_sleeping_ends_the_sleep_immediately) {
  in_world([](World& world) {
    const std::uint32_t seen = mailbox_value(world);
    post(world, world.token(), 9);
    sleep_on_mailbox(world, seen, monotonic_ns() + kLongNs);  // otherwise, the time limit ends the test
    EXPECT_EQ("some 9", next_mail(world));
  });
}

TEST_F(MailboxTest, a_waiter_posted_twice_is_reported_once) {
  in_world([](World& world) {
    for (int i = 0; i < 200; ++i) post(world, world.token(), 65);
    EXPECT_EQ("some 65", next_mail(world));
  });
}

TEST_F(MailboxTest, a_full_mailbox_means_that_any_waiter_may_have_mail) {
  in_world([](World& world) {
    for (std::uint32_t waiter = 1; waiter <= kMailboxEntries; ++waiter) post(world, world.token(), waiter);
    EXPECT_TRUE(next_mail(world).starts_with("some "));
    for (std::uint32_t waiter = 1; waiter <= kMailboxEntries + 1; ++waiter) post(world, world.token(), waiter);
    EXPECT_TRUE(next_mail(world).starts_with("all "));
    post(world, world.token(), 5);
    EXPECT_EQ("some 5", next_mail(world));
  });
}

TEST_F(MailboxTest, mail_that_does_not_fit_stays_for_the_next_call) {
  in_world([](World& world) {
    for (std::uint32_t waiter = 1; waiter <= 5; ++waiter) post(world, world.token(), waiter);
    std::array<std::uint32_t, 2> room;
    std::size_t total = 0;
    for (int i = 0; i < 4; ++i) total += collect_mail(world, room).count;
    EXPECT_EQ(total, 5U);
  });
}

TEST_F(MailboxTest, posting_to_a_dead_process_or_to_nobody_is_harmless) {
  Listener dead;
  dead.kill_and_wait();
  for (const std::string& token :
       {dead.token, std::string("0"), std::string("18446744073709551615"), std::to_string(make_token(1000, 12345))})
    post_to(token, {7});
}

TEST_F(MailboxTest, a_sleep_ends_at_its_deadline) {
  in_world([](World& world) {
    const std::uint64_t deadline = monotonic_ns() + 20 * kNsPerMs;
    sleep_on_mailbox(world, mailbox_value(world), deadline);
    EXPECT_GE(monotonic_ns(), deadline);
  });
}

TEST_F(MailboxTest, a_signal_ends_the_sleep) {
  in_world([](World& world) {
    struct sigaction action {};
    action.sa_handler = [](int) {};
    ::sigaction(SIGALRM, &action, nullptr);
    const itimerval alarms{.it_interval = {0, 20'000}, .it_value = {0, 20'000}};
    ::setitimer(ITIMER_REAL, &alarms, nullptr);
    const std::uint64_t start = monotonic_ns();
    sleep_on_mailbox(world, mailbox_value(world), start + kLongNs);
    EXPECT_LT(monotonic_ns(), start + kLongNs);
  });
}

TEST_F(MailboxTest, every_thread_that_sleeps_on_the_mailbox_is_woken) {
  in_world([](World& world) {
    const std::uint32_t seen = mailbox_value(world);
    const std::uint64_t end = monotonic_ns() + kLongNs;
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) threads.emplace_back([&] { sleep_on_mailbox(world, seen, end); });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    post(world, world.token(), 1);
    for (auto& thread : threads) thread.join();
    EXPECT_LT(monotonic_ns(), end);
  });
}

/// Each post answers the previous one, so a single lost wake-up would stop both processes forever.
TEST_F(MailboxTest, two_processes_posting_to_each_other_never_lose_a_wake_up) {
  constexpr std::uint32_t kRounds = 20'000;
  const auto play = [](Channel& parent) {
    World& world = enter();
    parent.say(std::to_string(world.token()));
    const Token peer = std::stoull(parent.hear());
    const bool serves = parent.hear() == "serve";
    std::array<std::uint32_t, kMailboxEntries> waiters;
    std::uint32_t expected = 1;
    if (serves) post(world, peer, 1);
    while (expected <= kRounds) {
      const std::uint32_t seen = mailbox_value(world);
      const Mail mail = collect_mail(world, waiters);
      if (mail.all) return 1;
      if (mail.count == 0) {
        sleep_on_mailbox(world, seen, monotonic_ns() + kLongNs);
        continue;
      }
      if (mail.count != 1 || waiters[0] != expected) return 2;
      if (!serves || expected < kRounds) post(world, peer, serves ? expected + 1 : expected);
      ++expected;
    }
    parent.say("done");
    return 0;
  };
  Child server(play);
  Child returner(play);
  const std::string server_token = server.hear();
  const std::string returner_token = returner.hear();
  server.say(returner_token);
  returner.say(server_token);
  returner.say("return");
  server.say("serve");
  EXPECT_EQ("done", returner.hear());
  EXPECT_EQ("done", server.hear());
}

TEST_F(MailboxTest, many_concurrent_posters_lose_nothing) {
  constexpr int kPosters = 4;
  Child listener([](Channel& parent) {
    World& world = enter();
    parent.say(std::to_string(world.token()));
    std::array<std::uint32_t, kMailboxEntries> waiters;
    // Each poster posts the same number until this number arrives, and then its next number. Poster r begins with r +
    // 1. Each number must arrive before the poster's next number is posted.
    std::array<std::uint32_t, kPosters> arrived{};
    constexpr std::uint32_t kEach = 2'000;
    while (std::any_of(arrived.begin(), arrived.end(), [](std::uint32_t n) { return n < kEach; })) {
      const std::uint32_t seen = mailbox_value(world);
      const Mail mail = collect_mail(world, waiters);
      for (std::size_t i = 0; i < mail.count; ++i) ++arrived[(waiters[i] - 1) % kPosters];
      if (mail.all) return 1;
      if (mail.count == 0) sleep_on_mailbox(world, seen, monotonic_ns() + kLongNs);
    }
    parent.say("all arrived");
    return 0;
  });
  const std::string token = listener.hear();
  std::vector<std::unique_ptr<Child>> posters;
  for (std::uint32_t r = 0; r < kPosters; ++r) {
    posters.push_back(std::make_unique<Child>([&token, r](Channel&) {
      World& world = enter();
      const Token receiver = std::stoull(token);
      ProcessSlot* const slot = world.slot(receiver);
      // At most 8 numbers per poster are outstanding, so the mailbox never overflows.
      for (std::uint32_t i = 0; i < 2'000; ++i) {
        const std::uint32_t waiter = r + 1 + kPosters * (i % 8);
        const auto under_way = [&] {
          return std::any_of(slot->mail.begin(), slot->mail.end(), [&](auto& entry) { return entry == waiter; });
        };
        while (under_way()) platform::yield();
        post(world, receiver, waiter);
      }
      return 0;
    }));
  }
  EXPECT_EQ("all arrived", listener.hear());
  for (auto& poster : posters) EXPECT_EQ(0, poster->wait());
}

TEST_F(MailboxTest, a_process_without_identity_does_not_spin) {
  in_world([](World& world) {
    // The child cannot enter the world, because it cannot open any more descriptors.
    in_process([&world] {
      const NoDescriptors none;
      const std::uint64_t before = monotonic_ns();
      sleep_on_mailbox(world, mailbox_value(world), before + kLongNs);
      EXPECT_GE(monotonic_ns() - before, kNsPerMs);
      EXPECT_EQ(world.token(), kNobody);
      EXPECT_NE(std::string::npos, World::last_failure().message.find("Too many open files"));
    });
  });
}

}  // namespace
}  // namespace holdfast::test
