// Tests the calls that observe a world without entering it: holdfast_observe, holdfast_processes,
// holdfast_process_lives and holdfast_look. This program never enters a world itself, and each test has its own world.
#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "platform/platform.h"
#include "support/dict.h"
#include "support/started.h"
#include "support/waiting.h"
#include "world/process_table.h"

namespace holdfast::test {
namespace {

constexpr const char* kKey = "key";

struct Looked {
  int code = -1;
  std::vector<holdfast_holder> holders;
  std::vector<holdfast_waiter> waiters;
};

Looked look(Dict& dict, std::string_view key) {
  Looked looked;
  looked.holders.resize(100);
  looked.waiters.resize(100);
  std::uint32_t holders = 0;
  std::uint32_t waiters = 0;
  looked.code = holdfast_look(dict.handle, key.data(), key.size(), looked.holders.data(), 100, &holders,
                              looked.waiters.data(), sizeof(holdfast_waiter), 100, &waiters);
  looked.holders.resize(holders);
  looked.waiters.resize(waiters);
  return looked;
}

std::vector<holdfast_process> processes() {
  std::vector<holdfast_process> found(HOLDFAST_PROCESSES_MAX);
  std::uint32_t count = 0;
  EXPECT_EQ(holdfast_processes(found.data(), sizeof(holdfast_process), HOLDFAST_PROCESSES_MAX, &count), HOLDFAST_OK)
      << holdfast_error();
  found.resize(count);
  return found;
}

// --- an observer changes nothing ---

std::set<std::string> listing(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.insert(entry.path().filename());
  return names;
}

TEST(observer, finds_no_world_where_there_is_none_and_creates_none) {
  const ScratchDirectory directory;
  in_process([] {
    EXPECT_EQ(holdfast_observe(), HOLDFAST_OK);
    EXPECT_EQ(holdfast_directory(), nullptr);
    EXPECT_NE(std::strstr(holdfast_error(), "there is no "), nullptr) << holdfast_error();
    holdfast_value names{};
    std::uint32_t count = 0;
    EXPECT_EQ(holdfast_list(&names, &count), HOLDFAST_NOT_FOUND);
  });
  EXPECT_TRUE(listing(directory.path()).empty());
  ::rmdir(directory.path().c_str());
  in_process([] {
    EXPECT_EQ(holdfast_observe(), HOLDFAST_OK);
    EXPECT_EQ(holdfast_directory(), nullptr);
    EXPECT_NE(std::strstr(holdfast_error(), "there is no runtime directory"), nullptr) << holdfast_error();
  });
  EXPECT_FALSE(exists(directory.path()));
}

TEST(observer, finds_what_dead_processes_left_and_does_not_change_it) {
  const ScratchDirectory directory;
  Resident holder([] {
    Dict dict("d");
    holdfast_lease lease{};
    EXPECT_EQ(dict.set("k", "v"), HOLDFAST_OK);
    EXPECT_EQ(dict.try_lock(kKey, 0, &lease), HOLDFAST_OK);
  });
  holder.kill_and_wait();
  const std::set<std::string> before = listing(directory.path());
  for (int i = 0; i < 2; ++i) {
    in_process([] {
      EXPECT_EQ(holdfast_observe(), HOLDFAST_OK);
      Dict dict("d");
      ASSERT_EQ(dict.status, HOLDFAST_OK) << holdfast_error();
      EXPECT_EQ(dict.get("k"), text("v"));
      EXPECT_EQ(dict.locks(), (std::multiset<std::string>{kKey}));
      const Looked seen = look(dict, kKey);
      ASSERT_EQ(seen.holders.size(), 1U);
      EXPECT_EQ(holdfast_process_lives(seen.holders[0].owner), HOLDFAST_NOT_FOUND);
    });
    EXPECT_EQ(listing(directory.path()), before);
  }
  in_process([] {
    holdfast_dict* dict = nullptr;
    EXPECT_EQ(holdfast_attach("d", 1, &dict), HOLDFAST_NOT_FOUND) << "the observer ended a world without processes";
  });
}

/// Counts how often a writable descriptor of the file is closed.
class Closings {
 public:
  explicit Closings(const std::string& path) : fd_(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {
    EXPECT_GE(::inotify_add_watch(fd_.get(), path.c_str(), IN_CLOSE_WRITE), 0) << path;
  }
  std::size_t count() const {
    alignas(inotify_event) std::array<char, 4096> events;
    std::size_t found = 0;
    for (ssize_t got; (got = ::read(fd_.get(), events.data(), events.size())) > 0;)
      found += static_cast<std::size_t>(got) / sizeof(inotify_event);
    return found;
  }

 private:
  platform::FileDescriptor fd_;
};

// Such a wake-up could make a thousand processes check for a death.
TEST(observer, wakes_no_waiting_process) {
  const ScratchDirectory directory;
  Started keeper("held", [](Channel& parent) {
    Dict dict("d");
    holdfast_lease lease{};
    if (dict.try_lock(kKey, 0, &lease) != HOLDFAST_OK) return 1;
    parent.say("held");
    while (parent.hear() == "open") parent.say(holdfast_code_text(Dict("other").status));
    return 0;
  });
  const Closings closings(directory / "processes");
  in_process([] {
    EXPECT_EQ(holdfast_observe(), HOLDFAST_OK);
    Dict dict("d");
    const Looked seen = look(dict, kKey);
    ASSERT_EQ(seen.holders.size(), 1U);
    EXPECT_EQ(holdfast_process_lives(seen.holders[0].owner), HOLDFAST_OK);
    EXPECT_EQ(processes().size(), 1U);
  });
  EXPECT_EQ(closings.count(), 0U);
  EXPECT_EQ(keeper.ask("open"), "ok");
  EXPECT_EQ(closings.count(), 0U) << "opening a dictionary must not wake any process";
  in_process([] { Dict dict("d"); });
  EXPECT_GT(closings.count(), 0U) << "a process that enters and exits must wake others";
}

TEST(observer, cannot_change_anything) {
  const ScratchDirectory directory;
  Started keeper("made", [](Channel& parent) {
    Dict dict("d");
    dict.set("k", "v");
    parent.say("made");
    parent.hear();
    return dict.get("k") == text("v") ? 0 : 1;
  });
  in_process([] {
    EXPECT_EQ(holdfast_observe(), HOLDFAST_OK);
    EXPECT_EQ(holdfast_observe(), HOLDFAST_OK);
    Dict made("other");
    EXPECT_EQ(made.status, HOLDFAST_INVALID);
    EXPECT_STREQ(holdfast_error(), "this process is a read-only observer, and cannot change anything");
    EXPECT_EQ(holdfast_remove("d", 1), HOLDFAST_INVALID);
    Dict dict("d");
    ASSERT_EQ(dict.status, HOLDFAST_OK) << holdfast_error();
    holdfast_lease lease{};
    double sum = 0;
    EXPECT_EQ(dict.set("k", "w"), HOLDFAST_INVALID);
    EXPECT_STREQ(holdfast_error(), "this process is a read-only observer, and cannot change anything");
    EXPECT_EQ(dict.remove("k"), HOLDFAST_INVALID);
    EXPECT_EQ(dict.incr("k", 1, &sum), HOLDFAST_INVALID);
    EXPECT_EQ(dict.try_lock(kKey, 0, &lease), HOLDFAST_INVALID);
    EXPECT_EQ(dict.flush_expired(), -HOLDFAST_INVALID);
    EXPECT_EQ(dict.get("k"), text("v"));
    int fd = -1;
    EXPECT_EQ(holdfast_hold_over_exec(&fd), HOLDFAST_INVALID);
    std::array<int, 2> fds{};
    EXPECT_EQ(holdfast_use_over_exec(dict.handle, fds.data()), HOLDFAST_INVALID);
    EXPECT_EQ(holdfast_keep_for(::getppid()), HOLDFAST_INVALID);
    in_process([] {
      Dict inherited("d");
      EXPECT_EQ(inherited.set("k", "w"), HOLDFAST_INVALID);
      EXPECT_EQ(inherited.get("k"), text("v"));
    });
  });
  keeper.say("");
  EXPECT_EQ(keeper.wait(), 0);
}

TEST(observer, compares_versions_and_cannot_wait_for_a_change) {
  const ScratchDirectory directory;
  Resident writer([] { EXPECT_EQ(Dict("d", {.versions = true}).set("k", "v"), HOLDFAST_OK); });
  in_process([] {
    EXPECT_EQ(holdfast_observe(), HOLDFAST_OK);
    Dict dict("d");
    ASSERT_EQ(dict.status, HOLDFAST_OK) << holdfast_error();
    holdfast_version_of_key known{};
    EXPECT_EQ(dict.get_changed("k", &known), text("v"));
    EXPECT_TRUE(dict.is_current(known));
    EXPECT_EQ(dict.get_changed("k", &known).code, HOLDFAST_UNCHANGED);
    EXPECT_EQ(dict.wait_for_change("k", 30, &known), HOLDFAST_INVALID);
    EXPECT_EQ(dict.store_unless_changed("k", &known, nullptr), HOLDFAST_INVALID);
  });
}

TEST(observer, occupies_no_slot_in_the_process_table) {
  in_a_world([] {
    Dict dict("d");
    in_process([] {
      EXPECT_EQ(holdfast_observe(), HOLDFAST_EXISTS)
          << "a child of a process that has entered the world must not become an observer";
    });
    EXPECT_EQ(holdfast_observe(), HOLDFAST_EXISTS);
    EXPECT_EQ(processes().size(), 1U);
  });
  const ScratchDirectory directory;
  Started keeper("made", [](Channel& parent) {
    Dict dict("d");
    parent.say("made");
    parent.hear();
    return static_cast<int>(processes().size());
  });
  Resident observer([] {
    holdfast_dict* dict = nullptr;
    EXPECT_EQ(holdfast_observe(), HOLDFAST_OK);
    EXPECT_EQ(holdfast_attach("d", 1, &dict), HOLDFAST_OK);
  });
  keeper.say("");
  EXPECT_EQ(keeper.wait(), 1);
}

TEST(observer, notices_damage_immediately) {
  in_a_world([] {
    Dict dict("d");
    ASSERT_EQ(dict.set("k", "v"), HOLDFAST_OK);
    Shard& shard = dict.segment().shards()[0];
    shard.bucket_of(Key("k", dict.segment().seed()).short_hash()).store(0x7FFFFFFF, kRelaxed);
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::execl("/proc/self/exe", "observe_test", "--gtest_also_run_disabled_tests",
              "--gtest_filter=observer.DISABLED_reads_damage", nullptr);
      ::_exit(9);
    }
    int status = 0;
    ::waitpid(pid, &status, 0);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(dict.stats().repairs, 0U);
    EXPECT_EQ(dict.get("k"), nothing());
    EXPECT_EQ(dict.stats().repairs, 1U);
  });
}

// The previous test runs this test in a different process, which has not entered the world.
TEST(observer, DISABLED_reads_damage) {
  ASSERT_EQ(holdfast_observe(), HOLDFAST_OK);
  Dict dict("d");
  ASSERT_EQ(dict.status, HOLDFAST_OK) << holdfast_error();
  EXPECT_EQ(dict.get("k").code, HOLDFAST_CORRUPT);
  EXPECT_STREQ(holdfast_error(), "part of the dictionary is damaged; the next change repairs it");
  EXPECT_EQ(look(dict, "k").code, HOLDFAST_CORRUPT);
}

// --- results of an observer ---

TEST(processes, can_be_shown_with_the_pid_of_a_child_but_forked_children_have_their_own) {
  const ScratchDirectory directory;
  in_process([] {
    EXPECT_EQ(holdfast_show_as(0), HOLDFAST_INVALID);
    EXPECT_STREQ(holdfast_error(), "bad pid: expected 1 or more, got 0");
    ASSERT_EQ(holdfast_show_as(1), HOLDFAST_OK);
    Dict dict("d");
    ASSERT_EQ(dict.status, HOLDFAST_OK) << holdfast_error();
    Child forked([&](Channel& parent) {
      dict.set("k", "v");
      parent.hear();
      return 0;
    });
    EXPECT_TRUE(eventually([&] {
      std::vector<std::uint32_t> pids;
      for (const holdfast_process& process : processes()) pids.push_back(process.pid);
      std::sort(pids.begin(), pids.end());  // their slots are chosen at random
      return pids == std::vector<std::uint32_t>{1, static_cast<std::uint32_t>(forked.pid())};
    }));
  });
}

TEST(processes, are_listed_with_their_state) {
  const ScratchDirectory directory;
  Resident one([] {
    holdfast_name_program("a very long name of a program", 29);
    Dict dict("d");
  });
  in_process([&] {
    EXPECT_EQ(holdfast_observe(), HOLDFAST_OK);
    const std::vector<holdfast_process> found = processes();
    ASSERT_EQ(found.size(), 1U);
    const holdfast_process& process = found[0];
    EXPECT_EQ(process.pid, static_cast<std::uint32_t>(one.pid()));
    EXPECT_STREQ(process.program, "a very long nam");
    EXPECT_EQ(process.worker, 0xFFFFFFFFU);
    EXPECT_EQ(process.pid_namespace, pid_namespace());
    utsname names{};
    ::uname(&names);
    EXPECT_EQ(std::string(process.host), std::string(names.nodename).substr(0, 39));
    EXPECT_TRUE(process.entered >= 0 && process.entered < 1000) << process.entered;
    EXPECT_EQ(holdfast_process_lives(process.owner), HOLDFAST_OK);
    EXPECT_EQ(holdfast_process_lives(process.owner + 1), HOLDFAST_NOT_FOUND);
    one.kill();  // its parent reaps it later
    EXPECT_TRUE(eventually([&] { return holdfast_process_lives(process.owner) == HOLDFAST_NOT_FOUND; }));
    EXPECT_EQ(processes().size(), 1U) << "the description of a dead process must be removed with its slot";
    std::uint32_t count = 0;
    EXPECT_EQ(holdfast_processes(nullptr, sizeof(holdfast_process), 0, &count), HOLDFAST_OK);
    EXPECT_EQ(count, 1U);
    EXPECT_EQ(holdfast_processes(nullptr, 1, 0, &count), HOLDFAST_INVALID);
  });
}

// There are two processes. One holds the lock, and is stopped while it has the shard's mutex; the other observes.
TEST(look, finds_a_lock_while_a_stopped_process_has_the_mutex) {
  const ScratchDirectory directory;
  Started holder("held", [](Channel& parent) {
    Dict dict("d");
    holdfast_lease lease{};
    if (dict.try_lock(kKey, 100, &lease) != HOLDFAST_OK || dict.explain(kKey, lease, "for a reason") != HOLDFAST_OK)
      return 1;
    Waiting waiting;
    holdfast_lease none{};
    if (waiting.once(dict, kKey, &none) != HOLDFAST_LOCKED) return 2;
    if (dict.segment().shards()[0].mutex().lock_for(kNsPerSecond) != LockResult::acquired) return 3;
    parent.say("held");
    parent.hear();
    return 0;
  });
  holder.stop();
  in_process([&] {
    EXPECT_EQ(holdfast_observe(), HOLDFAST_OK);
    Dict dict("d");
    Looked seen;
    double fastest = std::numeric_limits<double>::max();  // the machine may stall during one attempt
    for (int i = 0; i < 5; ++i) {
      const double begin = holdfast_now();
      seen = look(dict, kKey);
      ASSERT_EQ(seen.code, HOLDFAST_OK) << holdfast_error();
      fastest = std::min(fastest, holdfast_now() - begin);
    }
    EXPECT_LT(fastest, 0.5) << "the observer waited for the mutex";
    ASSERT_EQ(seen.holders.size(), 1U);
    EXPECT_EQ(seen.holders[0].pid, static_cast<std::uint32_t>(holder.pid()));
    EXPECT_STREQ(seen.holders[0].why, "for a reason");
    EXPECT_EQ(seen.holders[0].kind, HOLDFAST_HELD_LOCK);
    EXPECT_EQ(seen.holders[0].alive, 2U);
    EXPECT_GT(seen.holders[0].sequence, 0U);
    EXPECT_TRUE(seen.holders[0].remaining > 0 && seen.holders[0].remaining <= 100.001) << seen.holders[0].remaining;
    ASSERT_EQ(seen.waiters.size(), 1U);
    EXPECT_EQ(seen.waiters[0].owner, seen.holders[0].owner);
    EXPECT_EQ(seen.waiters[0].want, 1U);
    EXPECT_EQ(seen.waiters[0].watches, 0U);
    EXPECT_EQ(holdfast_process_lives(seen.holders[0].owner), HOLDFAST_OK);
  });
}

TEST(look, agrees_with_holders) {
  in_a_world([] {
    Dict dict("d");
    holdfast_lease lease{};
    ASSERT_EQ(dict.try_lock("lock", 0, &lease), HOLDFAST_OK);
    ASSERT_EQ(dict.try_lock("with an end", 50, &lease), HOLDFAST_OK);
    ASSERT_EQ(dict.try_lock("ended", 0.001, &lease), HOLDFAST_OK);
    ASSERT_EQ(dict.try_lock("free", 0, &lease), HOLDFAST_OK);
    ASSERT_EQ(dict.unlock("free", &lease), HOLDFAST_OK);
    ASSERT_EQ(dict.set("value", "v"), HOLDFAST_OK);
    ASSERT_EQ(dict.try_permits("write", HOLDFAST_RWLOCK, HOLDFAST_ALL_PERMITS, 0, 0, &lease), HOLDFAST_OK);
    for (int i = 0; i < 300; ++i) {
      ASSERT_EQ(dict.try_permits("read", HOLDFAST_RWLOCK, 1, 0, i % 3 == 0 ? 0.001 : 1000, &lease), HOLDFAST_OK);
      const int code = dict.explain("read", lease, "number " + std::to_string(i));
      ASSERT_TRUE(code == HOLDFAST_OK || (i % 3 == 0 && code == HOLDFAST_NOT_OWNER))
          << code;  // the hold may have ended
    }
    ASSERT_EQ(dict.try_permits("semaphore", HOLDFAST_SEMAPHORE, 3, 5, 0, &lease), HOLDFAST_OK);
    sleep_ms(5);
    for (const std::string key :
         {"lock", "with an end", "ended", "free", "value", "write", "read", "semaphore", "no"}) {
      for (const std::uint32_t room : {0U, 1U, 7U, 100U}) {
        std::array<holdfast_holder, 100> exact{};
        std::array<holdfast_holder, 100> seen{};
        std::uint32_t count = 0;
        std::uint32_t looked = 0;
        std::uint32_t waiters = 0;
        ASSERT_EQ(holdfast_holders(dict.handle, key.data(), key.size(), exact.data(), room, &count, &waiters),
                  HOLDFAST_OK);
        ASSERT_EQ(holdfast_look(dict.handle, key.data(), key.size(), seen.data(), room, &looked, nullptr,
                                sizeof(holdfast_waiter), 0, &waiters),
                  HOLDFAST_OK);
        EXPECT_EQ(looked, count) << key;
        for (std::uint32_t i = 0; i < std::min(room, count); ++i) {
          EXPECT_EQ(seen[i].sequence, exact[i].sequence) << key << " " << i;
          EXPECT_EQ(seen[i].owner, exact[i].owner);
          EXPECT_EQ(seen[i].kind, exact[i].kind);
          EXPECT_EQ(seen[i].permits, exact[i].permits);
          EXPECT_EQ(seen[i].pid, exact[i].pid);
          EXPECT_STREQ(seen[i].why, exact[i].why);
          EXPECT_NEAR(seen[i].held, exact[i].held, 1);
          EXPECT_NEAR(seen[i].remaining, exact[i].remaining, 1);
        }
      }
    }
    std::uint32_t count = 0;
    EXPECT_EQ(holdfast_look(dict.handle, "k", 1, nullptr, 0, &count, nullptr, 1, 0, &count), HOLDFAST_INVALID);
    EXPECT_EQ(holdfast_look(dict.handle, "", 0, nullptr, 0, &count, nullptr, sizeof(holdfast_waiter), 0, &count),
              HOLDFAST_INVALID);
  });
}

TEST(look, finds_waiters_and_watchers_in_the_order_of_the_queue) {
  in_a_world([] {
    Dict dict("d");
    holdfast_lease lease{};
    ASSERT_EQ(dict.try_lock(kKey, 0, &lease), HOLDFAST_OK);
    std::array<Waiting, 3> waiting;
    holdfast_lease none{};
    for (Waiting& one : waiting) {
      ASSERT_EQ(one.once(dict, kKey, &none), HOLDFAST_LOCKED);
      sleep_ms(20);
    }
    Waiting watcher;
    std::uint64_t grant = 0;
    ASSERT_EQ(watcher.watch(dict, kKey, &grant), HOLDFAST_LOCKED);
    const Looked seen = look(dict, kKey);
    ASSERT_EQ(seen.waiters.size(), 4U);
    EXPECT_GT(seen.waiters[0].waited, seen.waiters[1].waited);
    EXPECT_GT(seen.waiters[1].waited, seen.waiters[2].waited);
    EXPECT_EQ(seen.waiters[2].watches, 0U);
    EXPECT_EQ(seen.waiters[3].watches, 1U);
    EXPECT_EQ(seen.holders[0].waiters, 4U);
    for (Waiting& one : waiting) EXPECT_EQ(one.leave(dict, kKey), HOLDFAST_OK);
    EXPECT_EQ(watcher.leave(dict, kKey), HOLDFAST_OK);
    EXPECT_EQ(look(dict, kKey).waiters.size(), 0U);
  });
}

// The fencing tokens of a key grow, and each grant's reason contains its token. If a token and a reason differ, they
// belong to two grants.
TEST(look, shows_one_grant_while_processes_take_and_release) {
  const ScratchDirectory directory;
  Started busy("begun", [](Channel& parent) {
    Dict dict("d", {.size = 1 << 20});
    parent.say("begun");
    const double end = holdfast_now() + 2;
    for (int i = 0; holdfast_now() < end; ++i) {
      holdfast_lease lease{};
      const bool reads = i % 2 == 0;
      const std::string key = reads ? "read" : "lock";
      const int code = reads ? dict.try_permits(key, HOLDFAST_RWLOCK, 1, 0, 0, &lease) : dict.try_lock(key, 0, &lease);
      if (code != HOLDFAST_OK) return 1;
      dict.explain(key, lease, std::to_string(lease.sequence));
      dict.set("noise" + std::to_string(i % 50), std::string(i % 300, 'x'));
      dict.unlock(key, &lease);
    }
    return 0;
  });
  in_process([&] {
    EXPECT_EQ(holdfast_observe(), HOLDFAST_OK);
    Dict dict("d", {.size = 1 << 20});
    ASSERT_EQ(dict.status, HOLDFAST_OK) << holdfast_error();
    int held = 0;
    std::uint64_t last_lock = 0;
    for (const double end = holdfast_now() + 1.5; holdfast_now() < end;) {
      const Looked locked = look(dict, "lock");
      const Looked read = look(dict, "read");
      ASSERT_EQ(locked.code, HOLDFAST_OK) << holdfast_error();
      ASSERT_EQ(read.code, HOLDFAST_OK) << holdfast_error();
      ASSERT_LE(locked.holders.size() + read.holders.size(), 2U);
      for (const Looked& seen : {locked, read}) {
        for (const holdfast_holder& holder : seen.holders) {
          ++held;
          ASSERT_EQ(holder.pid, static_cast<std::uint32_t>(busy.pid()));
          if (holder.why[0] != '\0') {
            ASSERT_EQ(holder.why, std::to_string(holder.sequence));
          }
        }
      }
      // An incomplete grant has no fencing token yet.
      if (locked.holders.empty() || locked.holders[0].sequence == 0) continue;
      ASSERT_GE(locked.holders[0].sequence, last_lock);
      last_lock = locked.holders[0].sequence;
    }
    EXPECT_GT(held, 0);
  });
  EXPECT_EQ(busy.wait(), 0);
}

}  // namespace
}  // namespace holdfast::test
