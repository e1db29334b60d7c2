// Decides when a job must end because its lock ends. A lock ends at its exptime, when this machine's session in the
// cluster is not renewed, or when the cluster takes the lock away. The wrapper uses this class. If the wrapper has
// ended or is stopped, the guard uses it.
//
// When a session ends, another machine may get the lock immediately. So the job is told to end at least its grace
// period earlier. When the session ends, the job has ended or has been killed.
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
    double kill_at;  // in holdfast_now() time
    bool lost = false;
  };

  /// `dict` is used only in a cluster. If it is null, the session is unknown, and only the exptime counts.
  LockEnd(const LockOptions& options, const Grant& grant, holdfast_dict* dict);

  /// Returns why and how the job must be ended, or nothing if the job may continue. Does not take the dictionary's
  /// mutex: if this process were killed while it had the mutex, the guard would appear to be the mutex's owner.
  std::optional<Ending> due(double now);
  /// Returns when to call due() again.
  double next(double now) const;
  /// Returns the number of the session in which the lock was granted, or 0 if it is unknown.
  std::uint32_t epoch() const noexcept { return epoch_; }

 private:
  std::optional<Ending> end_of_session(double now);
  /// Returns whether another process ended the grant, for example `holdfast cluster break`. Only reads shared memory.
  bool is_taken_away() const;

  const LockOptions& options_;
  holdfast_lease lease_;
  holdfast_dict* dict_;
  double end_;  // in holdfast_now() time
  std::uint32_t epoch_ = 0;
  double longest_ = 0;  // the maximum number of seconds that the session has had left
};

}  // namespace holdfast::cli
