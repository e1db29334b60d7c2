// The name of one process in one world, never reused; and what is known about the life of a process.
#pragma once

#include <cstdint>

namespace holdfast {

/// Slot + 1 in the upper 16 bits, the slot's generation in the lower 48. 0: no process.
using Token = std::uint64_t;

inline constexpr Token kNobody = 0;
inline constexpr int kSlotShift = 48;
inline constexpr Token kGenerationMask = (Token{1} << kSlotShift) - 1;

constexpr Token make_token(std::uint32_t slot, std::uint64_t generation) noexcept {
  return (Token{slot} + 1) << kSlotShift | (generation & kGenerationMask);
}
constexpr std::uint32_t slot_of(Token token) noexcept { return static_cast<std::uint32_t>(token >> kSlotShift) - 1; }
constexpr std::uint64_t generation_of(Token token) noexcept { return token & kGenerationMask; }
inline constexpr std::uint64_t kNeverUsed = 0;  // generation of a slot

/// The 31 bits of a token that a mutex has room for: slot + 1, and the lower bits of the generation.
inline constexpr int kOwnerSlotShift = 20;
inline constexpr std::uint64_t kOwnerGenerationMask = (std::uint64_t{1} << kOwnerSlotShift) - 1;
inline constexpr std::uint64_t kOwnerMask = 0x7FFFFFFF;
constexpr std::uint32_t owner_bits(Token token) noexcept {
  return (slot_of(token) + 1) << kOwnerSlotShift | static_cast<std::uint32_t>(token & kOwnerGenerationMask);
}
constexpr std::uint32_t slot_of_owner(std::uint32_t bits) noexcept { return (bits >> kOwnerSlotShift & 0x7FF) - 1; }
constexpr std::uint64_t generation_of_owner(std::uint32_t bits) noexcept { return bits & kOwnerGenerationMask; }

/// Whether a process lives. unknown: the kernel cannot be asked. Report that, and take nothing over.
///
/// The proof is the record lock on its slot (world/process_table.h), which ends with its memory map. So a killed
/// process counts as alive until the kernel has freed its memory: 0.2 to 0.3 s for each GB, longer with a core dump. A
/// child of vfork or posix_spawn that has not called exec yet uses the same memory and keeps it, too. A pidfd is no
/// earlier.
enum class Liveness { dead, alive, unknown };

}  // namespace holdfast
