// Implements the keys r and k of `holdfast top`, which release a lock or signal its holder after the user has confirmed
// this.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "holdfast.h"
#include "inspect/descriptor.h"
#include "inspect/processes.h"

namespace holdfast::cli {

/// A grant as the user saw it, and what to do with it.
struct TopRequest {
  std::string dictionary;
  std::string key;
  holdfast_lease grant{};
  inspect::Process holder;
  std::uint32_t holder_count = 1;  // of the key
  int signal = kNoSignal;          // the signal for the holder; kNoSignal: release the grant

  static constexpr int kNoSignal = 0;
};

/// Returns "TERM", "KILL" or "CONT".
const char* name_of_signal(int signal) noexcept;
/// Returns the signal that the next press of k offers.
int signal_after(int signal) noexcept;

/// Sends the signal if the process still holds the grant. Returns a message for the user about what happened.
std::string send_signal(const TopRequest& request);

/// Runs `holdfast release` in a child, because this process only observes.
class TopRelease {
 public:
  /// Starts to release exactly this grant. Returns why the release cannot start; empty if it has started.
  std::string start(const TopRequest& request);
  /// Returns a descriptor that is readable when the release has ended or printed something; -1 if no release is
  /// running.
  int output() const noexcept { return output_.get(); }
  /// Reads what the release has printed. Once it has ended, returns a message for the user about what happened; empty
  /// until then.
  std::string read();

 private:
  inspect::Descriptor output_;
  pid_t child_ = 0;
  std::string printed_;
  std::string success_;
};

}  // namespace holdfast::cli
