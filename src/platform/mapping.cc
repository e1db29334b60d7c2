#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>

#include "platform/platform.h"

namespace holdfast::platform {

std::size_t page_bytes() noexcept {
  // With a dynamically initialised static, a child forked during the initialisation would wait forever.
  static constinit std::atomic<std::size_t> known{0};
  std::size_t bytes = known.load(std::memory_order_relaxed);
  if (bytes == 0) {
    bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    known.store(bytes, std::memory_order_relaxed);
  }
  return bytes;
}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  if (this != &other) {
    reset();
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
    file_ = other.file_;
  }
  return *this;
}

std::byte* Mapping::release() noexcept {
  size_ = 0;
  return std::exchange(data_, nullptr);
}

void Mapping::reset() noexcept {
  if (data_ != nullptr) {
    forget_mapping(data_);
    unmap(data_, size_);
  }
  data_ = nullptr;
  size_ = 0;
}

namespace {

// The user and group that made the first shared mapping.
constexpr std::uint64_t kNotMapped = ~std::uint64_t{0};
constinit std::atomic<std::uint64_t> mapped_by{kNotMapped};
std::uint64_t credentials() noexcept { return std::uint64_t{::geteuid()} << 32 | ::getegid(); }

// Returns whether mincore can be trusted. If this process may no longer write to the file, like a worker that has given
// up its parent's rights, the kernel reports every page as present.
bool may_see_pages() noexcept { return mapped_by.load(std::memory_order_relaxed) == credentials(); }

void note_credentials() noexcept {
  // Relaxed is enough, because nothing else depends on this word. If a later mapping is made with other credentials,
  // the only effect is unnecessary calls.
  std::uint64_t none = kNotMapped;
  mapped_by.compare_exchange_strong(none, credentials(), std::memory_order_relaxed);
}

Mapping map_file(int fd, std::size_t size, int protection, const LossMark& mark) noexcept {
  FileId id;
  if (const int error = file_id(fd, id); error != 0) {
    errno = error;
    return {};
  }
  void* const data = ::mmap(nullptr, size, protection, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) return {};
  if (!note_mapping(data, size, mark)) {
    unmap(data, size);
    errno = ENOMEM;
    return {};
  }
  note_credentials();
  return {data, size, id};
}

}  // namespace

Mapping map_shared(int fd, std::size_t size, const LossMark& mark) noexcept {
  return map_file(fd, size, PROT_READ | PROT_WRITE, mark);
}

Mapping map_to_look(int fd, std::size_t size, const LossMark& mark) noexcept {
  return map_file(fd, size, PROT_READ, mark);
}

Mapping pin_description(int fd, AtFork at_fork) noexcept {
  const std::size_t bytes = page_bytes();
  void* const data = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) return {};
  Mapping pin(data, bytes);
  // If a child inherited the pin, the lock would survive the owner's death. So do not make a pin if this call fails.
  if (at_fork == AtFork::drop && ::madvise(data, bytes, MADV_DONTFORK) != 0) return {};
  ::madvise(data, bytes, MADV_DONTDUMP);  // only shortens core dumps
  return pin;
}

void unpin(void* pin) noexcept { unmap(pin, page_bytes()); }

Mapping map_wiped_on_fork() noexcept {
  const std::size_t bytes = page_bytes();
  void* const data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return {};
  ::madvise(data, bytes, MADV_WIPEONFORK);
  return {data, bytes};
}

// --- memory for shared mappings, allocated from the file system page by page ---

namespace {

#ifndef MADV_POPULATE_WRITE
constexpr int MADV_POPULATE_WRITE = 23;
#endif

// Makes the kernel do an atomic operation without effect on a word of the page. The kernel then allocates the page, or
// returns an error.
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
  // This code is for Linux before 5.14, and for sandboxes.
  for (std::size_t at = 0; at < size; at += page_bytes())
    if (const int error = touch_by_kernel(begin + at); error != 0) return error;
  return 0;
}

}  // namespace

int reserve_pages(void* begin, std::size_t size) noexcept {
  // Skip pages that are present, because a query is much cheaper than mapping them.
  constexpr std::size_t kAtOnce = 256;
  std::array<unsigned char, kAtOnce> present;
  const bool seen = may_see_pages();
  const std::size_t page = page_bytes();
  const std::size_t before = reinterpret_cast<std::uintptr_t>(begin) % page;
  std::byte* at = static_cast<std::byte*>(begin) - before;
  for (std::size_t left = (before + size + page - 1) / page; left != 0;) {
    const std::size_t here = std::min(left, kAtOnce);
    if (!seen || ::mincore(at, here * page, present.data()) != 0) present.fill(0);
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
