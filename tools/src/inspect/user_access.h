// Lets a process that root runs read the files of another user, with only that user's access rights.
#pragma once

#include <sys/types.h>

#include <string>

namespace holdfast::inspect {

/// Returns the user's name, or the number if the system has no name for it.
std::string name_of_user(uid_t user);

/// Limits this process to the user's access rights. Only the effective ids change, so the user can neither signal nor
/// trace the process. A file system that the user has mounted with FUSE refuses this process instead of delaying it.
/// Returns an error message, or an empty string on success.
std::string look_as_user(uid_t user);

/// In a process that called look_as_user(), restores root's access rights until the end of the block. Does nothing in
/// other processes.
class RootAgain {
 public:
  RootAgain();
  ~RootAgain();
  RootAgain(const RootAgain&) = delete;
  RootAgain& operator=(const RootAgain&) = delete;
};

}  // namespace holdfast::inspect
