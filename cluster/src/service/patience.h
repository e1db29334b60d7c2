// How long the agent waits for processes that are stopped inside a dictionary: all calls together for a small part of
// the time. Else such a process would keep it from the lease, and the machine would lose all its locks for one part of
// one dictionary.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/status.h"
#include "platform/platform.h"

namespace holdfast::agent {

class Patience {
 public:
  /// The result of `call(patience_ns) -> Code`.
  template <class Call>
  Code spend(Call&& call) noexcept {
    const std::uint64_t begin_ns = platform::monotonic_ns();
    if (begin_ns - since_ns_ >= kPeriodNs) {
      since_ns_ = begin_ns;
      left_ns_ = kPartNs;
    }
    const Code code = call(left_ns_);
    if (code == Code::timeout) left_ns_ -= std::min(left_ns_, platform::monotonic_ns() - begin_ns);
    return code;
  }

 private:
  // Longer than a process is off its processor for on a busy machine, mostly.
  static constexpr std::uint64_t kPartNs = 50'000'000;
  static constexpr std::uint64_t kPeriodNs = 500'000'000;

  std::uint64_t since_ns_ = 0;
  std::uint64_t left_ns_ = kPartNs;
};

}  // namespace holdfast::agent
