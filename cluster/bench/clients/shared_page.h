// A page of memory that all contenders of a run share, whatever kind of lock they take. They use it to start together,
// and the holder of the lock uses it to detect whether it is alone. cluster/bench/shared_page.lua does the same for
// Lua.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace holdfast::bench {

/// CLOCK_MONOTONIC, in seconds.
double now();
/// Sleeps for this many seconds, which may be 0.
void nap(double seconds);

class SharedPage {
 public:
  /// Maps the file, which must exist. The file stays mapped until the process ends. `self` counts from 0.
  SharedPage(const std::string& path, std::size_t self);

  /// Reports that this contender is ready, waits for the start, and returns the start time. Throws if there is no
  /// start.
  double await_start();
  /// Reports that this contender will not be ready.
  void give_up() { page_->ready[self_].store(-1); }

  /// Runs the section under the lock: keeps the processor busy for this time, and counts how often this contender is
  /// not alone.
  void section(double seconds);
  std::uint64_t overlaps() const { return overlaps_; }

 private:
  static constexpr std::size_t kContendersMax = 64;

  /// All fields of a new page are 0.
  struct Layout {
    std::atomic<double> start;    // CLOCK_MONOTONIC; below 0: no start
    std::atomic<double> owner;    // number of the contender in the section, from 1; 0: nobody
    std::atomic<double> counter;  // counts sections: too low if two overlapped
    std::array<std::atomic<std::int32_t>, kContendersMax> ready;
  };
  static_assert(std::atomic<double>::is_always_lock_free && sizeof(std::atomic<double>) == sizeof(double));

  Layout* const page_;
  const std::size_t self_;
  std::uint64_t overlaps_ = 0;
};

}  // namespace holdfast::bench
