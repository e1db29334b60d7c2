// Lets a process that root runs look at the files of another user, with no more access than that user has.
#pragma once

#include <sys/types.h>

#include <string>

namespace holdfast::inspect {

/// Returns the user's name, or the number if the system has no name for it.
std::string name_of_user(uid_t user);

/// Limits the access of this process to what the user may access. Only the effective ids change, so the user can
/// neither signal nor trace the process. Also, a file system that the user has mounted with FUSE refuses the process
/// instead of delaying it. Returns what is wrong, or an empty string.
std::string look_as_user(uid_t user);

/// Gives a process that called look_as_user() root's access again, until the end of the block. Does nothing in other
/// processes.
class RootAgain {
 public:
  RootAgain();
  ~RootAgain();
  RootAgain(const RootAgain&) = delete;
  RootAgain& operator=(const RootAgain&) = delete;
};

}  // namespace holdfast::inspect
