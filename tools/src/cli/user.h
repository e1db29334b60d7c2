// Another user than the one that started the command.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

namespace holdfast::cli {

/// What is wrong with the name or number; empty: there is such a user.
std::string check_user(const std::string& name);

/// Becomes that user, by name or number, in its groups. All that root could do is given up: files of that user are
/// judged and opened as by one of its own programs. What is wrong; empty: nothing is. `before` runs as root, if this is
/// another user and may become it.
std::string become_user(const std::string& name, const std::function<void(uid_t)>& before = {});

}  // namespace holdfast::cli
