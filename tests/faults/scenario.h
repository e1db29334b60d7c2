// What is done while something fails, and what must hold afterwards.
//
// The scenarios are a module of their own, which each victim loads: so the library is loaded as LuaJIT loads it, late,
// and its thread-local memory is allocated on first use.
#pragma once

#include <cstddef>

namespace holdfast::faults {

enum class Neighbour { none, alive, dead };

inline constexpr int kMutexCount = 3;
inline constexpr const char* kMutexNames[kMutexCount] = {"futex", "spin", "file"};

struct Scenario {
  const char* name;
  int mutexes;          // a bit for each kind that it is gone through with
  Neighbour neighbour;  // another process in the world that holds, or held, what the victim wants
  void (*prepare)();    // nothing fails
  void (*act)();        // something fails
  /// Nothing fails any more. The first thing that is wrong, as a sentence; "" if nothing is.
  const char* (*settle)();
  bool ends_armed = false;  // the process ends by exit() while calls fail, not by a signal
};

/// What the module gives to the program, which finds it by name.
struct Module {
  const Scenario* scenarios;
  std::size_t count;
  /// Calls the scenario's, in a process that goes through it with that kind of mutex. Allocations are what fails, or
  /// not.
  void (*prepare)(const Scenario& scenario, int mutex, bool without_memory);
  /// A process that holds things until it is killed: says when it has them. Null when that failed.
  const char* (*hold_things)();
  /// What a newcomer to the world finds, beside a victim that lives and then beside none; "" if all is as it should be.
  const char* (*judge_beside_victim)(Neighbour neighbour);
  const char* (*judge_after_victim)(Neighbour neighbour);
};

inline constexpr const char* kModuleSymbol = "holdfast_faults_module";

}  // namespace holdfast::faults
