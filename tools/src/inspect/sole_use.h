// Finds whether any process uses a dictionary. A process that opened the dictionary counts. A forked child that only
// reads and has no slot in the world counts, too. Processes that only read from outside (holdfast_observe) do not
// count.
//
// Each use is a shared record lock on the file (world/file_use.h). So whoever gets an exclusive record lock knows that
// there is no use, and keeps other processes out as long as it holds the record lock: they wait for it, up to 5 s. A
// process may hold a lock in the dictionary without using the dictionary, like the command of `holdfast lock`.
#pragma once

#include <string>

#include "inspect/descriptor.h"

namespace holdfast::inspect {

struct SoleUse {
  /// Returns whether the held file is still the dictionary's file.
  bool still_has_name() const noexcept;
  void close() { held.reset(); }

  Descriptor held = {};  // the exclusive record lock; keeps other processes out until it is closed
  std::string path = {};
  bool is_used = false;      // by another process
  std::string trouble = {};  // why `is_used` is unknown; empty if it is known, or if the file does not exist
};

/// Tries for a few milliseconds, because a process that is just opening the dictionary may be refused or may end.
/// REQUIRES: this process has not opened the dictionary.
SoleUse take_sole_use(const std::string& directory, const std::string& dictionary);

}  // namespace holdfast::inspect
