// Ends the jobs that hold a lock, for `holdfast lock --replace`: sends TERM, and KILL after the grace period.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "holdfast.h"
#include "lock/job.h"
#include "lock/lock_options.h"

namespace holdfast::cli {

class Replacement {
 public:
  /// `reports`: gets a message for each signal sent.
  Replacement(const LockOptions& options, std::vector<std::string>& reports) : options_(options), reports_(reports) {}

  /// Ends the jobs that hold the lock now, except if the holder is the process `own`. Call this repeatedly until the
  /// caller has the lock, because another waiter may get it first. If one of the holders cannot be ended, signals none
  /// of them and returns the reason. Otherwise returns an empty string.
  std::string end_holders(holdfast_dict* dict, pid_t own);

 private:
  void end(std::uint64_t sequence, pid_t command, const FoundJob& job);

  const LockOptions& options_;
  std::vector<std::string>& reports_;
  // The times at which to send KILL, indexed by the fencing token of the holder's grant.
  std::map<std::uint64_t, double> kill_at_;
  std::map<std::uint64_t, double> unknown_since_;
};

}  // namespace holdfast::cli
