// Files that show what a process keeps after exec:
//
//   hold-<token>          the process with that token still counts as alive, although it now runs another program
//   use-<byte>-<number>   a dictionary's file is in use under its name; <byte> is name_byte() of world/name_use.h, and
//                         <number> is random
//
// The new program may run as another user, so the descriptors that it inherits must give no access to the world
// (runtime directory). Therefore, each call makes a separate file, which is empty and open for reading only. A shared
// record lock on the file's first byte lasts until the last copy of the descriptor is closed.
//
// A file gets its name after it is locked, so a named file without a lock was left behind by a program that has exited.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/token.h"
#include "platform/platform.h"
#include "world/world_file.h"

namespace holdfast {

class RuntimeDirectory;

inline constexpr std::string_view kHoldPrefix = "hold-";
inline constexpr std::string_view kUsePrefix = "use-";
inline bool is_kept_file(std::string_view file) noexcept {
  return file.starts_with(kHoldPrefix) || file.starts_with(kUsePrefix);
}

inline std::string hold_file_name(Token token) { return std::string(kHoldPrefix) + hexadecimal(token); }
/// Returns the prefix of the names of all use files for this byte.
inline std::string use_file_prefix(std::uint64_t byte) { return std::string(kUsePrefix) + hexadecimal(byte) + "-"; }
/// Returns the number in the name of a hold file (the token) or of a use file (the byte). Returns 0 for any other name.
inline std::uint64_t number_of_kept_file(std::string_view name, std::string_view prefix) noexcept {
  constexpr std::size_t kDigits = 16;
  if (!name.starts_with(prefix) || name.size() < prefix.size() + kDigits) return 0;
  std::uint64_t number = 0;
  for (const char digit : name.substr(prefix.size(), kDigits)) {
    const bool is_decimal = digit >= '0' && digit <= '9';
    if (!is_decimal && (digit < 'a' || digit > 'f')) return 0;
    number = number << 4 | static_cast<std::uint64_t>(is_decimal ? digit - '0' : digit - 'a' + 10);
  }
  return number;
}
inline Token token_of_hold_file(std::string_view name) noexcept { return number_of_kept_file(name, kHoldPrefix); }
inline std::uint64_t byte_of_use_file(std::string_view name) noexcept { return number_of_kept_file(name, kUsePrefix); }

/// Makes a hold file or a use file, and returns the descriptor for the program.
Expected<platform::FileDescriptor> keep_life(const RuntimeDirectory& directory, Token token);
Expected<platform::FileDescriptor> keep_use(const RuntimeDirectory& directory, std::uint64_t byte);

/// The state of a kept file. `missing` means that the directory has no such file, and `unknown` means that the kernel
/// does not report the state.
enum class Kept { locked, ended, missing, unknown };
/// Returns the state of the file hold-<token>. Uses the directory's path, even if the directory now has another process
/// table.
Kept find_life(const RuntimeDirectory& directory, Token token) noexcept;
/// Calls `visit` with the token in the name of each hold file. Returns whether it has found all these files.
bool for_each_life(const RuntimeDirectory& directory, const std::function<void(Token)>& visit);
/// Removes the file hold-<token>, even if it is locked.
void forget_life(const RuntimeDirectory& directory, Token token) noexcept;

// The calls below treat unknown as kept. Each call lists the directory.

/// Returns whether any program keeps a file of this directory locked.
bool is_anything_kept(const RuntimeDirectory& directory);
/// Returns whether a program keeps a use file of this byte locked.
bool is_use_kept(const RuntimeDirectory& directory, std::uint64_t byte);
/// Returns the same for any byte in [first, end) except `own`.
bool is_other_use_kept(const RuntimeDirectory& directory, std::uint64_t first, std::uint64_t end, std::uint64_t own);

/// Removes the files of this byte. Call this when the dictionary's file is removed. Processes that use the dictionary
/// detect the removal themselves, and the files would only delay new processes.
void forget_uses(const RuntimeDirectory& directory, std::uint64_t byte);
/// Removes the file if its program has exited. Returns whether the file is gone.
bool remove_leftover(int directory_fd, const char* name) noexcept;
/// Removes the use files of exited programs.
void remove_left_uses(const RuntimeDirectory& directory);

}  // namespace holdfast
