// One run of one scenario: a victim whose allocations or calls fail, its neighbour, and a judge of the result.
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
  std::uint64_t first = 0;    // number of the call that fails; 0: none
  bool from_then_on = false;  // whether all later calls fail too
  bool other = false;         // calls: fail with their second error
};

struct Outcome {
  std::string problem;  // "" if everything is correct
  std::uint64_t counted = 0;
  std::uint64_t failed = 0;
  std::string first_failed;  // as text
  std::vector<Call> calls;
  std::vector<std::string> kept;  // what the victim has open or mapped at the end, in order
};

/// Runs in new processes and a new world. All processes have ended on return. `limit_seconds`: time limit of the
/// victim.
Outcome run_case(const Module& module, const Case& one, double limit_seconds);

/// Loads the scenarios, and with them the library. Returns null after a message on stderr if that fails.
const Module* load_module();

}  // namespace holdfast::faults
