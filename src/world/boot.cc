#include "world/boot.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

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

const Boot& this_boot() noexcept {
  static const Boot boot = read_boot();
  return boot;
}

std::uint64_t time_namespace_now() noexcept {
  struct stat info;
  return ::stat("/proc/self/ns/time", &info) == 0 ? info.st_ino : 0;
}

}  // namespace holdfast
