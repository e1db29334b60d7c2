// One shard in private memory, without a file, for tests that need no second process.
#pragma once

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "dict/geometry.h"
#include "dict/layout.h"
#include "dict/repair.h"
#include "dict/shard.h"
#include "platform/platform.h"
#include "support/world.h"

namespace holdfast::test {

class PrivateShard {
 public:
  /// The object is the first shard of a segment of `size` bytes. The shard ends immediately before an inaccessible
  /// page.
  explicit PrivateShard(std::uint64_t size) : PrivateShard(size, nullptr) { repair(shard_); }
  /// Makes a copy of a shard's bytes.
  PrivateShard(std::uint64_t size, const void* image)
      : geometry_(Geometry::of(size)), mapping_(map(rounded())), shard_(at(), geometry_, mutex_of(at())) {
    if (image != nullptr) std::memcpy(at(), image, geometry_.shard_bytes);
  }

  Shard& shard() noexcept { return shard_; }
  const Geometry& geometry() const noexcept { return geometry_; }
  std::byte* bytes() noexcept { return at(); }
  std::size_t size() const noexcept { return geometry_.shard_bytes; }

 private:
  static constexpr std::size_t kPage = 4096;

  std::size_t rounded() const { return (geometry_.shard_bytes + kPage - 1) / kPage * kPage; }
  // The shard's last byte is the last byte before the guard page.
  std::byte* at() { return mapping_.data() + rounded() - geometry_.shard_bytes; }

  static platform::Mapping map(std::size_t bytes) {
    void* memory = ::mmap(nullptr, bytes + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) std::abort();
    ::mprotect(static_cast<std::byte*>(memory) + bytes, kPage, PROT_NONE);
    return {memory, bytes + kPage};
  }

  static Shmtx mutex_of(std::byte* base) {
    return {reinterpret_cast<ShardHeader*>(base)->mutex, MutexStrategy::futex, enter(), nullptr, 0};
  }

  Geometry geometry_;
  platform::Mapping mapping_;
  Shard shard_;
};

}  // namespace holdfast::test
