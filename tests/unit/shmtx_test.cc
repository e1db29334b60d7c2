// Tests the three kinds of mutex with the same tests and real processes. Every participant is a Child that enters the
// world.
#include "sync/shmtx.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "support/started.h"
#include "support/world.h"
#include "sync/record_lock.h"
#include "world/world_file.h"

namespace holdfast::test {
namespace {

/// The content of the test's file after its header page.
struct Shared {
  ShmtxState mutex;
  alignas(64) std::atomic<std::uint64_t> first;
  std::atomic<std::uint64_t> second;
  std::atomic<std::uint32_t> inside;
  std::atomic<std::uint64_t> violations;
};

/// The test's file, opened in this process. If the file cannot be opened, the process ends.
class Participant {
 public:
  explicit Participant(MutexStrategy strategy) {
    const NewFile file{.kind = FileKind::dictionary, .size = kHeaderBytes + 4096, .persist = false, .mode = 0600};
    auto mapping = create_world_file(world_->directory(), kName, file, [](std::byte*) {});
    if (!mapping && mapping.status().code == Code::exists) {
      auto opened = open_world_file(world_->directory(), kName, FileKind::dictionary);
      if (!opened) fail(opened.status());
      mapping = map_world_file(*opened);
    }
    if (!mapping) fail(mapping.status());
    mapping_ = std::move(*mapping);
    if (strategy == MutexStrategy::file) {
      auto file_lock = RecordLock::open(world_->directory(), kName, mapping_.file());
      if (!file_lock) fail(file_lock.status());
      file_lock_ = std::move(*file_lock);
    }
    mutex_.emplace(shared().mutex, strategy, *world_, file_lock_.get(), std::uint64_t{1} << 41);
  }

  Shmtx& mutex() { return *mutex_; }
  Shared& shared() { return *reinterpret_cast<Shared*>(mapping_.data() + kHeaderBytes); }
  World& world() { return *world_; }

 private:
  [[noreturn]] static void fail(const Status& status) {
    std::fprintf(stderr, "participant: %s\n", status.message.c_str());
    ::_exit(99);
  }

  const std::string kName = "shmtx.dict";
  World* const world_ = &enter();
  platform::Mapping mapping_;
  std::unique_ptr<RecordLock> file_lock_;
  std::optional<Shmtx> mutex_;
};

/// A child of posix_spawn that is held before its exec. It has copies of all descriptors, and no fork handler has run.
/// When this object is destroyed, the child continues.
class HeldUpChild {
 public:
  explicit HeldUpChild(std::string fifo) : fifo_(std::move(fifo)) {
    if (::mkfifo(fifo_.c_str(), 0600) != 0) throw std::runtime_error("cannot make " + fifo_);
    thread_ = std::thread([this] { spawn(); });
    if (!eventually([this] { return has_child(); })) throw std::runtime_error("posix_spawn made no child");
  }
  ~HeldUpChild() {
    const int writer = ::open(fifo_.c_str(), O_WRONLY);
    thread_.join();
    ::close(writer);
  }

 private:
  void spawn() {
    task_ = static_cast<int>(::syscall(SYS_gettid));
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 99, fifo_.c_str(), O_RDONLY, 0);
    std::string program = "true";
    std::array<char*, 2> arguments{program.data(), nullptr};
    pid_t pid = 0;
    if (::posix_spawnp(&pid, "true", &actions, nullptr, arguments.data(), environ) == 0) ::waitpid(pid, nullptr, 0);
    posix_spawn_file_actions_destroy(&actions);
  }
  bool has_child() const {
    std::ifstream children("/proc/self/task/" + std::to_string(task_) + "/children");
    int pid = 0;
    return static_cast<bool>(children >> pid);
  }

  const std::string fifo_;
  std::atomic<int> task_{0};
  std::thread thread_;
};

class ShmtxTest : public testing::TestWithParam<MutexStrategy> {
 protected:
  /// Obeys the orders lock, try, brief (lock with a deadline in 30 ms) and unlock. Any other line ends the process.
  static int obey(Channel& parent) {
    Participant self(GetParam());
    parent.say("ready");
    for (;;) {
      const std::string order = parent.hear();
      if (order == "lock") {
        parent.say(text_of(self.mutex().lock(monotonic_ns() + kLongNs)));
      } else if (order == "try") {
        parent.say(text_of(self.mutex().try_lock()));
      } else if (order == "brief") {
        const std::uint64_t deadline = monotonic_ns() + 30 * kNsPerMs;
        const LockResult result = self.mutex().lock(deadline);
        parent.say(monotonic_ns() < deadline ? "early: " + text_of(result) : text_of(result));
      } else if (order == "unlock") {
        self.mutex().unlock();
        parent.say("robberies " + std::to_string(shmtx_robberies()));
      } else {
        return 0;
      }
    }
  }

  ScratchDirectory directory_;
};

std::string name_of(const testing::TestParamInfo<MutexStrategy>& strategy) {
  constexpr const char* kNames[] = {"futex", "spin", "file"};
  return kNames[static_cast<int>(strategy.param)];
}
INSTANTIATE_TEST_SUITE_P(strategies, ShmtxTest,
                         testing::Values(MutexStrategy::futex, MutexStrategy::spin, MutexStrategy::file), name_of);

TEST_P(ShmtxTest, four_processes_exclude_each_other_in_a_million_critical_sections) {
  constexpr int kProcesses = 4;
#ifdef HOLDFAST_SANITIZED  // this number is enough to find overlaps on two words that no mutex guards
  constexpr std::uint64_t kRounds = 10'000;
#else
  constexpr std::uint64_t kRounds = 250'000;
#endif
  const auto work = [](Channel& parent) {
    Participant self(GetParam());
    parent.say("ready");
    parent.hear();
    Shared& shared = self.shared();
    for (std::uint64_t i = 0; i < kRounds; ++i) {
      if (self.mutex().lock(monotonic_ns() + kLongNs) != LockResult::acquired) return 1;
      // Both words are changed without a lock, so any overlap loses a count or shows in `inside`.
      if (shared.inside.exchange(1, std::memory_order_relaxed) != 0) shared.violations.fetch_add(1);
      shared.first.store(shared.first.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
      shared.second.store(shared.second.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
      shared.inside.store(0, std::memory_order_relaxed);
      self.mutex().unlock();
    }
    if (shmtx_robberies() != 0) return 2;
    parent.say("done");
    parent.hear();
    if (shared.first.load() != kProcesses * kRounds || shared.second.load() != kProcesses * kRounds) return 3;
    return shared.violations.load() == 0 ? 0 : 4;
  };
  std::vector<std::unique_ptr<Child>> workers;
  for (int i = 0; i < kProcesses; ++i) workers.push_back(std::make_unique<Child>(work));
  for (auto& worker : workers) ASSERT_EQ("ready", worker->hear());
  for (auto& worker : workers) worker->say("go");
  for (auto& worker : workers) {
    std::string word = worker->hear();
    for (int more = 0; more < 3 && word == "(silence)"; ++more) word = worker->hear();  // for slow machines
    ASSERT_EQ("done", word);
  }
  for (auto& worker : workers) worker->say("check");
  for (auto& worker : workers) EXPECT_EQ(0, worker->wait());
}

TEST_P(ShmtxTest, a_held_mutex_is_refused_to_try_and_to_lock_at_its_deadline) {
  Started holder("ready", obey);
  Started other("ready", obey);
  EXPECT_EQ("acquired", holder.ask("try"));
  EXPECT_EQ("timeout", other.ask("try"));
  EXPECT_EQ("timeout", other.ask("brief"));  // obey() says "early" if the result came before the deadline
  EXPECT_EQ("robberies 0", holder.ask("unlock"));
  const std::string then = other.ask("brief");  // usually, this attempt is early
  EXPECT_TRUE(then.ends_with("acquired")) << then;
}

TEST_P(ShmtxTest, a_waiter_gets_the_mutex_when_the_owner_unlocks) {
  Started holder("ready", obey);
  Started waiter("ready", obey);
  EXPECT_EQ("acquired", holder.ask("lock"));
  waiter.say("lock");
  std::this_thread::sleep_for(std::chrono::milliseconds(30));  // long enough for every strategy to reach its slow path
  EXPECT_EQ("robberies 0", holder.ask("unlock"));
  EXPECT_EQ("acquired", waiter.hear());
  EXPECT_EQ("timeout", holder.ask("try"));
}

TEST_P(ShmtxTest, the_successor_of_a_killed_owner_is_told_about_the_death) {
  Started owner("ready", obey);
  Started waiter("ready", obey);
  EXPECT_EQ("acquired", owner.ask("lock"));
  waiter.say("lock");
  owner.kill();  // leaves a zombie
  EXPECT_EQ("owner died", waiter.hear());
  EXPECT_EQ("robberies 0", waiter.ask("unlock"));
  EXPECT_EQ("acquired", waiter.ask("try"));
}

TEST_P(ShmtxTest, try_also_takes_over_from_a_dead_owner) {
  Started owner("ready", obey);
  Started other("ready", obey);
  EXPECT_EQ("acquired", owner.ask("lock"));
  EXPECT_EQ(128 + SIGKILL, owner.kill_and_wait());
  EXPECT_EQ("owner died", other.ask("try"));
}

TEST_P(ShmtxTest, exactly_one_of_many_waiters_is_told_that_the_owner_died) {
  Started owner("ready", obey);
  EXPECT_EQ("acquired", owner.ask("lock"));
  std::vector<std::unique_ptr<Child>> waiters;
  for (int i = 0; i < 4; ++i) {
    waiters.push_back(std::make_unique<Child>([](Channel& parent) {
      Participant self(GetParam());
      parent.say("ready");
      parent.say(text_of(self.mutex().lock(monotonic_ns() + kLongNs)));
      self.mutex().unlock();
      parent.hear();
      return 0;
    }));
  }
  for (auto& waiter : waiters) ASSERT_EQ("ready", waiter->hear());
  owner.kill();
  int told = 0;
  for (auto& waiter : waiters) {
    const std::string result = waiter->hear();
    told += result == "owner died" ? 1 : 0;
    EXPECT_TRUE(result == "owner died" || result == "acquired") << result;
  }
  EXPECT_EQ(1, told);
}

TEST_P(ShmtxTest, a_stopped_owner_keeps_the_mutex_and_unlocks_normally_afterwards) {
  Started owner("ready", obey);
  Started other("ready", obey);
  EXPECT_EQ("acquired", owner.ask("lock"));
  owner.stop();
  EXPECT_EQ("timeout", other.ask("brief"));
  EXPECT_EQ("timeout", other.ask("try"));
  other.say("lock");
  owner.signal(SIGCONT);
  EXPECT_EQ("robberies 0", owner.ask("unlock"));
  EXPECT_EQ("acquired", other.hear());
}

TEST_P(ShmtxTest, an_unlock_frees_the_mutex_even_if_a_spawned_child_has_copies_of_all_descriptors) {
  Started other("ready", obey);
  Child owner([](Channel& parent) {
    Participant self(GetParam());
    parent.say(text_of(self.mutex().try_lock()));
    const HeldUpChild child(self.world().directory().path_of("fifo"));
    self.mutex().unlock();
    parent.say("unlocked");
    parent.hear();
    return 0;
  });
  ASSERT_EQ("acquired", owner.hear());
  ASSERT_EQ("unlocked", owner.hear());
  EXPECT_EQ("acquired", other.ask("try"));
  owner.say("end");
  EXPECT_EQ(0, owner.wait());
}

TEST_P(ShmtxTest, locking_again_in_the_same_thread_returns_busy) {
  in_process([] {
    Participant self(GetParam());
    EXPECT_EQ(self.mutex().try_lock(), LockResult::acquired);
    EXPECT_EQ(self.mutex().try_lock(), LockResult::busy);
    EXPECT_EQ(self.mutex().lock(monotonic_ns() + kLongNs), LockResult::busy);
    self.mutex().unlock();
    EXPECT_EQ(self.mutex().try_lock(), LockResult::acquired);
  });
}

TEST_P(ShmtxTest, threads_of_one_process_exclude_each_other) {
  in_process([] {
    Participant self(GetParam());
    constexpr int kThreads = 3;
    constexpr int kRounds = 20'000;
    std::vector<std::thread> threads;
    std::atomic<int> failures{0};
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < kRounds; ++i) {
          if (self.mutex().lock(monotonic_ns() + kLongNs) != LockResult::acquired) failures.fetch_add(1);
          auto& count = self.shared().first;
          count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
          self.mutex().unlock();
        }
      });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(self.shared().first, kThreads * kRounds);
    EXPECT_EQ(failures, 0);
  });
}

TEST_P(ShmtxTest, another_thread_of_the_owners_process_waits_until_its_deadline) {
  in_process([] {
    Participant self(GetParam());
    EXPECT_EQ(self.mutex().try_lock(), LockResult::acquired);
    std::thread([&] {
      EXPECT_EQ(self.mutex().try_lock(), LockResult::timeout);
      EXPECT_EQ(self.mutex().lock(monotonic_ns() + 20 * kNsPerMs), LockResult::timeout);
    }).join();
  });
}

TEST_P(ShmtxTest, a_forked_child_does_not_own_what_its_parent_holds) {
  in_process([] {
    Participant self(GetParam());
    self.mutex().try_lock();
    // The fork happens inside the critical section, as if a signal handler had forked.
    Child child([&](Channel& up) {
      self.mutex().unlock();
      EXPECT_EQ(shmtx_robberies(), 1U) << "the child must not release the parent's mutex, or change anything";
      EXPECT_EQ(self.mutex().try_lock(), LockResult::timeout);
      up.say("tried");
      EXPECT_EQ(self.mutex().lock(monotonic_ns() + kLongNs), LockResult::acquired);
      return HasFailure() ? 1 : 0;
    });
    EXPECT_EQ(child.hear(), "tried");
    self.mutex().unlock();
    EXPECT_EQ(shmtx_robberies(), 0U);
    EXPECT_EQ(child.wait(), 0);
  });
}

TEST_P(ShmtxTest, a_forked_child_that_lives_on_does_not_keep_its_dead_parents_mutex) {
  Child owner([](Channel& parent) {
    Participant self(GetParam());
    self.mutex().try_lock();
    const pid_t child = ::fork();
    if (child == 0) {
      parent.hear();  // returns when the test closes the channel
      ::_exit(0);
    }
    parent.say(std::to_string(child));
    parent.hear();
    return 0;
  });
  Started other("ready", obey);
  const pid_t orphan = std::stoi(owner.hear());
  owner.kill();
  EXPECT_EQ("owner died", other.ask("lock"));
  EXPECT_EQ(0, ::kill(orphan, 0));
  ::kill(orphan, SIGKILL);
}

TEST_P(ShmtxTest, closing_all_descriptors_drops_no_lock) {
  Child owner([](Channel& parent) {
    Participant self(GetParam());
    self.mutex().try_lock();
    for (int fd = 3; fd < 256; ++fd) {
      if (fd != parent.read_fd() && fd != parent.write_fd()) ::close(fd);
    }
    parent.say("locked");
    parent.hear();
    self.mutex().unlock();
    parent.say(text_of(self.mutex().try_lock()));
    return 0;
  });
  Started other("ready", obey);
  EXPECT_EQ("locked", owner.hear());
  EXPECT_EQ("timeout", other.ask("brief"));
  EXPECT_EQ("acquired", owner.ask("unlock"));
}

TEST_P(ShmtxTest, an_invalid_word_is_taken_over_and_reported) {
  in_process([] {
    Participant self(GetParam());
    for (const std::uint32_t nonsense : {0xFFFFFFFFU, 0x80000000U, 0x00000001U, 0x40100001U}) {
      self.shared().mutex.word.store(nonsense);
      EXPECT_EQ(self.mutex().lock(monotonic_ns() + kLongNs), LockResult::owner_died);
      self.mutex().unlock();
    }
  });
}

// The word is overwritten with the token of an idle process, or with the caller's token.
TEST_P(ShmtxTest, a_word_that_names_a_live_process_outside_is_taken_over_and_reported) {
  Child idle([](Channel& parent) {
    Participant self(GetParam());
    self.mutex().try_lock();
    self.mutex().unlock();
    parent.say(std::to_string(self.world().token()));
    parent.hear();
    return 0;
  });
  const Token other = std::stoull(idle.hear());
  in_process([other] {
    Participant self(GetParam());
    for (const Token token : {other, self.world().token()}) {
      for (const std::uint64_t more : {std::uint64_t{0}, kShmtxWaiters, std::uint64_t{1} << 32}) {
        self.shared().mutex.word.store(owner_bits(token) | more);
        EXPECT_EQ(self.mutex().lock(monotonic_ns() + kLongNs), LockResult::owner_died);
        self.mutex().unlock();
      }
    }
    EXPECT_EQ(shmtx_robberies(), 0U);
  });
}

TEST_P(ShmtxTest, unlocking_a_mutex_that_another_process_took_changes_nothing) {
  in_process([] {
    Participant self(GetParam());
    self.mutex().try_lock();
    const std::uint32_t stranger = owner_bits(make_token(5, 77));
    self.shared().mutex.word.store(stranger);
    self.mutex().unlock();
    EXPECT_EQ(self.shared().mutex.word, stranger);
    EXPECT_EQ(shmtx_robberies(), 1U);
  });
}

/// Kills owners at random moments while other processes work. While a process owns the mutex, it breaks the invariant
/// `first == second`. If it is killed, the process that is told about its death restores the invariant.
TEST_P(ShmtxTest, killed_owners_leave_no_waiter_behind_and_no_broken_state) {
  const auto work = [](Channel& parent) {
    Participant self(GetParam());
    parent.say("ready");
    Shared& shared = self.shared();
    for (;;) {
      const LockResult result = self.mutex().lock(monotonic_ns() + kLongNs);
      if (result == LockResult::owner_died) {
        shared.inside.store(0);
        shared.second.store(shared.first.load());
      } else if (result != LockResult::acquired) {
        shared.violations.fetch_add(1);
        return 1;
      }
      if (shared.inside.exchange(1) != 0 || shared.first.load() != shared.second.load()) shared.violations.fetch_add(1);
      shared.first.fetch_add(1);
      shared.second.fetch_add(1);
      shared.inside.store(0);
      self.mutex().unlock();
    }
  };
  constexpr int kKills = 60;
  Child watcher([](Channel& parent) {
    Participant self(GetParam());
    for (;;) {
      parent.say(std::to_string(self.shared().first.load()) + " " + std::to_string(self.shared().violations.load()));
      if (parent.hear() != "again") return 0;
    }
  });
  std::vector<std::unique_ptr<Child>> workers;
  for (int i = 0; i < 3; ++i) workers.push_back(std::make_unique<Child>(work));
  for (auto& worker : workers) ASSERT_EQ("ready", worker->hear());
  std::string last = watcher.hear();
  for (int i = 0; i < kKills; ++i) {
    auto& victim = workers[static_cast<std::size_t>(i) % workers.size()];
    victim = nullptr;  // kills and reaps
    victim = std::make_unique<Child>(work);
    ASSERT_EQ("ready", victim->hear());
    std::string now;
    ASSERT_TRUE(eventually([&] { return (now = watcher.ask("again")) != last; }))
        << "no process has made progress after " << last;
    last = now;
  }
  EXPECT_EQ(" 0", last.substr(last.find(' '))) << "counted, violations: " << last;
}

}  // namespace
}  // namespace holdfast::test
