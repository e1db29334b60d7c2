// The world of the runtime directory in the environment, for a process that only reads it.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "base/status.h"

namespace holdfast::inspect {

/// Opens the world for reading, without entering it. Returns its directory; or not_found, permission and other errors,
/// with a message.
Expected<std::string> observe();
/// Enters the world, to change something. Returns its directory. Creates none if it is missing.
Expected<std::string> enter();

/// Returns whether it is the user's default directory, because no other was named.
bool is_default_directory();
/// Returns the directory that will be used for that user.
std::string directory_to_be(uid_t user = ::geteuid());

/// Returns the names of the world's dictionaries, sorted.
Expected<std::vector<std::string>> dictionary_names();

/// Makes the message "there is no dictionary "x"; there are: a, b".
Status no_such_dictionary(const std::string& name);

/// Returns the message of the last call, or the text of its code.
std::string sentence(int code);

}  // namespace holdfast::inspect
