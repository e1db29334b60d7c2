// Switches the process to a different user.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

namespace holdfast::cli {

/// Returns an error message for a bad name or number, or an empty string if the user exists.
std::string check_user(const std::string& name);

/// Switches to a user, by name or number, with all of the user's groups. Drops all rights of root, so that this process
/// opens files with the same access checks as any program of that user. Returns an error message, or an empty string on
/// success. If the switch is allowed and the user differs, calls `before` first, as root.
std::string become_user(const std::string& name, const std::function<void(uid_t)>& before = {});

}  // namespace holdfast::cli
