// Opens a world for the commands. The environment names the world's runtime directory.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "base/status.h"

namespace holdfast::inspect {

/// Opens the world for reading without entering it. Returns the world's directory. On failure, returns not_found,
/// permission or another error, with a message.
Expected<std::string> observe();
/// Returns whether observe() failed because no program has used the directory yet.
bool is_unused_yet(const Status& why);
inline constexpr const char* kUnusedYet = "no program uses holdfast here yet";
inline constexpr const char* kOtherWays = "choose another directory with --dir, or another user with --user";
enum class IfMissing { refuse, create };
/// Enters the world, in order to change something. Returns the world's directory.
Expected<std::string> enter(IfMissing if_missing = IfMissing::refuse);

/// Returns whether the directory is the user's default, because no other directory was named.
bool is_default_directory();
/// Returns the runtime directory that this user's programs will use.
std::string directory_to_be(uid_t user = ::geteuid());

/// Returns the names of the world's dictionaries, sorted.
Expected<std::vector<std::string>> dictionary_names();

/// Makes the message "there is no dictionary "x" in DIR: it contains "a", "b"".
Status no_such_dictionary(const std::string& name);

/// Returns the error message from the last call, or a text for the code if there is no message.
std::string sentence(int code);

}  // namespace holdfast::inspect
