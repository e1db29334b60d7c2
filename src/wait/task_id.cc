#include "wait/task_id.h"

#include <atomic>

namespace holdfast {

std::uint32_t new_task_ids() noexcept {
  static std::atomic<std::uint32_t> given{0};
  constexpr std::uint32_t kRanges = (std::uint32_t{1} << (32 - kTaskBits)) - 1;
  std::uint32_t last = given.load(std::memory_order_relaxed);
  do {
    if (last == kRanges) return kNoTask;
  } while (!given.compare_exchange_weak(last, last + 1, std::memory_order_relaxed));
  return (last + 1) << kTaskBits;
}

}  // namespace holdfast
