// Tests long waits. The kernel's notice of a process's death ends them, and regular checks detect changes that no
// notice reports.
#include "wait/death_watch.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <functional>
#include <string>

#include "dict/repair.h"
#include "dict/wait_queue.h"
#include "lock/lock_entry.h"
#include "platform/platform.h"
#include "support/dict_test.h"
#include "support/event_loop.h"
#include "support/others.h"
#include "support/refused_call.h"
#include "support/world.h"
#include "sync/mailbox.h"
#include "world/process_table.h"
#include "world/world.h"

namespace holdfast::test {
namespace {

// Longer than any sleep interval, but shorter than the longest sleep of a resting waiter.
constexpr double kPatience = 10;
constexpr std::uint64_t kPatienceNs = 10 * kNsPerSecond;

std::size_t death_watches() { return threads_named("holdfast-death").size(); }

World& this_world() { return enter(); }

// --- notices ---

/// Listens for notices in one of the library's threads, as a death watch does.
struct Listener {
  std::string path;
  platform::FileId file;
  std::atomic<int> error{-1};
  std::atomic<bool> noticed{false};
  std::atomic<bool> ended{false};

  static void* run(void* argument) {
    auto& self = *static_cast<Listener*>(argument);
    platform::CloseNotice notice;
    self.error = notice.open(self.path.c_str(), self.file);
    if (self.error == 0) self.noticed = notice.wait(platform::monotonic_ns() + kPatienceNs);
    platform::background_thread_ends();
    self.ended = true;
    return nullptr;
  }
  void start() {
    ASSERT_EQ(platform::start_thread(&run, this), 0);
    ASSERT_TRUE(eventually([this] { return error >= 0; }));
  }
};

class DeathWatchTest : public DictTest {
 protected:
  DeathWatchTest() {
    listener.path = this_world().table_path();
    listener.file = this_world().table_file();
  }
  /// Waits until a death watch for this test's world runs. An earlier test may have left its death watch.
  void until_watched() {
    ASSERT_TRUE(eventually([this] {
      waiting.sleep(0.05);
      return death_watches() == 1;
    }));
  }

  Listener listener;
  Waiting waiting;
  holdfast_lease lease{};
};

TEST_F(DeathWatchTest, the_death_of_a_process_of_the_world_is_detected) {
  Resident other([] { this_world().token(); });
  listener.start();
  ASSERT_EQ(listener.error, 0);
  EXPECT_FALSE(listener.noticed);
  other.kill();
  ASSERT_TRUE(eventually([this] { return listener.ended.load(); }));
  EXPECT_TRUE(listener.noticed);
}

TEST_F(DeathWatchTest, the_processs_own_descriptors_cause_no_notice) {
  const std::size_t before = descriptors();
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  listener.start();
  EXPECT_EQ(descriptors(), before + 2);
  char byte = 0;
  ASSERT_EQ(::write(ends[1], &byte, 1), 1) << "the pipe was closed";
  ::close(ends[1]);
  ASSERT_EQ(::read(ends[0], &byte, 1), 1);
  EXPECT_EQ(::read(ends[0], &byte, 1), 0) << "the thread has kept an end of the pipe";
  ::close(ends[0]);
  ::close(::open(listener.path.c_str(), O_RDWR));
  ASSERT_TRUE(eventually([this] { return listener.ended.load(); }));
  EXPECT_TRUE(listener.noticed);
}

TEST_F(DeathWatchTest, closing_a_read_only_description_causes_no_notice) {
  listener.start();
  ASSERT_EQ(listener.error, 0);
  ::close(::open(listener.path.c_str(), O_RDONLY));
  waiting.sleep(0.1);
  EXPECT_FALSE(listener.ended);
  ::close(::open(listener.path.c_str(), O_RDWR));
  ASSERT_TRUE(eventually([this] { return listener.ended.load(); }));
  EXPECT_TRUE(listener.noticed);
}

TEST_F(DeathWatchTest, a_different_file_of_that_name_is_refused) {
  listener.path = "/proc/self/exe";
  listener.start();
  EXPECT_EQ(listener.error, ESTALE);
  ASSERT_TRUE(eventually([this] { return listener.ended.load(); }));
}

// --- waiters ---

TEST_F(DeathWatchTest, a_long_wait_starts_a_death_watch_and_a_short_one_does_not) {
  in_process([this] {
    Waiting other;
    holdfast_lease held{};
    ASSERT_EQ(dict.try_lock("k", 0, &held), HOLDFAST_OK);
    EXPECT_EQ(other.lock(dict, "k", 0.02, &lease), HOLDFAST_LOCKED);
    EXPECT_EQ(death_watches(), 0U);
    EXPECT_EQ(other.lock(dict, "k", 1, &lease), HOLDFAST_LOCKED);
    EXPECT_EQ(death_watches(), 1U);
  });
}

TEST_F(DeathWatchTest, after_a_death_the_watch_checks_repeatedly) {
  in_process([] {
    static std::atomic<int> started{0};
    static std::atomic<int> looks{0};
    World& world = this_world();
    Resident other([] { this_world().token(); });
    const auto round = [](World& /*world*/, DeathWatch::Event event) noexcept {
      if (event == DeathWatch::Event::started) ++started;
      if (event == DeathWatch::Event::look) ++looks;
      return true;
    };
    DeathWatch watch;
    watch.begin(world, world.token(), round, platform::monotonic_ns());
    ASSERT_TRUE(eventually([] { return started == 1; }));
    EXPECT_EQ(looks, 0);
    other.kill();
    EXPECT_TRUE(eventually([] { return looks >= 2; }));
    watch.begin(world, world.token(), round, platform::monotonic_ns());
    EXPECT_EQ(death_watches(), 1U) << "a second watch was started";
  });
}

TEST_F(DeathWatchTest, a_holder_that_dies_late_leaves_its_lock_to_the_waiter) {
  Holder holder(dict);
  ASSERT_EQ(waiting.once(dict, "k", &lease), HOLDFAST_LOCKED);
  until_watched();
  ASSERT_EQ(waiting.once(dict, "k", &lease), HOLDFAST_LOCKED);
  const std::size_t before = descriptors();
  holder.kill();
  EXPECT_TRUE(waiting.sleep(kPatience));
  EXPECT_EQ(waiting.once(dict, "k", &lease), HOLDFAST_OK);
  EXPECT_EQ(descriptors(), before) << "the check opened a descriptor";
}

TEST_F(DeathWatchTest, a_child_starts_its_own_death_watch) {
  holdfast_lease held{};
  ASSERT_EQ(dict.try_lock("k", 0, &held), HOLDFAST_OK);
  ASSERT_EQ(waiting.once(dict, "k", &lease), HOLDFAST_LOCKED);
  until_watched();
  in_process([this] {
    EXPECT_EQ(death_watches(), 0U);
    Waiting own;
    EXPECT_EQ(own.lock(dict, "k", 1, &lease), HOLDFAST_LOCKED);
    EXPECT_EQ(death_watches(), 1U);
  });
}

// If the kernel refuses one of the system calls, the library works without notices.
TEST_F(DeathWatchTest, without_notices_a_death_is_found_by_polling) {
  for (const unsigned call : {SYS_close_range, SYS_inotify_init1, SYS_inotify_add_watch}) {
    Holder holder(dict);
    in_process([&] {
      ASSERT_TRUE(refuse_call(call, EPERM));
      Waiting own;
      EXPECT_EQ(own.lock(dict, "k", 0.5, &lease), HOLDFAST_LOCKED);
      EXPECT_TRUE(eventually([] { return death_watches() == 0; })) << "the thread did not end after the refusal";
      ASSERT_EQ(own.once(dict, "k", &lease), HOLDFAST_LOCKED);
      holder.kill();
      EXPECT_TRUE(own.sleep(kPatience));
      EXPECT_EQ(own.once(dict, "k", &lease), HOLDFAST_OK);
    });
  }
}

// --- changes that no death reports ---

class RestingTest : public DeathWatchTest {
 protected:
  void SetUp() override {
    DeathWatchTest::SetUp();
    ASSERT_EQ(dict.try_lock("k", 0, &held), HOLDFAST_OK);
    ASSERT_EQ(waiting.once(dict, "k", &lease), HOLDFAST_LOCKED);
    until_watched();
    ASSERT_EQ(waiting.once(dict, "k", &lease), HOLDFAST_LOCKED);
    ASSERT_GT(waiting.sleep_time(), kPatience) << "the waiter does not rest";
  }
  holdfast_lease held{};
};

TEST_F(RestingTest, a_waiter_in_a_foreign_loop_does_not_rest) {
  LoopWaiting loop;
  ASSERT_GE(loop.fd(), 0);
  ASSERT_EQ(loop.once(dict, "k"), HOLDFAST_LOCKED);
  loop.collect();
  ASSERT_EQ(loop.once(dict, "k"), HOLDFAST_LOCKED);
  EXPECT_LE(loop.sleep_time(), 1.0);
}

TEST_F(RestingTest, a_repair_that_drops_the_queue_is_detected) {
  for (Shard& shard : dict.segment().shards()) {
    const ShardGuard guard(shard);
    ASSERT_TRUE(guard.held());
    repair(shard);
  }
  EXPECT_TRUE(waiting.sleep(kPatience));
  EXPECT_EQ(waiting.once(dict, "k", &lease), HOLDFAST_LOCKED);
  EXPECT_EQ(dict.unlock("k", &held), HOLDFAST_OK);
  EXPECT_TRUE(waiting.sleep(kPatience));
}

TEST_F(RestingTest, a_flush_is_detected) {
  in_process([this] { EXPECT_EQ(holdfast_flush_all(dict.handle), HOLDFAST_OK); });
  EXPECT_TRUE(waiting.sleep(kPatience));
  EXPECT_EQ(waiting.once(dict, "k", &lease), HOLDFAST_OK);
}

TEST_F(RestingTest, an_earlier_end_of_a_lease_is_detected) {
  ASSERT_EQ(holdfast_lock_renew(dict.handle, "k", 1, &held, 0.2), HOLDFAST_OK);
  EXPECT_TRUE(waiting.sleep(kPatience));
  EXPECT_EQ(waiting.once(dict, "k", &lease), HOLDFAST_OK);
}

/// Tests that a process that sleeps on its mailbox is told to check all of its waiters.
class ToldTest : public DeathWatchTest {
 protected:
  void expect_told(const std::function<void()>& act) {
    holdfast_lease held{};
    ASSERT_EQ(dict.try_lock("k", 0, &held), HOLDFAST_OK);
    Started other("queued", [this](Channel& parent) {
      Waiting own;
      holdfast_lease mine{};
      if (own.once(dict, "k", &mine) != HOLDFAST_LOCKED) return 1;
      std::array<std::uint32_t, kMailboxEntries> mail;
      collect_mail(this_world(), mail);
      parent.say("queued");
      parent.hear();
      parent.say(collect_mail(this_world(), mail).all ? "all" : "none");
      return 0;
    });
    lease = held;
    act();
    EXPECT_EQ(other.ask("told?"), "all");
    dict.unlock("k", &lease);
  }
};

TEST_F(ToldTest, by_a_flush) {
  expect_told([this] { ASSERT_EQ(holdfast_flush_all(dict.handle), HOLDFAST_OK); });
}

TEST_F(ToldTest, by_an_earlier_end_of_a_lease) {
  expect_told([this] { ASSERT_EQ(holdfast_lock_renew(dict.handle, "k", 1, &lease, 60), HOLDFAST_OK); });
}

TEST_F(ToldTest, by_an_earlier_end_of_the_entry) {
  expect_told([this] { ASSERT_EQ(holdfast_expire(dict.handle, "k", 1, 60), HOLDFAST_OK); });
}

// --- how long a waiter keeps its position ---

TEST_F(RestingTest, a_process_that_does_not_poll_loses_the_positions_of_its_waiters) {
  World& world = this_world();
  const auto first = [&] {
    std::uint32_t block = 0;
    dict.dictionary().transact("k", [&](Transaction& change) {
      block = LockEntry::of(change).queue().first(world, platform::monotonic_ns(), 0).block;
      return Code::ok;
    });
    return block;
  };
  EXPECT_NE(first(), 0U);
  world.slot(world.token())->looked_ms = 1;
  EXPECT_EQ(first(), 0U);
  EXPECT_TRUE(waiting.sleep(kPatience)) << "the waiter detects its loss and queues again";
  EXPECT_EQ(waiting.once(dict, "k", &lease), HOLDFAST_LOCKED);
  EXPECT_NE(first(), 0U);
}

}  // namespace
}  // namespace holdfast::test
