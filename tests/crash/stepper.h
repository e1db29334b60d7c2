// Runs a function in a child process one machine instruction at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace holdfast::crash {

struct Stepped {
  std::uint64_t instructions = 0;
  std::uint64_t start_ns = 0;  // when the preparation ended
  int status = -1;             // the result of `run`
  std::string problem;         // "" if `run` returned
};

/// Forks. The child calls `prepare` at full speed, and then `run`, one instruction at a time. This process calls
/// `before_first` before the first instruction of `run`, and `after_each` after every instruction. On return, the child
/// is dead.
Stepped step_through(const std::function<void()>& prepare, const std::function<int()>& run,
                     const std::function<void()>& before_first, const std::function<void()>& after_each);

/// The bytes of a segment.
using Image = std::vector<std::byte>;

/// Steps like step_through(). Returns an image of the segment before the first instruction, and one after each
/// instruction that changes one of the first `compared` bytes.
std::vector<Image> step_images(const std::function<void()>& prepare, const std::function<int()>& run,
                               std::span<const std::byte> bytes, std::size_t compared, Stepped& result);

}  // namespace holdfast::crash
