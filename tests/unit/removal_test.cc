// Tests that a removed dictionary leaves nothing behind in this process, that no lock has two holders, and that no
// fencing token is used twice.
#include <dirent.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "support/clock.h"
#include "support/dict.h"
#include "support/process.h"
#include "support/started.h"
#include "support/waiting.h"

namespace holdfast::test {
namespace {

constexpr const char* kName = "removed";

int remove_it() { return holdfast_remove(kName, std::char_traits<char>::length(kName)); }

/// The kernel resources that a process uses.
struct InUse {
  int mappings = 0;
  int of_dictionaries = 0;  // mappings of dictionary files, including removed files
  int descriptors = 0;

  static InUse now() {
    InUse found;
    const std::string directory = holdfast_directory();
    struct stat table {};
    ::stat((directory + "/processes").c_str(), &table);
    const std::string inode = " " + std::to_string(table.st_ino) + " ";
    std::ifstream maps("/proc/self/maps");
    // If a file was created without a name, the kernel shows only the directory's name.
    for (std::string line; std::getline(maps, line); ++found.mappings)
      if (line.find(directory) != std::string::npos && line.find(inode) == std::string::npos &&
          line.find("/names-") == std::string::npos)
        ++found.of_dictionaries;
    DIR* const descriptors = ::opendir("/proc/self/fd");
    while (::readdir(descriptors) != nullptr) ++found.descriptors;
    ::closedir(descriptors);
    return found;
  }
};

void use_all(Dict& dict, int i) {
  const std::string key = "key " + std::to_string(i % 16);
  double sum = 0;
  dict.set(key, std::string(static_cast<std::size_t>(i % 300), 'v'));
  dict.get(key);
  dict.incr_from("sum", 1, 0, 0, &sum);
  dict.push("list", 0, "element");
  dict.pop("list", 0);
  holdfast_lease lease{};
  const std::string lock = "lock " + std::to_string(i % 5);
  if (dict.try_lock(lock, 0, &lease) == HOLDFAST_OK) dict.unlock(lock, &lease);
  if (dict.try_permits("permits", HOLDFAST_SEMAPHORE, 1, 3, 0, &lease) == HOLDFAST_OK) dict.unlock("permits", &lease);
  if (i % 8 == 0) dict.flush_expired();
  holdfast_stats stats{};
  if (i % 16 == 0) holdfast_dict_stats(dict.handle, &stats);
}

class RemovalTest : public testing::TestWithParam<int> {
 protected:
  static Options options(std::uint64_t size = 100'000) { return {.size = size, .mutex = GetParam()}; }
  const ScratchDirectory directory_;
};

INSTANTIATE_TEST_SUITE_P(mutexes, RemovalTest,
                         testing::Values(HOLDFAST_MUTEX_FUTEX, HOLDFAST_MUTEX_SPIN, HOLDFAST_MUTEX_FILE));

TEST_P(RemovalTest, leaves_no_mapping_and_no_descriptor) {
  in_process([] {
    InUse first;
    for (int i = 0; i < 600; ++i) {
      Dict dict(kName, options());
      ASSERT_EQ(dict.status, HOLDFAST_OK) << i << holdfast_error();
      use_all(dict, i);
      ASSERT_EQ(remove_it(), HOLDFAST_OK);
      EXPECT_EQ(dict.get("key").code, HOLDFAST_REMOVED);
      if (i == 20) first = InUse::now();
    }
    const InUse last = InUse::now();
    EXPECT_EQ(last.of_dictionaries, 0);
#ifndef HOLDFAST_SANITIZED  // a sanitizer keeps freed memory
    EXPECT_LE(last.mappings, first.mappings + 5) << "the C library may have a few more mappings of its own memory";
#endif
    EXPECT_LE(last.descriptors, first.descriptors);
  });
}

TEST_P(RemovalTest, by_another_process_leaves_nothing_once_it_is_detected) {
  in_process([] {
    Dict dict(kName, options());
    Child remover([](Channel& parent) {
      while (parent.hear() == "again") {
        parent.say(holdfast_code_text(remove_it()));
        parent.hear();
        Dict again(kName, options());
        parent.say(holdfast_code_text(again.status));
      }
      return 0;
    });
    InUse first;
    for (int i = 0; i < 50; ++i) {
      use_all(dict, i);
      EXPECT_EQ(remover.ask("again"), "ok");
      EXPECT_EQ(dict.get("key").code, HOLDFAST_REMOVED);
      EXPECT_EQ(InUse::now().of_dictionaries, 0);
      EXPECT_EQ(remover.ask("go on"), "ok");
      EXPECT_EQ(dict.get("key").code, HOLDFAST_NOT_FOUND) << "the name must now belong to a new dictionary";
      if (i == 5) first = InUse::now();
    }
    EXPECT_LE(InUse::now().descriptors, first.descriptors);
    EXPECT_LE(InUse::now().mappings, first.mappings + 5);
  });
}

TEST_P(RemovalTest, while_threads_are_inside_leaves_nothing_and_harms_nobody) {
  constexpr int kThreads = 3;
  constexpr int kRemovals = 150;
  in_process([] {
    Dict dict(kName, options());
    std::atomic<bool> done{false};
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (int i = t; !done; i += 7) use_all(dict, i);
      });
    }
    std::mt19937 random(7);
    for (int i = 0; i < kRemovals; ++i) {
      ASSERT_EQ(remove_it(), HOLDFAST_OK);
      const std::uint64_t size = 20'000 + random() % 5 * 90'000;  // the dictionary has one shard or several
      ASSERT_EQ(Dict(kName, options(size)).status, HOLDFAST_OK) << holdfast_error();
      std::this_thread::yield();
    }
    done = true;
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(remove_it(), HOLDFAST_OK);
    EXPECT_EQ(InUse::now().of_dictionaries, 0);
    EXPECT_EQ(dict.get("key").code, HOLDFAST_REMOVED);
  });
}

TEST_P(RemovalTest, ends_the_waits_of_threads_and_leaves_nothing_behind) {
  in_process([] {
    Dict dict(kName, options());
    holdfast_lease lease{};
    ASSERT_EQ(dict.try_lock("lock", 0, &lease), HOLDFAST_OK);
    std::atomic<int> waiting{0};
    std::atomic<int> removed{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&] {
        Waiting waiter;
        holdfast_lease mine{};
        if (waiter.once(dict, "lock", &mine) == HOLDFAST_LOCKED) ++waiting;
        if (waiter.lock(dict, "lock", 20, &mine) == HOLDFAST_REMOVED) ++removed;
      });
    }
    for (const double end = now() + 20; waiting < 3 && now() < end;) ::usleep(1000);
    ASSERT_EQ(remove_it(), HOLDFAST_OK);
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(removed, 3);
    EXPECT_EQ(InUse::now().of_dictionaries, 0);
    EXPECT_EQ(dict.unlock("lock", &lease), HOLDFAST_REMOVED);
  });
}

// A waiting task may never be resumed. Its watch on a key must end with the task.
TEST_P(RemovalTest, leaves_nothing_of_an_abandoned_waiter) {
  in_process([] {
    Dict dict(kName, options());
    holdfast_lease lease{};
    holdfast_lease other{};
    ASSERT_EQ(dict.try_lock("lock", 0, &lease), HOLDFAST_OK);
    auto waiter = std::make_unique<Waiting>();
    ASSERT_EQ(waiter->once(dict, "lock", &other), HOLDFAST_LOCKED);
    ASSERT_EQ(remove_it(), HOLDFAST_OK);
    EXPECT_EQ(dict.get("key").code, HOLDFAST_REMOVED);
    waiter.reset();
    EXPECT_EQ(InUse::now().of_dictionaries, 0);
  });
}

#ifndef HOLDFAST_SANITIZED  // a child may find locks of the sanitizer's run-time libraries locked
TEST_P(RemovalTest, while_threads_are_inside_leaves_nothing_in_a_child_forked_meanwhile) {
  in_process([] {
    Dict dict(kName, options());
    std::atomic<bool> done{false};
    std::thread user([&] {
      for (int i = 0; !done; ++i) use_all(dict, i);
    });
    std::thread remover([&] {
      while (!done) {
        remove_it();
        const Dict again(kName, options());
      }
    });
    for (int i = 0; i < 20; ++i) {
      Child child([&](Channel&) {
        for (int round = 0; round < 20; ++round) {
          use_all(dict, round);
          if (remove_it() != HOLDFAST_OK && dict.get("key").code == HOLDFAST_OK) return 2;
          const Dict again(kName, options());
          if (again.status != HOLDFAST_OK && again.status != HOLDFAST_BUSY) {
            std::fprintf(stderr, "open: %d %s\n", again.status, holdfast_error());
            return 3;
          }
        }
        remove_it();
        dict.get("key");
        // When the parent forked, it may have created the dictionary again, and may have been about to use an earlier
        // dictionary.
        return InUse::now().of_dictionaries <= 2 ? 0 : 4;
      });
      EXPECT_EQ(child.wait(), 0);
    }
    done = true;
    user.join();
    remover.join();
  });
}
#endif

// --- no number is used twice ---

/// The numbers that the processes of the storm share.
struct Storm {
  static constexpr std::size_t kKeys = 2000;
  static constexpr std::size_t kNumbers = std::size_t{1} << 22;
  std::array<std::atomic<std::uint64_t>, kNumbers> given;  // the last number of each process
  std::array<std::atomic<std::uint64_t>, kKeys> last;      // the last number of each key
  std::atomic<std::uint64_t> grants;
  std::atomic<std::uint64_t> twice;
  std::atomic<std::uint64_t> back;
  std::atomic<bool> done;

  void take(Dict& dict, std::size_t key) {
    const std::string name = "key " + std::to_string(key);
    const std::uint64_t before = last[key].load();
    holdfast_lease lease{};
    const int code = dict.try_lock(name, 0, &lease);
    if (code == HOLDFAST_REMOVED) Dict(kName, {.size = 100'000});
    if (code != HOLDFAST_OK) return;
    ++grants;
    if (lease.sequence <= before) ++back;
    if (given[lease.sequence % kNumbers].exchange(lease.sequence) == lease.sequence) ++twice;
    for (std::uint64_t seen = before; seen < lease.sequence && !last[key].compare_exchange_weak(seen, lease.sequence);)
      continue;
    dict.unlock(name, &lease);
  }
  void run(std::uint32_t seed) {
    Dict dict(kName, {.size = 100'000});
    std::mt19937 random(seed);
    while (!done) take(dict, random() % kKeys);
  }
};

TEST(removal, no_fencing_token_is_granted_twice_when_threads_dictionaries_are_removed) {
  constexpr int kProcesses = 3;
  constexpr int kThreads = 2;
  constexpr int kRemovals = 40;
  const ScratchDirectory directory;
  void* const memory =
      ::mmap(nullptr, sizeof(Storm), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto& storm = *new (memory) Storm;
  in_process([&] {
    Dict dict(kName, {.size = 100'000});
    std::vector<std::unique_ptr<Child>> processes;
    for (std::uint32_t p = 0; p < kProcesses; ++p) {
      processes.push_back(std::make_unique<Child>([&storm, p](Channel&) {
        std::vector<std::thread> threads;
        for (std::uint32_t t = 0; t < kThreads; ++t) threads.emplace_back([&storm, p, t] { storm.run(10 * p + t); });
        for (std::thread& thread : threads) thread.join();
        return 0;
      }));
    }
    const double end = now() + 40;
    for (int i = 0; i < kRemovals && now() < end; ++i) {
      const std::uint64_t goal = storm.grants + 5000;
      while (storm.grants < goal && now() < end) ::usleep(200);
      remove_it();
    }
    storm.done = true;
    for (auto& process : processes) EXPECT_EQ(process->wait(), 0);
  });
  EXPECT_GT(storm.grants, kRemovals * 5000U);
  EXPECT_EQ(storm.twice, 0U);
  EXPECT_EQ(storm.back, 0U);
  ::munmap(memory, sizeof(Storm));
}

}  // namespace
}  // namespace holdfast::test
