// Who holds a lock or permits, and why: for people.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "dict/dictionary.h"
#include "lock/lock.h"

namespace holdfast {

/// What was found at one instant. Where several hold something, the one who has held it longest.
struct Holder {
  Lease lease;
  std::uint64_t since_ms = 0;
  std::uint64_t end_ms = 0;  // dict/expiry.h: 0 is never
  std::uint32_t waiters = 0;
  std::array<char, kWhyMax + 1> why{};  // ends with a zero byte

  // Of its process, if that has not been forgotten.
  Liveness liveness = Liveness::dead;
  std::uint32_t pid = 0;
  std::uint32_t worker = 0;
  std::array<char, 16> program{};  // ends with a zero byte
};

/// ok, not_found (nobody holds it, or the lease is over), timeout, busy, removed. A holder that is dead is told, with
/// `liveness` dead.
Code find_holder(Dictionary& dictionary, std::string_view key, Holder& holder) noexcept;

/// Says why the lease is held; an empty text takes that back. ok, not_owner, no_memory (nothing changed), timeout,
/// busy, removed. REQUIRES: `why` has at most kWhyMax bytes.
Code explain(Dictionary& dictionary, std::string_view key, const Lease& lease, std::string_view why) noexcept;

}  // namespace holdfast
