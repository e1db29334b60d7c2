// A scenario is code that runs while calls fail, with checks of the result.
//
// The scenarios are in a separate module, which each victim loads. So the library is loaded late, as LuaJIT does it,
// and its thread-local memory is allocated on first use.
#pragma once

#include <cstddef>

namespace holdfast::faults {

enum class Neighbour { none, alive, dead };

inline constexpr int kMutexCount = 3;
inline constexpr const char* kMutexNames[kMutexCount] = {"futex", "spin", "file"};

struct Scenario {
  const char* name;
  int mutexes;          // one bit for each kind of mutex with which the scenario runs
  Neighbour neighbour;  // another process in the world, which holds or held what the victim needs
  void (*prepare)();    // runs while nothing fails
  void (*act)();        // runs while calls fail
  /// Runs when nothing fails any longer. Returns a description of the first error, or "".
  const char* (*settle)();
  bool ends_armed = false;  // the process ends with exit() while calls fail, not with a signal
};

/// The module's interface to the program, which finds it by name.
struct Module {
  const Scenario* scenarios;
  std::size_t count;
  /// Runs the scenario's `prepare` in the victim, with this kind of mutex. `without_memory`: whether allocations will
  /// fail.
  void (*prepare)(const Scenario& scenario, int mutex, bool without_memory);
  /// Takes the neighbour's locks, which it holds until it is killed. Returns null on failure.
  const char* (*hold_things)();
  /// Check the dictionaries as a process that is new to the world, while the victim lives and after its end. Return ""
  /// if everything is correct.
  const char* (*judge_during_victim)(Neighbour neighbour);
  const char* (*judge_after_victim)(Neighbour neighbour);
};

inline constexpr const char* kModuleSymbol = "holdfast_faults_module";

}  // namespace holdfast::faults
