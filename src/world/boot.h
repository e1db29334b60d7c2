// Which boot this is, and which time namespace: where the monotonic clock of another process means the same.
#pragma once

#include <array>
#include <cstdint>

namespace holdfast {

struct Boot {
  std::array<char, 40> id;       // /proc/sys/kernel/random/boot_id; zeros where /proc is missing
  std::uint64_t time_namespace;  // inode of /proc/self/ns/time; 0 where there is none
};

/// Read once per process.
const Boot& this_boot() noexcept;

}  // namespace holdfast
