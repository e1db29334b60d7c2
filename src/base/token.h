// A token identifies one process in one world (runtime directory), and is never reused. Liveness says whether a process
// is alive.
#pragma once

#include <cstdint>

namespace holdfast {

/// The upper 16 bits are the slot + 1, and the lower 48 bits are the slot's generation. 0 means no process.
using Token = std::uint64_t;

inline constexpr Token kNobody = 0;
inline constexpr int kSlotShift = 48;
inline constexpr Token kGenerationMask = (Token{1} << kSlotShift) - 1;

constexpr Token make_token(std::uint32_t slot, std::uint64_t generation) noexcept {
  return (Token{slot} + 1) << kSlotShift | (generation & kGenerationMask);
}
constexpr std::uint32_t slot_of(Token token) noexcept { return static_cast<std::uint32_t>(token >> kSlotShift) - 1; }
constexpr std::uint64_t generation_of(Token token) noexcept { return token & kGenerationMask; }
inline constexpr std::uint64_t kNeverUsed = 0;  // the generation of a slot that never had an owner

/// The 31 bits of a token that fit into a mutex word: the slot + 1, and the lower bits of the generation.
inline constexpr int kOwnerSlotShift = 20;
inline constexpr std::uint64_t kOwnerGenerationMask = (std::uint64_t{1} << kOwnerSlotShift) - 1;
inline constexpr std::uint64_t kOwnerMask = 0x7FFFFFFF;
constexpr std::uint32_t owner_bits(Token token) noexcept {
  return (slot_of(token) + 1) << kOwnerSlotShift | static_cast<std::uint32_t>(token & kOwnerGenerationMask);
}
constexpr std::uint32_t slot_of_owner(std::uint32_t bits) noexcept { return (bits >> kOwnerSlotShift & 0x7FF) - 1; }
constexpr std::uint64_t generation_of_owner(std::uint32_t bits) noexcept { return bits & kOwnerGenerationMask; }

/// Says whether a process is alive. `unknown` means that the kernel does not say. In this case, report an error, and
/// take nothing from the process.
///
/// A process proves that it is alive by the record lock on its slot (world/process_table.h), which ends when the
/// process's memory map is destroyed. So a killed process counts as alive until the kernel has freed its memory, which
/// takes 0.2 to 0.3 s for each GB, and longer with a core dump. A child of vfork or posix_spawn shares the memory until
/// it calls exec, and thereby keeps the lock. A pidfd would not report the end earlier.
enum class Liveness { dead, alive, unknown };

}  // namespace holdfast
