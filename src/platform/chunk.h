// A list that grows in chunks, without a lock, and never shrinks, so that signal handlers may read it.
#pragma once

#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <new>

namespace holdfast::platform {

/// A chunk of the list. Initially, all of it is zero, including the items. The first chunk of a list is static.
template <class Item, std::size_t Items>
struct Chunk {
  std::atomic<Chunk*> next;  // acquire: pairs with the release in after()
  std::array<Item, Items> items;

  /// Returns the next chunk, and allocates it if necessary. Returns null if there is no memory.
  Chunk* after() noexcept {
    static_assert(sizeof(Chunk) <= 4096);
    if (Chunk* const known = next.load(std::memory_order_acquire)) return known;
    void* const page = ::mmap(nullptr, sizeof(Chunk), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return nullptr;
    auto* const fresh = new (page) Chunk{};
    Chunk* other = nullptr;
    // Release: pairs with the acquire loads of `next`.
    if (next.compare_exchange_strong(other, fresh, std::memory_order_release, std::memory_order_acquire)) return fresh;
    ::munmap(page, sizeof(Chunk));
    return other;
  }
};

}  // namespace holdfast::platform
