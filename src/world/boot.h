// Identifies the boot and the time namespace. If both are equal, two processes read the same monotonic clock.
#pragma once

#include <array>
#include <cstdint>

namespace holdfast {

using BootId = std::array<char, 40>;

struct Boot {
  BootId id;                     // /proc/sys/kernel/random/boot_id; zeros if /proc is missing
  std::uint64_t time_namespace;  // inode of /proc/self/ns/time; 0 if there is none
};

/// Returns the boot and the time namespace, which each process reads only once.
const Boot& this_boot() noexcept;

/// Returns the current time namespace. It may differ from the first one, because fork may put a child into another
/// namespace.
std::uint64_t time_namespace_now() noexcept;

/// Compares two boots. Unknown ids count as equal, because record locks then decide.
inline bool is_same_boot(const BootId& one, const BootId& other) noexcept {
  return one[0] == '\0' || other[0] == '\0' || one == other;
}
inline bool is_same_time_namespace(std::uint64_t one, std::uint64_t other) noexcept {
  return one == 0 || other == 0 || one == other;
}

}  // namespace holdfast
