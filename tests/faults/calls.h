// System calls of another process that fail when it is told so, by seccomp's notifications: whatever makes the call,
// the C library or the library itself, in any thread and in forked children.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace holdfast::faults {

/// In the victim: has all its later system calls asked about, through the descriptor that `channel` (a socket) gets.
/// 0, or an errno value.
int ask_about_calls(int channel) noexcept;
/// In the victim: from here on calls count, and fail; or no more.
void arm_calls() noexcept;
void disarm_calls() noexcept;

/// Where ask_about_calls sends its descriptor to; -1 on failure.
int receive_descriptor(int channel) noexcept;

/// A call as it was made, and in which ways it can fail.
struct Call {
  const char* name;
  int error;        // in the way that was chosen
  int other_error;  // another way; 0: there is none
};

/// Answers for one victim.
class CallJudge {
 public:
  /// Call number `first` (1: the first) fails, with `from_then_on` all after it too; 0: none. `other`: in its other
  /// way.
  CallJudge(int listener, std::uint64_t first, bool from_then_on, bool other) noexcept
      : listener_(listener), first_(first), from_then_on_(from_then_on), other_(other) {}

  /// Answers what is asked now; false when there is nobody left to ask.
  bool answer();

  /// The calls that were counted.
  const std::vector<Call>& calls() const { return calls_; }
  /// Those of them that failed.
  const std::vector<Call>& failed() const { return failed_; }

 private:
  int judge(int number, const std::uint64_t* arguments);

  const int listener_;
  const std::uint64_t first_;
  const bool from_then_on_;
  const bool other_;
  bool armed_ = false;
  std::vector<Call> calls_;
  std::vector<Call> failed_;
};

}  // namespace holdfast::faults
