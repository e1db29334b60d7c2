// Makes system calls of another process fail on demand, with seccomp notifications. The calls may come from the C
// library or from holdfast, from any thread, or from a forked child.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace holdfast::faults {

/// Called by the victim. Makes the kernel ask another process about all later system calls of the victim. Sends that
/// process the descriptor of the questions through `channel`, a socket. Returns 0 or an errno value.
int ask_about_calls(int channel) noexcept;
/// Called by the victim. Starts or stops the counting of its calls, and the faults.
void arm_calls() noexcept;
void disarm_calls() noexcept;

/// Receives and returns the descriptor that ask_about_calls sends, or returns -1 on failure.
int receive_descriptor(int channel) noexcept;

/// A call of the victim, and the errors with which it can fail.
struct Call {
  const char* name;
  int error;        // the chosen error
  int other_error;  // a second possible error, or 0
};

/// Answers the kernel's questions about one victim's calls.
class CallJudge {
 public:
  /// Makes call number `first` fail and, if `from_then_on`, all later calls. Calls are counted from 1, and 0 means that
  /// no call fails. If `other`, the calls fail with their second error.
  CallJudge(int listener, std::uint64_t first, bool from_then_on, bool other) noexcept
      : listener_(listener), first_(first), from_then_on_(from_then_on), other_(other) {}

  /// Answers the next question. Returns false if no process is left that can make a call.
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
