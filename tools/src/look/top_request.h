// Implements the keys r and k of `holdfast top`. They release a lock or signal its holder, once the user has confirmed
// the request.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "holdfast.h"
#include "inspect/descriptor.h"
#include "inspect/processes.h"

namespace holdfast::cli {

/// A grant as the user saw it, and the action that the user requests for it.
struct TopRequest {
  std::string dictionary;
  std::string key;
  holdfast_lease grant{};
  inspect::Process holder;
  std::uint32_t holder_count = 1;  // the number of the key's holders
  int signal = kNoSignal;          // the signal for the holder; kNoSignal: release the grant

  static constexpr int kNoSignal = 0;
};

/// Returns "TERM", "KILL" or "CONT".
const char* name_of_signal(int signal) noexcept;
/// Returns the signal that is offered when k is pressed again.
int signal_after(int signal) noexcept;

/// Sends the signal if the process still holds the grant. Returns a message about the result for the user.
std::string send_signal(const TopRequest& request);

/// Runs `holdfast release` in a child, because this process only observes.
class TopRelease {
 public:
  /// Starts to release exactly this grant. Returns why the release cannot start, or an empty string if it has started.
  std::string start(const TopRequest& request);
  /// Returns a descriptor that is readable when the release has ended or printed something, or -1 if no release is
  /// running.
  int output() const noexcept { return output_.get(); }
  /// Reads what the release has printed. Returns an empty string until the release has ended, and then a message about
  /// the result for the user.
  std::string read();

 private:
  inspect::Descriptor output_;
  pid_t child_ = 0;
  std::string printed_;
  std::string success_;
};

}  // namespace holdfast::cli
