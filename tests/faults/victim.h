// Runs a scenario once, in up to three processes: a victim, whose allocations or system calls fail; its neighbour; and
// a judge, which checks the result.
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
  std::uint64_t first = 0;    // number of the call that fails, or 0
  bool from_then_on = false;  // whether all later calls also fail
  bool other = false;         // whether system calls fail with their second error
};

struct Outcome {
  std::string problem;  // "" if everything is correct
  std::uint64_t counted = 0;
  std::uint64_t failed = 0;
  std::string first_failed;  // a description of the call
  std::vector<Call> calls;
  std::vector<std::string> kept;  // files that the victim has open or mapped at the end, sorted
};

/// Runs a case in new processes and in a new world. On return, all processes have ended. `limit_seconds` is the
/// victim's time limit.
Outcome run_case(const Module& module, const Case& one, double limit_seconds);

/// Loads the module with the scenarios and the library. On failure, prints a message to stderr and returns null.
const Module* load_module();

}  // namespace holdfast::faults
