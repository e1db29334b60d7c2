// Puts an inaccessible page before and after each writable mapping of a file.
#include <sys/mman.h>

#include <mutex>
#include <unordered_set>

extern "C" {
void* __real_mmap(void* address, std::size_t length, int protection, int flags, int fd, off_t offset);
int __real_munmap(void* address, std::size_t length);
void* __wrap_mmap(void* address, std::size_t length, int protection, int flags, int fd, off_t offset);
int __wrap_munmap(void* address, std::size_t length);
}

namespace {

constexpr std::size_t kPage = 4096;

std::mutex mutex;
std::unordered_set<void*>& guarded() {
  static auto* const set = new std::unordered_set<void*>;  // never freed, because it is used until the process ends
  return *set;
}

constexpr std::size_t in_pages(std::size_t length) { return (length + kPage - 1) / kPage * kPage; }

}  // namespace

void* __wrap_mmap(void* address, std::size_t length, int protection, int flags, int fd, off_t offset) {
  if (address != nullptr || fd < 0 || length == 0 || (protection & PROT_WRITE) == 0)
    return __real_mmap(address, length, protection, flags, fd, offset);
  void* const room =
      __real_mmap(nullptr, in_pages(length) + 2 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) return room;
  void* const inner = static_cast<char*>(room) + kPage;
  if (__real_mmap(inner, length, protection, flags | MAP_FIXED, fd, offset) == MAP_FAILED) {
    __real_munmap(room, in_pages(length) + 2 * kPage);
    return MAP_FAILED;
  }
  const std::lock_guard<std::mutex> lock(mutex);
  guarded().insert(inner);
  return inner;
}

int __wrap_munmap(void* address, std::size_t length) {
  const std::lock_guard<std::mutex> lock(mutex);
  if (guarded().erase(address) == 0) return __real_munmap(address, length);
  return __real_munmap(static_cast<char*>(address) - kPage, in_pages(length) + 2 * kPage);
}
