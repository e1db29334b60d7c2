// Whether any process uses a dictionary: one that has opened it, or a forked child that only reads and has no place
// among the processes of the world. Those that only look (holdfast_observe) do not count.
//
// Each use is a shared record lock on the file (world/file_use.h), so an exclusive one proves that there is none, and
// keeps others out as long as it is held: they wait for it, up to 5 s. A process that holds a lock in the dictionary
// need not use it: the command of `holdfast lock` does not.
#pragma once

#include <string>

#include "inspect/descriptor.h"

namespace holdfast::inspect {

struct SoleUse {
  /// Whether the file that is held is still the dictionary's.
  bool still_has_name() const noexcept;
  void close() { held.reset(); }

  Descriptor held = {};  // keeps others out until it is closed
  std::string path = {};
  bool is_used = false;      // by another process
  std::string trouble = {};  // why that cannot be told; empty if it can, or if there is no file to be seen
};

/// Tries for some milliseconds: a process that is about to open it may be refused, or end. This process must not have
/// opened it.
SoleUse take_sole_use(const std::string& directory, const std::string& dictionary);

}  // namespace holdfast::inspect
