// Makes system calls of a different process fail on demand through seccomp notifications. The call may come from the C
// library or this library, from any thread, or from a forked child.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace holdfast::faults {

/// In the victim: asks another process about all later system calls, through a descriptor that it sends over `channel`
/// (a socket). Returns 0 or an errno value.
int ask_about_calls(int channel) noexcept;
/// In the victim: starts or stops counting calls and letting them fail.
void arm_calls() noexcept;
void disarm_calls() noexcept;

/// Receives the descriptor that ask_about_calls sends; -1 on failure.
int receive_descriptor(int channel) noexcept;

/// A call that was made, and the ways in which it can fail.
struct Call {
  const char* name;
  int error;        // the chosen error
  int other_error;  // a second possible error; 0: none
};

/// Answers the questions of one victim.
class CallJudge {
 public:
  /// Call number `first` (counted from 1) fails, and with `from_then_on` all later calls; 0: none. `other`: fail with
  /// the second error.
  CallJudge(int listener, std::uint64_t first, bool from_then_on, bool other) noexcept
      : listener_(listener), first_(first), from_then_on_(from_then_on), other_(other) {}

  /// Answers the current question; returns false when there is no process left to ask.
  bool answer();

  /// Returns the calls that were counted.
  const std::vector<Call>& calls() const { return calls_; }
  /// Returns the calls that failed.
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
