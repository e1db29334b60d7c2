// Tests limits of the host that affect the library: the size of files, the stack of a thread, and closed standard
// descriptors.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "holdfast.h"
#include "platform/standard_descriptors.h"
#include "support/dict.h"
#include "support/name_files.h"
#include "support/started.h"

namespace holdfast::test {
namespace {

// --- ulimit -f ---------------------------------------------------------------------------------------------

void limit_files(rlim_t bytes) {
  const rlimit limit{bytes, bytes};
  ::setrlimit(RLIMIT_FSIZE, &limit);
}

TEST(limit_of_file_size, ends_no_process_that_uses_and_removes_existing_dictionaries) {
  const ScratchDirectory directory;
  const Resident maker([] {
    Dict dict("d");
    Dict kept("kept", {.persist = true});
  });
  for (const rlim_t bytes : {rlim_t{0}, rlim_t{300}}) {
    in_process([bytes] {
      limit_files(bytes);
      EXPECT_EQ(Dict("d").set_number("k", 1), HOLDFAST_OK);
      EXPECT_EQ(Dict("new").status, HOLDFAST_NO_MEMORY);
    });
  }
  in_process([] {
    limit_files(0);
    EXPECT_EQ(holdfast_remove("d", 1), HOLDFAST_OK);
  });
  in_process([] { EXPECT_EQ(Dict("d").status, HOLDFAST_OK) << "the file that was left behind blocks the name"; });
}

TEST(limit_of_file_size, ends_no_process_that_adopts_a_dictionary) {
  const ScratchDirectory directory;
  in_process([] { EXPECT_EQ(Dict("kept", {.persist = true}).set("k", "v"), HOLDFAST_OK); });
  ASSERT_EQ(::unlink((directory / "processes").c_str()), 0);
  // This process enters the next world first, because a limited process cannot create the file of names.
  const Resident other([] { Dict dict(sibling_name("kept")); });
  in_process([] {
    limit_files(0);
    holdfast_dict* dict = nullptr;
    EXPECT_EQ(holdfast_attach("kept", 4, &dict), HOLDFAST_OK);
  });
  in_process([] { EXPECT_EQ(Dict("kept", {.persist = true}).get("k"), text("v")); });
}

// --- the stack ---------------------------------------------------------------------------------------------

/// Three quarters of the stack that holdfast.h promises to be enough. With other processors and C libraries, calls need
/// more.
constexpr std::size_t kStack = std::size_t{24} << 10;
#if defined(HOLDFAST_SANITIZED) || defined(HOLDFAST_UNOPTIMIZED)
constexpr std::size_t kTimes = 16;  // the tested build differs from the installed build, and may use more stack
#else
constexpr std::size_t kTimes = 1;
#endif

/// Runs `body` in a thread with a stack of this size, below which there is no memory.
int in_small_thread(const std::function<int()>& body) {
  struct Order {
    const std::function<int()>& body;
    int result;
  } order{body, -1};
  constexpr std::size_t kGuard = std::size_t{64} << 10;
  constexpr std::size_t kBytes = kStack * kTimes;
  void* const memory =
      ::mmap(nullptr, kGuard + kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED || ::mprotect(memory, kGuard, PROT_NONE) != 0) return -2;
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setstack(&attributes, static_cast<char*>(memory) + kGuard, kBytes);
  pthread_t thread{};
  const auto run = [](void* given) -> void* {
    auto& task = *static_cast<Order*>(given);
    task.result = task.body();
    return nullptr;
  };
  if (::pthread_create(&thread, &attributes, run, &order) != 0) return -3;
  ::pthread_join(thread, nullptr);
  ::munmap(memory, kGuard + kBytes);
  return order.result;
}

std::string numbered(int number) { return "key" + std::to_string(number); }

/// Stores many entries, so that a later store has to make room.
void fill(Dict& dict, int entries) {
  for (int i = 0; i < entries; ++i) dict.set(numbered(i), std::string(50, 'x'));
}
void fill_with_locks(Dict& dict, int locks) {
  holdfast_lease lease{};
  for (int i = 0; i < locks; ++i) {
    const std::string key = numbered(i);
    holdfast_lock_try(dict.handle, key.data(), key.size(), 0, 0, 0, &lease);
  }
}

/// Makes the calls that need the most stack, in a world with a dead process and a process that holds "held".
int make_calls() {
  holdfast_lease lease{};
  Dict dict("d");
  Dict locks("locks");
  Dict made("made", {.mutex = HOLDFAST_MUTEX_FILE});
  if (dict.status != HOLDFAST_OK || locks.status != HOLDFAST_OK || made.status != HOLDFAST_OK) return 2;
  std::array<int, 2> fds{};
  holdfast_use_over_exec(dict.handle, fds.data());
  fill(dict, 3000);
  fill_with_locks(locks, 2000);
  if (holdfast_lock(dict.handle, "held", 4, 0.05, 0, &lease) != HOLDFAST_LOCKED) return 3;
  holdfast_request request{};
  request.struct_size = sizeof request;
  request.timeout = 0.05;
  request.holds = 1;
  request.task = request.holder_task = holdfast_task_ids() + 1;
  if (holdfast_acquire(dict.handle, "held", 4, &request, &lease) != HOLDFAST_LOCKED) return 4;
  for (int i = 0; i < 100; ++i)
    holdfast_permits_try(dict.handle, "p", 1, HOLDFAST_SEMAPHORE, 1, 100, 0.02, 0, 0, &lease);
  ::usleep(30000);
  holdfast_permits_try(dict.handle, "p", 1, HOLDFAST_SEMAPHORE, 1, 100, 0, 0, 0, &lease);
  std::vector<holdfast_contended> contended(64);
  std::uint32_t count = 0;
  holdfast_dict_contention(dict.handle, contended.data(), sizeof(holdfast_contended), 64, &count);
  std::vector<holdfast_histogram> histogram(1);
  holdfast_dict_histogram(dict.handle, 0, 0, histogram.data());
  holdfast_health health{};
  holdfast_check(dict.handle, &health, sizeof health);
  dict.flush_expired();
  std::vector<char> room(1 << 16);
  holdfast_value names{};
  names.data = room.data();
  names.capacity = room.size();
  holdfast_list(&names, &count);
  return holdfast_remove("made", 4);
}

TEST(small_stack, is_enough_for_each_call) {
  const ScratchDirectory directory;
  const Resident holder([] {
    holdfast_lease lease{};
    EXPECT_EQ(Dict("d").try_lock("held", 0, &lease), HOLDFAST_OK);
  });
  Child dead([](Channel&) {
    Dict locks("locks");
    fill_with_locks(locks, 400);
    return 0;
  });
  ASSERT_EQ(dead.wait(), 0);
  // This is the first call of a process, and of a forked child.
  Child caller([](Channel&) {
    const int result = in_small_thread(&make_calls);
    return result != 0 ? result : Child([](Channel&) { return in_small_thread(&make_calls); }).wait();
  });
  EXPECT_EQ(caller.wait(), 0);
}

// --- closed standard input, output or error ---

// No file that the library opens may get the number of a closed standard descriptor, because the next line that the
// host logs would be written into this file.

constexpr int kStandard = 3;

bool is_closed(int fd) { return ::fcntl(fd, F_GETFD) < 0 && errno == EBADF; }

/// Closes the standard descriptors whose bits are set in the mask.
void close_of(int mask) {
  for (int fd = 0; fd < kStandard; ++fd)
    if ((mask >> fd & 1) != 0) ::close(fd);
}

/// Uses features that need descriptors: dictionaries with each kind of mutex, a wait, holds over exec, a list of
/// processes, and a removal.
int use_the_library() {
  std::array<int, 2> fds{};
  if (holdfast_hold_with_keeper(fds.data()) != HOLDFAST_OK) return 10;
  holdfast_lease lease{};
  for (const int mutex : {HOLDFAST_MUTEX_FUTEX, HOLDFAST_MUTEX_SPIN, HOLDFAST_MUTEX_FILE}) {
    Dict dict("d" + std::to_string(mutex), {.mutex = mutex});
    if (dict.status != HOLDFAST_OK || dict.set("a", "b") != HOLDFAST_OK) return 11;
    if (holdfast_lock_try(dict.handle, "k", 1, 0, 0, 0, &lease) != HOLDFAST_OK) return 12;
    if (holdfast_use_over_exec(dict.handle, fds.data()) != HOLDFAST_OK) return 13;
  }
  holdfast_parker* const parker = holdfast_parker_new();
  if (parker == nullptr || holdfast_parker_fd(parker) < kStandard) return 14;
  holdfast_value names{};
  std::array<char, 100> room{};
  names.data = room.data();
  names.capacity = room.size();
  std::uint32_t count = 0;
  if (holdfast_list(&names, &count) != HOLDFAST_OK || count != 3) return 15;
  return holdfast_remove("d0", 2) == HOLDFAST_OK ? 0 : 16;
}

TEST(standard_descriptors, are_never_used_for_the_librarys_files_even_if_the_host_has_closed_them) {
  for (int mask = 1; mask < 1 << kStandard; ++mask) {
    const ScratchDirectory directory;
    Child child([mask](Channel&) {
      close_of(mask);
      if (const int failed = use_the_library()) return failed;
      for (int fd = 0; fd < kStandard; ++fd)
        if ((mask >> fd & 1) != 0 && !is_closed(fd)) return 20 + fd;
      return 0;
    });
    EXPECT_EQ(child.wait(), 0) << "mask " << mask;
  }
}

TEST(standard_descriptors, are_occupied_for_a_program_and_stay_useless) {
  for (int mask = 1; mask < 1 << kStandard; ++mask) {
    Child child([mask](Channel&) {
      close_of(mask);
      occupy_standard_descriptors();
      char byte = 0;
      for (int fd = 0; fd < kStandard; ++fd) {
        if ((mask >> fd & 1) == 0) continue;
        if (is_closed(fd)) return 10 + fd;
        const bool is_useless = (fd == 0 ? ::read(fd, &byte, 1) : ::write(fd, &byte, 1)) < 0 && errno == EBADF;
        if (!is_useless) return 20 + fd;
      }
      const int next = ::open("/dev/null", O_RDONLY);
      return next >= kStandard ? 0 : 30;
    });
    EXPECT_EQ(child.wait(), 0) << "mask " << mask;
  }
}

}  // namespace
}  // namespace holdfast::test
