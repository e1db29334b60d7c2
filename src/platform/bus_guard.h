// The bus guard protects the process when the file behind a mapping is truncated. After a truncation, the kernel
// answers an access beyond the end of the file with SIGBUS. The kernel also sends SIGBUS if a page was taken away and
// there is no memory for a new page.
//
// With the guard installed, a signal handler replaces the whole mapping with private memory in one step. This memory
// contains zeros, and a mark for the mapping's users. The access is then repeated there. Without the guard, the process
// would die.
//
// Because the handler reads the list of mappings, the list consists of atomic words without locks, and its memory is
// never freed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace holdfast::platform {

/// Says how users notice that a mapping was lost: these bits are set in the 32-bit word at `offset`.
struct LossMark {
  std::size_t offset = 0;
  std::uint32_t bits = 0;  // 0: no users to notify
  bool for_all = false;    // also set the bits in the file, if that page still exists
};

/// Registers the mapping with the guard. Returns false if there is not enough memory.
bool note_mapping(const void* data, std::size_t size, const LossMark& mark) noexcept;
void forget_mapping(const void* data) noexcept;
/// Makes the guard set `word` to 0 before it replaces the mapping, and again afterwards. REQUIRES: the word lives as
/// long as the process.
void clear_when_lost(const void* data, std::atomic<std::uint64_t>& word) noexcept;

/// Installs the handler once for the process; later calls do nothing. The handler passes signals that do not concern
/// these mappings to the previous handler. Returns an errno value.
int install_bus_guard() noexcept;

}  // namespace holdfast::platform
