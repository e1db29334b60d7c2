// Reads several runtime directories, each in a child process, because a process can observe only one directory. The
// child has the access rights of the directory's user, who may be hostile. Whatever the directory contains, the child
// reads no file that this user could not read. It can neither crash this process nor delay it beyond a time limit.
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

/// Calls `look` for each directory in a separate process, whose environment names the directory. Returns the answers in
/// the order of the directories. Kills a process that does not answer within `seconds`.
std::vector<Answer> ask_each(const std::vector<UserDirectory>& directories, double seconds, const Look& look);

}  // namespace holdfast::inspect
