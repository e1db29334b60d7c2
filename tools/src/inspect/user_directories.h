// Finds the runtime directories of all users: /dev/shm/holdfast-UID. Directories named by HOLDFAST_DIR may be anywhere,
// and are not found.
//
// Any user may create a directory with such a name, so it counts only if it belongs to the user in its name. The search
// opens the directories only for fstat, and crosses no mount point, because a user may have mounted a file system that
// never answers.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <vector>

namespace holdfast::inspect {

struct UserDirectory {
  std::string path;
  uid_t user = 0;
};

/// The data that commands show about a runtime directory.
struct DirectoryLook {
  std::string path;
  std::string user;
  std::string trouble;  // why the directory could not be read; empty if it could
};

struct UserDirectories {
  std::vector<UserDirectory> found;  // sorted by user, so that system users come first; at most kMost
  std::size_t left_out = 0;          // the number of further directories
  std::vector<std::string> refused;  // sorted paths of directories that do not belong to the user in their names

  static constexpr std::size_t kMost = 1000;
};

UserDirectories find_user_directories();

}  // namespace holdfast::inspect
