// Short names for memory orderings, and stores whose order also holds after a crash.
//
// Two kinds of observers matter. Other processors need orderings that the hardware enforces. For a process that
// inspects a segment after the death of its writer, compiler ordering is enough, because a killed process leaves a
// prefix of its stores in program order.
#pragma once

#include <atomic>
#include <cstdint>

namespace holdfast {

using Word8 = std::atomic<std::uint8_t>;
using Word32 = std::atomic<std::uint32_t>;
using Word64 = std::atomic<std::uint64_t>;
static_assert(Word32::is_always_lock_free && sizeof(Word32) == 4);
static_assert(Word64::is_always_lock_free && sizeof(Word64) == 8);

inline constexpr auto kRelaxed = std::memory_order_relaxed;
inline constexpr auto kAcquire = std::memory_order_acquire;
inline constexpr auto kRelease = std::memory_order_release;

/// Publishes `value`. A thread whose acquire load reads `value` sees all earlier stores of this thread. No later store
/// of this thread is moved before this one. So after a crash, later stores are visible only if `value` is.
template <class T, class V>
inline void commit(std::atomic<T>& where, V value) noexcept {
  where.store(value, kRelease);
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

/// Keeps the compiler from reordering stores. This is enough for an observer that reads them after a crash.
inline void crash_order() noexcept { std::atomic_signal_fence(std::memory_order_seq_cst); }

}  // namespace holdfast
