// Implements the keys r and k of `holdfast top`: once the user has confirmed it, releases a lock or signals its holder.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "holdfast.h"
#include "inspect/descriptor.h"
#include "inspect/processes.h"

namespace holdfast::cli {

/// A grant as the user saw it, and what to do about it.
struct TopRequest {
  std::string dictionary;
  std::string key;
  holdfast_lease grant{};
  inspect::Process holder;
  std::uint32_t holder_count = 1;  // of the key
  int signal = kNoSignal;          // for the holder; kNoSignal: release the grant

  static constexpr int kNoSignal = 0;
};

/// Returns "TERM", "KILL" or "CONT".
const char* name_of_signal(int signal) noexcept;
/// Returns the signal that the next press of k offers.
int signal_after(int signal) noexcept;

/// Sends the signal if the process still holds the grant. Returns what happened, for the user.
std::string send_signal(const TopRequest& request);

/// Runs `holdfast release` in a child, because this process only observes.
class TopRelease {
 public:
  /// Starts to release exactly this grant. Returns why that is impossible; empty if it has started.
  std::string start(const TopRequest& request);
  /// Returns a descriptor that is readable when the release has ended or printed something; -1: none is running.
  int output() const noexcept { return output_.get(); }
  /// Reads what has been printed. Returns what happened, for the user, once the release has ended; empty until then.
  std::string read();

 private:
  inspect::Descriptor output_;
  pid_t child_ = 0;
  std::string printed_;
  std::string success_;
};

}  // namespace holdfast::cli
