// Tests that memory shared by threads is freed when the last guard that may protect the memory has ended, and not
// earlier.
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "support/started.h"
#include "sync/epoch.h"

namespace holdfast::test {
namespace {

class Thing final : public Retirable {
 public:
  explicit Thing(std::atomic<int>& left) : left_(left) { ++left_; }
  ~Thing() override { --left_; }

 private:
  std::atomic<int>& left_;
};

/// A thread that has a guard until it is told to end.
class Inside {
 public:
  Inside()
      : thread_([this] {
          const EpochGuard guard;
          is_inside_ = true;
          while (!leaves_) std::this_thread::yield();
        }) {
    while (!is_inside_) std::this_thread::yield();
  }
  ~Inside() { leave(); }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

  void leave() {
    leaves_ = true;
    if (thread_.joinable()) thread_.join();
  }

 private:
  std::atomic<bool> is_inside_{false};
  std::atomic<bool> leaves_{false};
  std::thread thread_;
};

class EpochTest : public testing::Test {
 protected:
  void retire_one() {
    const EpochGuard guard;
    retire(std::make_shared<Thing>(left_));
  }

  std::atomic<int> left_{0};
};

TEST_F(EpochTest, memory_that_nobody_uses_is_freed_immediately) {
  retire_one();
  EXPECT_EQ(left_, 0) << "memory was kept although only one thread exists";
  std::atomic<bool> done{false};
  std::thread other([&] {
    while (!done) std::this_thread::yield();
  });
  retire_one();
  EXPECT_EQ(left_, 0) << "memory was kept although the other thread has no guard";
  done = true;
  other.join();
}

TEST_F(EpochTest, memory_that_another_threads_guard_may_lead_to_stays_until_the_guard_ends) {
  Inside first;
  Inside second;
  retire_one();
  EXPECT_EQ(left_, 1);
  first.leave();
  EXPECT_EQ(left_, 1);
  second.leave();
  EXPECT_EQ(left_, 0) << "the end of the last guard did not free the memory";
}

TEST_F(EpochTest, a_guard_that_began_later_keeps_no_memory) {
  Inside before;
  retire_one();
  Inside after;
  before.leave();
  EXPECT_EQ(left_, 0);
}

// The thread already has a record, with the epoch of its earlier guard.
TEST_F(EpochTest, a_later_guard_of_a_thread_that_was_outside_keeps_no_memory) {
  std::atomic<int> step{0};
  const auto until = [&step](int reached) {
    while (step < reached) std::this_thread::yield();
  };
  std::thread other([&] {
    { const EpochGuard guard; }
    step = 1;
    until(2);
    const EpochGuard guard;
    step = 3;
    until(4);
  });
  until(1);
  Inside before;
  retire_one();
  step = 2;
  until(3);
  before.leave();
  EXPECT_EQ(left_, 0);
  step = 4;
  other.join();
}

TEST_F(EpochTest, a_nested_guard_frees_nothing_at_its_end) {
  Inside other;
  {
    const EpochGuard outer;
    retire_one();
    other.leave();
    EXPECT_EQ(left_, 1);
    { const EpochGuard inner; }
    EXPECT_EQ(left_, 1);
  }
  EXPECT_EQ(left_, 0);
}

TEST_F(EpochTest, a_reference_keeps_its_object) {
  Inside other;
  std::shared_ptr<Thing> kept = std::make_shared<Thing>(left_);
  {
    const EpochGuard guard;
    retire(kept);
  }
  other.leave();
  EXPECT_EQ(left_, 1);
  kept.reset();
  EXPECT_EQ(left_, 0);
}

// A thread that ends inside a call leaves its guard behind.
TEST_F(EpochTest, a_thread_that_ended_inside_keeps_no_memory) {
  in_process([&] {
    {
      const EpochGuard guard;
    }  // so that this thread already has a record, and does not take over the other thread's record
    pthread_t thread;
    ASSERT_EQ(::pthread_create(
                  &thread, nullptr,
                  [](void*) -> void* {
                    new EpochGuard;  // NOLINT(cppcoreguidelines-owning-memory): it never ends
                    ::syscall(SYS_exit, 0);
                    return nullptr;
                  },
                  nullptr),
              0);
    ASSERT_EQ(::pthread_join(thread, nullptr), 0);
    retire_one();
    EXPECT_EQ(left_, 0);
  });
}

TEST_F(EpochTest, a_child_has_none_of_its_parents_guards) {
  Inside other;
  retire_one();
  in_process([&] {
    const int before = left_;
    retire_one();
    EXPECT_EQ(left_, before - 1) << "the memory that the parent could not free must also be freed";
  });
}

TEST_F(EpochTest, a_childs_first_guard_frees_memory_that_its_parents_threads_kept) {
  Inside other;
  retire_one();
  in_process([&] {
    { const EpochGuard guard; }
    EXPECT_EQ(left_, 0);
  });
}

TEST_F(EpochTest, a_guard_of_the_forking_thread_continues_in_the_child) {
  Inside other;
  const EpochGuard outer;
  retire_one();
  in_process([&] {
    { const EpochGuard inner; }
    EXPECT_EQ(left_, 1);
  });
}

TEST_F(EpochTest, the_first_guard_after_a_fork_frees_memory_that_other_threads_kept) {
  Inside other;
  retire_one();
  std::thread([this] {
    in_process([&] {
      { const EpochGuard guard; }
      EXPECT_EQ(left_, 0);
    });
  }).join();
}

TEST_F(EpochTest, a_guard_that_ends_in_the_child_frees_memory_that_the_parents_threads_kept) {
  Inside other;
  retire_one();
  auto outer = std::make_unique<EpochGuard>();
  in_process([&] {
    outer.reset();
    EXPECT_EQ(left_, 0);
  });
  outer.reset();
}

// The kernel may run a signal handler that forks between any two instructions. Here, the fork comes in the middle of a
// guard's beginning.
TEST_F(EpochTest, a_fork_while_a_guard_begins_leaves_the_thread_its_record) {
  { const EpochGuard first; }
  epoch_internal::Record* const before = epoch_internal::record;
  in_process([&] { EXPECT_EQ(before, epoch_internal::record); });
}

TEST_F(EpochTest, threads_that_come_and_go_free_all_memory_that_they_retire) {
  constexpr int kGenerations = 100;
  constexpr int kThreads = 4;
  constexpr int kRounds = 20;
  for (int i = 0; i < kGenerations; ++i) {
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([this] {
        for (int round = 0; round < kRounds; ++round) retire_one();
      });
    }
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(left_, 0) << "generation " << i;
  }
}

// One thread repeatedly replaces a pointer while other threads follow it.
TEST_F(EpochTest, nobody_follows_a_pointer_to_freed_memory) {
  struct Marked final : Retirable {
    ~Marked() override { alive = 0; }
    std::atomic<int> alive{1};
  };
  constexpr int kReplacements = 3000;
  std::shared_ptr<Marked> owner = std::make_shared<Marked>();
  std::atomic<Marked*> shared{owner.get()};
  std::atomic<bool> done{false};
  std::atomic<int> dead_seen{0};
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      while (!done) {
        const EpochGuard guard;
        const Marked* const found = shared.load(std::memory_order_acquire);
        for (int look = 0; look < 20; ++look)
          if (found->alive.load(std::memory_order_relaxed) != 1) ++dead_seen;
      }
    });
  }
  for (int i = 0; i < kReplacements; ++i) {
    const EpochGuard guard;
    std::shared_ptr<Marked> next = std::make_shared<Marked>();
    shared.store(next.get(), std::memory_order_release);
    retire(std::exchange(owner, std::move(next)));
  }
  done = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(dead_seen, 0);
}

}  // namespace
}  // namespace holdfast::test
