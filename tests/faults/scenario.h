// What is done while something fails, and what must hold afterwards.
//
// The scenarios are a module of their own, which each victim loads: so the library is loaded as LuaJIT loads it, late,
// and its thread-local memory is allocated on first use.
#pragma once

namespace holdfast::faults {

enum class Neighbour { none, alive, dead };

struct Scenario {
  const char* name;
  Neighbour neighbour;  // another process in the world that holds, or held, what the victim wants
  bool ends_armed;      // the process ends by exit() while calls fail, not by a signal
  void (*prepare)();    // nothing fails
  void (*act)();        // something fails
  /// Nothing fails any more. The first thing that is wrong, as a sentence; "" if nothing is.
  const char* (*settle)();
};

/// What the module gives to the program, which finds it by name.
struct Module {
  const Scenario* scenarios;
  int count;
  /// A process that holds things until it is killed: says when it has them. Null when that failed.
  const char* (*hold_things)();
  /// What a newcomer to the world finds, beside a victim that lives and then beside none; "" if all is as it should be.
  const char* (*judge_beside_victim)(Neighbour neighbour);
  const char* (*judge_after_victim)(Neighbour neighbour);
};

inline constexpr const char* kModuleSymbol = "holdfast_faults_module";

}  // namespace holdfast::faults
