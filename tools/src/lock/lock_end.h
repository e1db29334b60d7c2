// Decides when a job must end because its lock ends: at the exptime of the lock, when this machine's session in the
// cluster is not renewed, or when the cluster takes the lock away. The wrapper uses this, and so does the guard if the
// wrapper is gone or stopped.
//
// When a session ends, another machine may get the lock immediately. So the job is told to end earlier, by the length
// of its time of grace. When the session ends, the job has ended or has been killed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "holdfast.h"
#include "lock/lock_hold.h"
#include "lock/lock_options.h"

namespace holdfast::cli {

class LockEnd {
 public:
  struct Ending {
    std::string reason;
    double grace;    // seconds between TERM and KILL, for the message
    double kill_at;  // holdfast_now()
    bool lost = false;
  };

  /// `dict` is used only in a cluster. If it is null, the session is unknown, and only the exptime counts.
  LockEnd(const LockOptions& options, const Grant& grant, holdfast_dict* dict);

  /// Returns why and how the job must be ended; nothing if the job may continue. Does not take the dictionary's mutex:
  /// if this process were killed with the mutex, the guard would seem to be its owner.
  std::optional<Ending> due(double now);
  /// Returns when to call due() again.
  double next(double now) const;
  /// Returns the number of the session in which the lock was granted; 0: unknown.
  std::uint32_t epoch() const noexcept { return epoch_; }

 private:
  std::optional<Ending> end_of_session(double now);
  /// Returns whether the grant was ended by somebody else, for example by `holdfast cluster break`. Only reads shared
  /// memory.
  bool is_taken_away() const;

  const LockOptions& options_;
  holdfast_lease lease_;
  holdfast_dict* dict_;
  double end_;  // holdfast_now()
  std::uint32_t epoch_ = 0;
  double longest_ = 0;  // the most seconds that the session has had left
};

}  // namespace holdfast::cli
