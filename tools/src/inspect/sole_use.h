// Finds whether any process uses a dictionary. A process that opened it counts, and so does a forked child that only
// reads and has no slot in the world. Processes that only read from outside (holdfast_observe) do not count.
//
// Each use is a shared record lock on the file (world/file_use.h). So an exclusive lock proves that there is no use,
// and while it is held it keeps others out: they wait for it, up to 5 s. A process that holds a lock in the dictionary
// need not use it: the command of `holdfast lock` does not.
#pragma once

#include <string>

#include "inspect/descriptor.h"

namespace holdfast::inspect {

struct SoleUse {
  /// Returns whether the held file is still the dictionary's.
  bool still_has_name() const noexcept;
  void close() { held.reset(); }

  Descriptor held = {};  // keeps others out until it is closed
  std::string path = {};
  bool is_used = false;      // by another process
  std::string trouble = {};  // why it is unknown; empty if it is known, or if there is no visible file
};

/// Tries for some milliseconds, because a process that is opening it may be refused or end. REQUIRES: this process has
/// not opened it.
SoleUse take_sole_use(const std::string& directory, const std::string& dictionary);

}  // namespace holdfast::inspect
