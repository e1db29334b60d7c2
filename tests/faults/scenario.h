// A scenario is code that runs while calls fail, and the checks of its result.
//
// The scenarios are in a separate module, which each victim loads. So the library is loaded late, as it is by LuaJIT,
// and its thread-local memory is allocated on first use.
#pragma once

#include <cstddef>

namespace holdfast::faults {

enum class Neighbour { none, alive, dead };

inline constexpr int kMutexCount = 3;
inline constexpr const char* kMutexNames[kMutexCount] = {"futex", "spin", "file"};

struct Scenario {
  const char* name;
  int mutexes;          // the kinds of mutex with which the scenario runs, one bit each
  Neighbour neighbour;  // another process in the world, which holds or held what the victim needs
  void (*prepare)();    // runs while nothing fails
  void (*act)();        // runs while calls fail
  /// Runs when nothing fails any longer. Returns a description of the first error, or "".
  const char* (*settle)();
  bool ends_armed = false;  // the process calls exit() while calls fail, instead of being killed
};

/// The module's interface to the program, which finds it by name.
struct Module {
  const Scenario* scenarios;
  std::size_t count;
  /// Runs the scenario's `prepare` in the victim, with this kind of mutex. `without_memory` tells whether allocations
  /// will fail.
  void (*prepare)(const Scenario& scenario, int mutex, bool without_memory);
  /// Takes the neighbour's locks, which the neighbour holds until it is killed. Returns null on failure.
  const char* (*hold_things)();
  /// These functions check the dictionaries in a process that is new to the world, while the victim lives and after its
  /// end. They return "" if everything is correct.
  const char* (*judge_during_victim)(Neighbour neighbour);
  const char* (*judge_after_victim)(Neighbour neighbour);
};

inline constexpr const char* kModuleSymbol = "holdfast_faults_module";

}  // namespace holdfast::faults
