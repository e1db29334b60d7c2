// Says when a job must end because its lock ends: at its exptime, or when this machine's session in the cluster is not
// renewed, or the cluster takes the lock away. The wrapper asks, and the guard for a wrapper that is gone or stopped.
//
// When a session ends, another machine may get the lock at once. So the job gets its time of grace before: a job that
// is told to end has ended, or was killed, while its machine still has the lock.
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

  /// `dict` is read only in a cluster. Null: its session is unknown, and only the exptime counts.
  LockEnd(const LockOptions& options, const Grant& grant, holdfast_dict* dict);

  /// Returns why and how the job must be ended; nothing if it may run. Does not take the dictionary's mutex: this
  /// process may be killed, and then the guard would seem to be inside.
  std::optional<Ending> due(double now);
  /// Returns when to ask again.
  double next(double now) const;
  /// Returns the number of the session in which the lock was granted; 0: unknown.
  std::uint32_t epoch() const noexcept { return epoch_; }

 private:
  std::optional<Ending> end_of_session(double now);
  /// Returns whether the grant was ended, as by `holdfast cluster break`. Reads shared memory only.
  bool is_taken_away() const;

  const LockOptions& options_;
  holdfast_lease lease_;
  holdfast_dict* dict_;
  double end_;  // holdfast_now()
  std::uint32_t epoch_ = 0;
  double longest_ = 0;  // seconds that the session had left, at most
};

}  // namespace holdfast::cli
