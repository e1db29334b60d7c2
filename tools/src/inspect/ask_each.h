// Looks at several runtime directories, since a process can observe only one. Each is read by a child process with the
// access of the directory's user, who may be hostile: whatever the directory contains, it leads to no other files, and
// neither crashes this process nor delays it beyond a time limit.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "inspect/user_directories.h"

namespace holdfast::inspect {

using Look = std::function<std::string(const UserDirectory&)>;

struct Answer {
  std::string text;
  std::string trouble;  // why there is no text; empty if there is one
};

/// Calls `look` for each directory in a process of its own, whose environment names the directory. Returns the texts in
/// the same order. A process that does not answer within `seconds` is killed.
std::vector<Answer> ask_each(const std::vector<UserDirectory>& directories, double seconds, const Look& look);

}  // namespace holdfast::inspect
