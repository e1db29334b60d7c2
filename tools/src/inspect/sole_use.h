// Finds whether any process uses a dictionary. A process that opened the dictionary counts. So does a forked child that
// only reads and has no slot in the world. Processes that only read from outside (holdfast_observe) do not count.
//
// Each use is a shared record lock on the file (world/file_use.h). So an exclusive lock proves that there is no use.
// While it is held, it keeps other processes out: they wait for it, up to 5 s. A process that holds a lock in the
// dictionary need not use the dictionary; the command of `holdfast lock` does not.
#pragma once

#include <string>

#include "inspect/descriptor.h"

namespace holdfast::inspect {

struct SoleUse {
  /// Returns whether the held file is still the dictionary's file.
  bool still_has_name() const noexcept;
  void close() { held.reset(); }

  Descriptor held = {};  // keeps other processes out until it is closed
  std::string path = {};
  bool is_used = false;      // by another process
  std::string trouble = {};  // why `is_used` is unknown; empty if known, or if there is no visible file
};

/// Tries for a few milliseconds, because a process that is opening the dictionary may be refused or may end. REQUIRES:
/// this process has not opened the dictionary.
SoleUse take_sole_use(const std::string& directory, const std::string& dictionary);

}  // namespace holdfast::inspect
