// Memory that the processes of a test share in addition to the dictionary. The library does not use it.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <new>

namespace holdfast::crash {

/// A value in memory shared with all forked children. Never unmapped.
template <class T>
T& make_shared_memory() {
  void* memory = ::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  return *new (memory) T{};
}

/// The violations that any process found. All bytes are zero if there are none.
struct Violations {
  std::atomic<std::uint64_t> count;
  std::atomic<std::uint64_t> begun;
  char text[16][160];

  [[gnu::format(printf, 2, 3)]] void add(const char* format, ...) {
    // The violation is counted last, because a process that reads the count may kill this process.
    if (const std::uint64_t number = begun.fetch_add(1); number < std::size(text)) {
      std::va_list arguments;
      va_start(arguments, format);
      std::vsnprintf(text[number], sizeof text[number], format, arguments);
      va_end(arguments);
    }
    count.fetch_add(1);
  }
  void print() const {
    for (const auto& line : text)
      if (line[0] != '\0') std::printf("VIOLATION: %s\n", line);
  }
};

/// Counts durations in bins whose bounds are powers of two, in microseconds.
struct Histogram {
  static constexpr int kBins = 32;
  std::atomic<std::uint64_t> bins[kBins];
  std::atomic<std::uint64_t> longest_us;

  void add(std::uint64_t us) {
    int bin = 0;
    while (bin < kBins - 1 && std::uint64_t{1} << bin <= us) ++bin;
    bins[bin].fetch_add(1);
    std::uint64_t old = longest_us.load();
    while (us > old && !longest_us.compare_exchange_weak(old, us)) {
    }
  }
  std::uint64_t count() const {
    std::uint64_t sum = 0;
    for (const auto& bin : bins) sum += bin.load();
    return sum;
  }
  /// Returns the upper bound (us) of the bin that contains the quantile `part`.
  std::uint64_t quantile(double part) const {
    std::uint64_t left = static_cast<std::uint64_t>(static_cast<double>(count()) * part);
    for (int bin = 0; bin < kBins; ++bin) {
      if (bins[bin].load() > left) return std::uint64_t{1} << bin;
      left -= bins[bin].load();
    }
    return longest_us.load();
  }
};

}  // namespace holdfast::crash
