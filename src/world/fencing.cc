#include "world/fencing.h"

#include <algorithm>

namespace holdfast {

namespace {

/// The maximum by which the copy may lag behind `last`: the number of processes that have taken a range but were
/// stopped before they wrote the copy.
constexpr std::uint64_t kBehindAtMost = 1 << 16;

}  // namespace

void FencingRanges::initialise() const noexcept {
  memory_->last.store(seal(kFirstFencingRange - 1), kRelaxed);
  memory_->copy.store(seal(kFirstFencingRange - 1), kRelaxed);
}

std::uint64_t FencingRanges::last_of(std::uint64_t last, std::uint64_t copy, bool& damaged) const noexcept {
  damaged = false;
  if (is_sealed(last) && is_sealed(copy) && copy <= last) return unseal(last);
  damaged = true;
  const std::uint64_t known = is_sealed(copy) ? unseal(copy) + kBehindAtMost : kFirstFencingRange + kBehindAtMost;
  return is_sealed(last) ? std::max(unseal(last), is_sealed(copy) ? unseal(copy) : 0) : known;
}

std::uint64_t FencingRanges::last() const noexcept {
  bool damaged = false;
  const std::uint64_t copy = memory_->copy.load(kAcquire);
  return last_of(memory_->last.load(kRelaxed), copy, damaged);
}

std::uint64_t FencingRanges::take(std::uint64_t above) const noexcept {
  for (;;) {
    // Load the copy first. It was written after `last`, which is loaded next. Pairs with the release in raise_copy().
    const std::uint64_t copy = memory_->copy.load(kAcquire);
    std::uint64_t last = memory_->last.load(kRelaxed);
    bool damaged = false;
    const std::uint64_t range = std::max(last_of(last, copy, damaged), above) + 1;
    // Relaxed is enough: only uniqueness matters, and all threads see the changes of a single word in the same order.
    if (!memory_->last.compare_exchange_strong(last, seal(range), kRelaxed)) continue;
    raise_copy(range);
    if (damaged) count_corruption_repaired();
    return range;
  }
}

void FencingRanges::raise_copy(std::uint64_t count) const noexcept {
  std::uint64_t copy = memory_->copy.load(kRelaxed);
  while (!is_sealed(copy) || unseal(copy) < count || copy > memory_->last.load(kRelaxed)) {
    // Release: a reader of the copy sees a `last` that is at least as high.
    if (memory_->copy.compare_exchange_weak(copy, seal(count), kRelease, kRelaxed)) return;
  }
}

}  // namespace holdfast
