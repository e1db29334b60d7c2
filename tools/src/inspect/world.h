// The world of the runtime directory that the environment names, for a process that only looks at it.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "base/status.h"

namespace holdfast::inspect {

/// Looks at the world, without entering it: gives its directory. not_found, permission and others, with a sentence.
Expected<std::string> observe();
/// Enters it, for what changes something: gives its directory. Makes none that is missing.
Expected<std::string> enter();

/// Whether that is the one of the user, as no other was named.
bool is_default_directory();
/// The directory that will be looked at: for that user.
std::string directory_to_be(uid_t user = ::geteuid());

/// The names of the world's dictionaries, in order.
Expected<std::vector<std::string>> dictionary_names();

/// "there is no dictionary "x"; there are: a, b".
Status no_such_dictionary(const std::string& name);

/// The sentence of the last call, or the text of its code.
std::string sentence(int code);

}  // namespace holdfast::inspect
