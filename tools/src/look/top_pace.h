// Decides how often `holdfast top` refreshes. By default, it takes at most 1 % of a processor; the user can choose
// another interval.
#pragma once

#include <algorithm>
#include <optional>

namespace holdfast::cli {

inline constexpr double kShortestDelay = 0.1;
inline constexpr double kLongestDelay = 3600;

class TopPace {
 public:
  explicit TopPace(std::optional<double> chosen) : chosen_(chosen) {}

  /// Returns the seconds between two refreshes.
  double delay() const noexcept {
    constexpr double kUsual = 2;
    constexpr double kShare = 0.01;
    return chosen_.value_or(std::clamp(last_cost_ / kShare, kUsual, kLongestDelay));
  }
  /// `used`: the processor time used so far, in seconds.
  void note_look(double used) noexcept {
    last_cost_ = used - used_;
    used_ = used;
  }
  /// Multiplies the time between two refreshes by `factor`.
  void stretch(double factor) noexcept { chosen_ = std::clamp(delay() * factor, kShortestDelay, kLongestDelay); }

 private:
  std::optional<double> chosen_;
  double used_ = 0;
  double last_cost_ = 0;  // the cost of the last refresh and of everything since the refresh before it
};

}  // namespace holdfast::cli
