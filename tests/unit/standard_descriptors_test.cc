// A host may have closed standard input, output or error. Nothing that the library opens may get such a number: the
// next line that the host logs would go there.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "holdfast.h"
#include "platform/standard_descriptors.h"
#include "support/dict.h"
#include "support/process.h"

namespace holdfast::test {
namespace {

constexpr int kStandard = 3;

bool is_closed(int fd) { return ::fcntl(fd, F_GETFD) < 0 && errno == EBADF; }

/// Closes those of the mask.
void close_of(int mask) {
  for (int fd = 0; fd < kStandard; ++fd)
    if ((mask >> fd & 1) != 0) ::close(fd);
}

/// Uses what needs descriptors: dictionaries with each mutex, a wait, what is kept over exec, a list, a removal.
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

TEST(standard_descriptors, get_no_file_of_the_library_whichever_the_host_has_closed) {
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

TEST(standard_descriptors, of_a_program_are_occupied_and_as_useless_as_before) {
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
