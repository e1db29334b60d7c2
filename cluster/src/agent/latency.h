// How long requests take: counts of those that took no longer than each of some times, as a page of metrics has them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace holdfast::agent {

class Latency {
 public:
  /// In microseconds. A request within a store's own building takes some hundreds; one that took longer than the last
  /// of them is in no bucket, but counts.
  static constexpr std::array<std::int64_t, 12> kBounds{250,    500,    1'000,   2'000,   5'000,   10'000,
                                                        20'000, 50'000, 100'000, 200'000, 500'000, 1'000'000};

  void add(std::int64_t us) noexcept {
    ++count_;
    sum_us_ += us;
    const auto* const bound = std::lower_bound(kBounds.begin(), kBounds.end(), us);
    if (bound != kBounds.end()) ++counts_[static_cast<std::size_t>(bound - kBounds.begin())];
  }

  std::uint64_t count() const noexcept { return count_; }
  std::int64_t sum_us() const noexcept { return sum_us_; }
  /// How many took no longer than kBounds[index].
  std::uint64_t within(std::size_t index) const noexcept {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i <= index; ++i) sum += counts_[i];
    return sum;
  }

 private:
  std::uint64_t count_ = 0;
  std::int64_t sum_us_ = 0;
  std::array<std::uint64_t, kBounds.size()> counts_{};
};

}  // namespace holdfast::agent
