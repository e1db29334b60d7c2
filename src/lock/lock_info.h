// Who holds a lock or permits, and why: for people.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/status.h"
#include "dict/dictionary.h"
#include "lock/lock.h"

namespace holdfast {

/// What was found at one instant.
struct HolderInfo {
  Lease lease;
  std::uint64_t since_ms = 0;
  std::uint64_t end_ms = 0;             // dict/expiry.h: 0 is never
  std::uint32_t permits = 1;            // kAllPermits: of a rwlock, to write
  std::array<char, kWhyMax + 1> why{};  // ends with a zero byte

  // Of its process, if that has not been forgotten.
  Liveness liveness = Liveness::dead;
  std::uint32_t pid = 0;
  std::uint32_t worker = 0;
  std::array<char, 16> program{};  // ends with a zero byte
};

struct HolderCount {
  std::uint32_t holders = 0;
  std::uint32_t waiters = 0;  // watchers included
};

/// As many of the holders as there is room for, those who have held it longest, in this order. A holder that is dead is
/// told, with `liveness` dead; one of which the lease is over is not. ok, timeout, busy, removed.
Code find_holders(Dictionary& dictionary, std::string_view key, std::span<HolderInfo> holders,
                  HolderCount& count) noexcept;

/// Says why the lease is held; an empty text takes that back. ok, not_owner, no_memory (nothing changed), timeout,
/// busy, removed. REQUIRES: `why` has at most kWhyMax bytes.
Code explain(Dictionary& dictionary, std::string_view key, const Lease& lease, std::string_view why) noexcept;

}  // namespace holdfast
