#include "platform/platform.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>
#include <vector>

#include "support/process.h"
#include "support/refused_call.h"

namespace holdfast::platform {
namespace {

using test::Channel;
using test::Child;

/// A file of one page in a new directory.
class Platform : public testing::Test {
 protected:
  Platform() { ::ftruncate(open().get(), 4096) == 0 ? void() : ADD_FAILURE(); }
  FileDescriptor open() const {
    return FileDescriptor(::open((directory_ / "file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  }
  bool is_locked(std::uint64_t byte) const {
    std::uint64_t holder = kNoHolder;
    EXPECT_EQ(0, find_record_lock(open().get(), byte, 1, holder));
    return holder == byte;
  }
  std::atomic<std::uint32_t>& word(const Mapping& mapping) const {
    return *reinterpret_cast<std::atomic<std::uint32_t>*>(mapping.data());
  }

  test::ScratchDirectory directory_;
};

TEST_F(Platform, a_descriptor_is_closed_once_by_its_last_owner) {
  FileDescriptor first = open();
  const int number = first.get();
  FileDescriptor second = std::move(first);
  EXPECT_FALSE(first);
  EXPECT_EQ(number, second.get());
  second.reset();
  EXPECT_EQ(-1, ::fcntl(number, F_GETFD));
}

// The kernel refuses the call only in the thread that releases the descriptor.
TEST_F(Platform, a_descriptor_that_the_kernel_cannot_identify_is_closed_later) {
  FileId id;
  ASSERT_EQ(0, file_id(open().get(), id));
  const FileDescriptor other_file(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int ours = open().release();
  const int reused = open().release();
  std::thread([&] {
    ASSERT_TRUE(test::refuse_call(SYS_fstat, ENOMEM));
    ASSERT_TRUE(test::refuse_call(SYS_newfstatat, ENOMEM));
    close_if_file(ours, id);
    close_if_file(reused, id);
    give_back_left_over();
  }).join();
  EXPECT_NE(-1, ::fcntl(ours, F_GETFD));
  ASSERT_EQ(reused, ::dup3(other_file.get(), reused,
                           O_CLOEXEC));  // as if the host had closed all descriptors, and reused the number
  EXPECT_EQ(0, try_record_lock(open().get(), 7));
  EXPECT_EQ(-1, ::fcntl(ours, F_GETFD));
  EXPECT_NE(-1, ::fcntl(reused, F_GETFD));
  ::close(reused);
}

TEST_F(Platform, a_reopened_file_is_the_same_file_with_separate_locks) {
  const FileDescriptor first = open();
  const FileDescriptor second = reopen(first.get(), O_RDWR);
  FileId a;
  FileId b;
  ASSERT_EQ(0, file_id(first.get(), a));
  ASSERT_EQ(0, file_id(second.get(), b));
  EXPECT_EQ(a, b);
  EXPECT_EQ(0, try_record_lock(first.get(), 7));
  EXPECT_EQ(EAGAIN, try_record_lock(second.get(), 7));
  EXPECT_EQ(0, try_record_lock(second.get(), 8));
  EXPECT_EQ(0, record_unlock(first.get(), 7));
  EXPECT_EQ(0, try_record_lock(second.get(), 7));
}

TEST_F(Platform, shared_record_locks_exclude_only_exclusive_ones) {
  const FileDescriptor first = open();
  const FileDescriptor second = open();
  EXPECT_EQ(0, try_shared_record_lock(first.get(), 3));
  EXPECT_EQ(0, try_shared_record_lock(second.get(), 3));
  EXPECT_EQ(EAGAIN, try_record_lock(second.get(), 3));
  EXPECT_TRUE(is_locked(3));
}

TEST_F(Platform, a_pinned_lock_outlives_its_descriptor_and_ends_with_the_pin) {
  Mapping pin;
  {
    const ForkGuard no_fork;
    const FileDescriptor fd = open();
    ASSERT_EQ(0, try_record_lock(fd.get(), 1));
    pin = pin_description(fd.get(), AtFork::drop);
    ASSERT_TRUE(pin);
  }
  EXPECT_TRUE(is_locked(1));
  pin.reset();
  EXPECT_FALSE(is_locked(1));
}

TEST_F(Platform, a_forked_child_keeps_only_an_inherited_pin) {
  const auto pin_byte = [this](std::uint64_t byte, AtFork at_fork) {
    const ForkGuard no_fork;
    const FileDescriptor fd = open();
    EXPECT_EQ(0, try_record_lock(fd.get(), byte));
    return pin_description(fd.get(), at_fork);
  };
  Mapping dropped = pin_byte(1, AtFork::drop);
  Mapping inherited = pin_byte(2, AtFork::inherit);
  Child child([](Channel& parent) {
    parent.hear();
    return 0;
  });
  dropped.reset();
  inherited.reset();
  EXPECT_FALSE(is_locked(1));
  EXPECT_TRUE(is_locked(2));
  child.say("end");
  EXPECT_EQ(0, child.wait());
  EXPECT_FALSE(is_locked(2));
}

TEST_F(Platform, a_wiped_page_reads_as_zero_in_the_child_and_stays_in_the_parent) {
  const Mapping page = map_wiped_on_fork();
  ASSERT_TRUE(page);
  word(page).store(42);
  Child child([&](Channel&) { return static_cast<int>(word(page).load()); });
  EXPECT_EQ(0, child.wait());
  EXPECT_EQ(42U, word(page).load());
}

TEST_F(Platform, a_futex_wait_ends_at_its_deadline_and_not_earlier) {
  const Mapping mapping = map_shared(open().get(), 4096);
  const std::uint64_t deadline = monotonic_ns() + 20 * kNsPerMs;
  WaitResult result = WaitResult::woken;
  while (result == WaitResult::woken || result == WaitResult::interrupted) {
    result = futex_wait(word(mapping), 0, deadline);
  }
  EXPECT_EQ(WaitResult::timed_out, result);
  EXPECT_GE(monotonic_ns(), deadline);
  EXPECT_EQ(WaitResult::changed, futex_wait(word(mapping), 1, kNever));
}

TEST_F(Platform, waking_a_word_that_is_not_mapped_is_harmless) {
  const Mapping mapping = map_shared(open().get(), 4096);
  auto& gone = word(mapping);
  ::munmap(mapping.data(), 4096);
  EXPECT_EQ(0, futex_wake(gone, 1));
  // The address must be mapped again before the destructor unmaps it.
  ::mmap(mapping.data(), 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

TEST_F(Platform, the_coarse_clock_lags_by_its_resolution_at_most) {
  const std::uint64_t before = monotonic_ns();
  const std::uint64_t coarse = coarse_monotonic_ns();
  EXPECT_LE(coarse, monotonic_ns());
  // A tick may come late on a busy machine, but a lag of a whole second would mean that the two clocks differ.
  EXPECT_GE(coarse + coarse_resolution_ns() + kNsPerSecond, before);
  EXPECT_GT(coarse_resolution_ns(), 0U);
}

TEST_F(Platform, a_sleep_until_a_deadline_does_not_end_early) {
  const std::uint64_t deadline = monotonic_ns() + 5 * kNsPerMs;
  sleep_until(deadline);
  EXPECT_GE(monotonic_ns(), deadline);
}

// Workers are often pinned to a processor. The holder may run on a different processor, so spinning still pays off.
TEST_F(Platform, a_process_pinned_to_one_processor_knows_about_the_others) {
  const auto counted_when_pinned = [] {
    Child child([](Channel&) {
      cpu_set_t allowed;
      if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return 0;
      int first = 0;
      while (CPU_ISSET(first, &allowed) == 0) ++first;
      CPU_ZERO(&allowed);
      CPU_SET(first, &allowed);
      if (::sched_setaffinity(0, sizeof allowed, &allowed) != 0) return 0;
      return processor_count();
    });
    return child.wait();
  };
  EXPECT_GE(counted_when_pinned(), 1);
  cpu_set_t of_first;
  if (::sched_getaffinity(1, sizeof of_first, &of_first) != 0 || CPU_COUNT(&of_first) == 1) GTEST_SKIP();
  EXPECT_GT(counted_when_pinned(), 1);
}

TEST_F(Platform, random_numbers_of_forked_processes_differ) {
  Child child([](Channel& parent) {
    parent.say(std::to_string(random_number()));
    return 0;
  });
  EXPECT_NE(std::to_string(random_number()), child.hear());
}

TEST_F(Platform, copies_of_any_length_and_alignment_are_complete_and_change_no_other_bytes) {
  constexpr std::size_t kMost = 1100;
  std::vector<char> from(kMost * 8 + 64);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<char>(i * 7 + i / 251);
  for (std::size_t words = 0; words <= kMost; words += words < 80 ? 1 : 37) {
    for (std::size_t place = 0; place < 8; ++place) {
      std::vector<std::atomic<std::uint64_t>> shared(kMost + 16);
      copy_to_shared(&shared[place + 1], from.data() + place, words);
      ASSERT_EQ(std::memcmp(static_cast<void*>(&shared[place + 1]), from.data() + place, words * 8), 0) << words;
      ASSERT_EQ(shared[place].load() | shared[place + 1 + words].load(), 0U) << words;
      std::vector<char> back(kMost * 8 + 64);
      copy_from_shared(back.data() + 8 + place, &shared[place + 1], words);
      ASSERT_EQ(std::memcmp(back.data() + 8 + place, from.data() + place, words * 8), 0) << words;
      ASSERT_EQ(back[7 + place], 0) << words;
      ASSERT_EQ(back[8 + place + words * 8], 0) << words;
    }
  }
}

}  // namespace
}  // namespace holdfast::platform
