// Makes this process enter a world, and gives the results of calls short names.
#pragma once

#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <string>

#include "base/time.h"
#include "platform/platform.h"
#include "sync/shmtx.h"
#include "world/world.h"

namespace holdfast::test {

using platform::monotonic_ns;

inline constexpr std::uint64_t kLongNs = 60 * kNsPerSecond;

/// Enters the world. Ends the process on failure.
inline World& enter() {
  auto world = World::current();
  if (!world) {
    std::fprintf(stderr, "%s\n", world.status().message.c_str());
    ::_exit(99);
  }
  return **world;
}

inline std::string text_of(LockResult result) {
  constexpr std::array kTexts{"acquired", "owner died", "timeout", "busy", "failed"};
  return kTexts.at(static_cast<std::size_t>(result));
}

}  // namespace holdfast::test
