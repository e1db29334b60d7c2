// Decides how long to wait before a dead worker is restarted, so that a broken script does not overload the machine.
#pragma once

#include <algorithm>
#include <chrono>

namespace holdfast::cli {

class Backoff {
 public:
  using Duration = std::chrono::milliseconds;

  static constexpr Duration kFirst{100};
  static constexpr Duration kLongest{5000};
  /// If a worker has lived this long, the next wait is the shortest one again.
  static constexpr Duration kSoundLife{10000};

  template <class Lived>
  Duration next(Lived lived) noexcept {
    if (lived >= kSoundLife) next_ = kFirst;
    const Duration wait = next_;
    next_ = std::min(2 * next_, kLongest);
    return wait;
  }

 private:
  Duration next_ = kFirst;
};

}  // namespace holdfast::cli
