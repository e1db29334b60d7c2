// Finds out whether any process uses a dictionary. A process that has opened the dictionary is a user. So is a forked
// child that only reads and has no slot in the world. A process that only reads from outside (holdfast_observe) is not
// a user.
//
// Each user has a shared record lock on the file (world/file_use.h). So a process that gets an exclusive record lock
// knows that there are no users. As long as it has the record lock, it keeps other processes out, which wait for up to
// 5 s. A process may hold a lock in the dictionary without using the dictionary, like the command of `holdfast lock`.
#pragma once

#include <string>

#include "inspect/descriptor.h"

namespace holdfast::inspect {

struct SoleUse {
  /// Returns whether the file that `held` has open is still the dictionary's file.
  bool still_has_name() const noexcept;
  void close() { held.reset(); }

  Descriptor held = {};  // the exclusive record lock; keeps other processes out until it is closed
  std::string path = {};
  bool is_used = false;      // another process uses the dictionary
  std::string trouble = {};  // why `is_used` is unknown; empty if it is known, or if the file does not exist
};

/// Tries to get the exclusive record lock for a few milliseconds, because a process that is just opening the dictionary
/// may be refused or may end. REQUIRES: this process has not opened the dictionary.
SoleUse take_sole_use(const std::string& directory, const std::string& dictionary);

}  // namespace holdfast::inspect
