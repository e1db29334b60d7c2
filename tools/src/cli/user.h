// Switches the process to another user.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

namespace holdfast::cli {

/// Returns what is wrong with the name or number; empty if there is such a user.
std::string check_user(const std::string& name);

/// Becomes that user, by name or number, with its groups. Gives up all rights of root: files are checked and opened as
/// by any program of that user. Returns what is wrong, or an empty string. `before` runs as root, if this is another
/// user and the switch is allowed.
std::string become_user(const std::string& name, const std::function<void(uid_t)>& before = {});

}  // namespace holdfast::cli
