// Memory of shared mappings that is taken from the file system page by page.
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>

#include "platform/platform.h"

namespace holdfast::platform {

namespace {

#ifndef MADV_POPULATE_WRITE
constexpr int MADV_POPULATE_WRITE = 23;
#endif

// An atomic step on a word of the page that changes nothing. The kernel makes the page, or says that it cannot.
int touch_by_kernel(std::byte* page) noexcept {
  static constinit std::atomic<std::uint32_t> nobody_sleeps_here{0};
  const auto operation = FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_EQ, 0x7FF);
  const auto touch = [&] {
    return static_cast<int>(
        ::syscall(SYS_futex, &nobody_sleeps_here, FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG, 0, nullptr, page, operation));
  };
  return uninterrupted(touch) >= 0 ? 0 : errno;
}

int populate(std::byte* begin, std::size_t size) noexcept {
  if (uninterrupted([&] { return ::madvise(begin, size, MADV_POPULATE_WRITE); }) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS && errno != EPERM) return errno;
  // Linux before 5.14, or a sandbox.
  for (std::size_t at = 0; at < size; at += page_bytes())
    if (const int error = touch_by_kernel(begin + at); error != 0) return error;
  return 0;
}

}  // namespace

int reserve_pages(void* begin, std::size_t size) noexcept {
  // What is there already need not be mapped now: that costs much more than asking for it.
  constexpr std::size_t kAtOnce = 256;
  std::array<unsigned char, kAtOnce> present;
  const std::size_t page = page_bytes();
  const std::size_t before = reinterpret_cast<std::uintptr_t>(begin) % page;
  std::byte* at = static_cast<std::byte*>(begin) - before;
  for (std::size_t left = (before + size + page - 1) / page; left != 0;) {
    const std::size_t here = std::min(left, kAtOnce);
    if (::mincore(at, here * page, present.data()) != 0) present.fill(0);
    for (std::size_t first = 0; first < here;) {
      const bool is_there = (present[first] & 1) != 0;
      std::size_t end = first + 1;
      while (end < here && ((present[end] & 1) != 0) == is_there) ++end;
      if (!is_there) {
        if (const int error = populate(at + first * page, (end - first) * page); error != 0) return error;
      }
      first = end;
    }
    at += here * page;
    left -= here;
  }
  return 0;
}

}  // namespace holdfast::platform
