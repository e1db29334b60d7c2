#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

#include "platform/platform.h"

namespace holdfast::platform {

std::size_t page_bytes() noexcept {
  // Not a static of that value: a child forked while another thread initialises it would wait for ever.
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
  note_credentials_of_mapping();
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
  // A pin that a child inherits would keep the lock after its owner's death: without this there is no pin.
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

}  // namespace holdfast::platform
