// Runs a function in a child process one machine instruction at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace holdfast::crash {

struct Stepped {
  std::uint64_t instructions = 0;
  int status = -1;      // what `run` returned
  std::string problem;  // "" if it ran to its end
};

/// Forks. The child calls `prepare` at full speed, then `run` step by step; `before_first` is called here in between,
/// and `after_each` after every instruction. The child is dead when this returns.
Stepped step_through(const std::function<void()>& prepare, const std::function<int()>& run,
                     const std::function<void()>& before_first, const std::function<void()>& after_each);

}  // namespace holdfast::crash
