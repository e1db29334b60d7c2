#include "world/boot.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <mutex>

#include "platform/platform.h"

namespace holdfast {

namespace {

Boot read_boot() noexcept {
  Boot boot{};
  const platform::FileDescriptor fd(::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  constexpr ssize_t kUuidCharacters = 36;
  if (fd && ::read(fd.get(), boot.id.data(), kUuidCharacters) != kUuidCharacters) boot.id = {};
  boot.time_namespace = time_namespace_now();
  return boot;
}

}  // namespace

// With a dynamically initialised static, a child forked during the initialisation would wait forever.
const Boot& this_boot() noexcept {
  static constinit Boot boot{};
  static constinit std::atomic<bool> known{false};
  static constinit std::mutex filling;  // locked only inside a ForkGuard, so no child finds it locked
  if (known.load(std::memory_order_acquire)) return boot;  // pairs with the store below
  const Boot found = read_boot();
  const platform::ForkGuard no_fork;
  const std::lock_guard alone(filling);
  if (!known.load(std::memory_order_relaxed)) boot = found;
  known.store(true, std::memory_order_release);
  return boot;
}

std::uint64_t time_namespace_now() noexcept {
  struct stat info;
  return ::stat("/proc/self/ns/time", &info) == 0 ? info.st_ino : 0;
}

}  // namespace holdfast
