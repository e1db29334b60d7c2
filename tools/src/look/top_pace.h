// How often `holdfast top` looks: as somebody chose, else so that it takes a hundredth of a processor at most.
#pragma once

#include <algorithm>
#include <optional>

namespace holdfast::cli {

inline constexpr double kShortestDelay = 0.1;
inline constexpr double kLongestDelay = 3600;

class TopPace {
 public:
  explicit TopPace(std::optional<double> chosen) : chosen_(chosen) {}

  /// Seconds from a look to the next one.
  double delay() const noexcept {
    constexpr double kUsual = 2;
    constexpr double kShare = 0.01;
    return chosen_.value_or(std::clamp(last_cost_ / kShare, kUsual, kLongestDelay));
  }
  /// `used`: the seconds of processor time that were used so far.
  void note_look(double used) noexcept {
    last_cost_ = used - used_;
    used_ = used;
  }
  /// From now on the time between two looks is so many times as long.
  void stretch(double factor) noexcept { chosen_ = std::clamp(delay() * factor, kShortestDelay, kLongestDelay); }

 private:
  std::optional<double> chosen_;
  double used_ = 0;
  double last_cost_ = 0;  // of a look and all that was done since the one before
};

}  // namespace holdfast::cli
