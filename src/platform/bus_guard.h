// Protects the process when the file behind a mapping is truncated. The kernel answers an access behind the end with
// SIGBUS, and also if a page was taken away and there is no memory for another.
//
// With the guard installed, a signal handler replaces the whole mapping by private memory in one step: zeros, with a
// mark for its users. The access is then repeated there. Without the guard the process dies.
//
// The handler reads the list of mappings, so the list has atomic words only, no locks, and no memory that is ever
// freed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace holdfast::platform {

/// How users notice that a mapping was lost: these bits are set in the 32-bit word at `offset`.
struct LossMark {
  std::size_t offset = 0;
  std::uint32_t bits = 0;  // 0: no users to notify
  bool for_all = false;    // set them also in the file, if that page still exists
};

/// Puts the mapping under the guard. False: no memory to register it.
bool note_mapping(const void* data, std::size_t size, const LossMark& mark) noexcept;
void forget_mapping(const void* data) noexcept;
/// Sets `word` to 0 before the mapping is replaced, and again after it. The word must live as long as the process.
void clear_when_lost(const void* data, std::atomic<std::uint64_t>& word) noexcept;

/// Installs the handler once for the process; later calls do nothing. Signals that do not concern these mappings go to
/// the previous handler. Returns an errno value.
int install_bus_guard() noexcept;

}  // namespace holdfast::platform
