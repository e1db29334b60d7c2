// One run of one scenario: a victim with allocations or calls that fail, its neighbour, and the judge of what is left.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "faults/calls.h"
#include "faults/scenario.h"

namespace holdfast::faults {

enum class Kind { allocations, calls };

struct Case {
  Kind kind = Kind::allocations;
  std::size_t scenario = 0;
  int mutex = 0;
  std::uint64_t first = 0;    // which fails; 0: none
  bool from_then_on = false;  // all after it too
  bool other = false;         // calls: with the other of their two errors
};

struct Outcome {
  std::string problem;  // "" if all that must hold does
  std::uint64_t counted = 0;
  std::uint64_t failed = 0;
  std::string first_failed;  // what, in words
  std::vector<Call> calls;
  std::vector<std::string> kept;  // what the victim has open or mapped at the end, in order
};

/// In processes and a world of its own; none of them is left when it returns. `limit_seconds`: for the victim.
Outcome run_case(const Module& module, const Case& one, double limit_seconds);

/// Loads the scenarios, and the library with them; null, with a sentence on stderr, where that fails.
const Module* load_module();

}  // namespace holdfast::faults
