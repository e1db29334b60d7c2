// Lets a process that root runs look at the files of another user, with no more access than that user has.
#pragma once

#include <sys/types.h>

#include <string>

namespace holdfast::inspect {

/// Returns the user's name, or the number if the system has no name for it.
std::string name_of_user(uid_t user);

/// Limits this process to the user's access. Only the effective ids change, so the user can neither signal nor trace
/// the process. A file system that the user has mounted with FUSE refuses the process instead of delaying it. Returns
/// what is wrong, or an empty string.
std::string look_as_user(uid_t user);

/// Restores root's access in a process that called look_as_user(), until the end of the block. Does nothing in other
/// processes.
class RootAgain {
 public:
  RootAgain();
  ~RootAgain();
  RootAgain(const RootAgain&) = delete;
  RootAgain& operator=(const RootAgain&) = delete;
};

}  // namespace holdfast::inspect
