// Mappings that the kernel refused to unmap: a record lock that one of them pins would never come free.
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>

#include "platform/platform.h"

namespace holdfast::platform {

namespace {

struct Left {
  std::atomic<std::size_t> size;  // 0: unused; storing a size takes the place
  std::atomic<pid_t> process;
  std::atomic<void*> data;  // null: a thread is filling or unmapping it
};
constinit std::array<Left, 64> left{};
constinit std::atomic<int> left_count{0};

// If all places are taken the mapping stays: in practice the kernel never refuses that call.
void keep(void* data, std::size_t size) noexcept {
  for (Left& place : left) {
    std::size_t unused = 0;
    if (!place.size.compare_exchange_strong(unused, size, std::memory_order_relaxed)) continue;
    place.process.store(::getpid(), std::memory_order_relaxed);
    left_count.fetch_add(1, std::memory_order_relaxed);
    place.data.store(data, std::memory_order_release);  // pairs with the exchange of retry()
    return;
  }
}

// A forked child has no part in the pins of its parent, and another mapping may be there by now.
void retry(Left& place) noexcept {
  void* const data = place.data.exchange(nullptr, std::memory_order_acquire);
  if (data == nullptr) return;
  if (place.process.load(std::memory_order_relaxed) == ::getpid() &&
      ::munmap(data, place.size.load(std::memory_order_relaxed)) != 0) {
    place.data.store(data, std::memory_order_release);
    return;
  }
  left_count.fetch_sub(1, std::memory_order_relaxed);
  place.size.store(0, std::memory_order_relaxed);
}

}  // namespace

void unmap(void* data, std::size_t size) noexcept {
  const int saved = errno;
  if (::munmap(data, size) != 0) keep(data, size);
  errno = saved;
}

void unmap_what_is_left() noexcept {
  if (left_count.load(std::memory_order_relaxed) == 0) return;
  for (Left& place : left) retry(place);
}

}  // namespace holdfast::platform
