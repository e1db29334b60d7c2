// The guard of mappings against files that are cut short: the kernel answers an access behind the end by SIGBUS, also
// where a page was taken away and there is no memory for another.
//
// With the guard installed, a handler replaces the whole mapping by private memory in one step: zeros, with a mark by
// which its users notice. The access is repeated there. Without the guard the process ends.
//
// The handler reads the list of mappings: atomic words only, no locks, no memory that is ever freed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace holdfast::platform {

/// How users of a lost mapping notice: these bits are set in the 32-bit word at `offset`.
struct LossMark {
  std::size_t offset = 0;
  std::uint32_t bits = 0;  // 0: there are no users to tell
  bool for_all = false;    // also in the file, if that page is still there
};

/// From now on the guard looks after the mapping. False: no memory to note it.
bool note_mapping(const void* data, std::size_t size, const LossMark& mark) noexcept;
void forget_mapping(const void* data) noexcept;
/// `word`, which lives as long as the process, becomes 0 before that mapping is replaced, and once more after it.
void clear_when_lost(const void* data, std::atomic<std::uint64_t>& word) noexcept;

/// Once for the process; later calls find it there. Signals that do not concern these mappings go to the handler that
/// was there before. An errno value.
int install_bus_guard() noexcept;

}  // namespace holdfast::platform
