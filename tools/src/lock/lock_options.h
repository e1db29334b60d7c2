// The command line of `holdfast lock`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/arguments.h"

namespace holdfast::cli {

/// Exit statuses of `holdfast lock` itself. As far as flock(1) has them, they are its own.
namespace lock_status {
inline constexpr int kConflict = 1;      // held by another, or not had in time; -E changes it
inline constexpr int kUsage = 64;        // EX_USAGE
inline constexpr int kCannotRun = 69;    // EX_UNAVAILABLE: the command
inline constexpr int kSystem = 71;       // EX_OSERR
inline constexpr int kCannotOpen = 73;   // EX_CANTCREAT: the dictionary
inline constexpr int kUnavailable = 75;  // EX_TEMPFAIL: no agent of the cluster, or no session at the store
inline constexpr int kLost = 76;         // the lock was lost while the command ran
}  // namespace lock_status

inline constexpr double kForEver = -1;

struct LockOptions {
  bool shared = false;
  double timeout = kForEver;  // seconds; 0: do not wait
  int conflict = lock_status::kConflict;
  double exptime = 0;  // seconds; 0: the lock ends with the command only
  std::string why;
  std::string cluster;  // empty: a local lock, unless the dictionary belongs to one
  bool agent = false;
  std::string agent_config;
  bool close = false;
  bool no_fork = false;
  bool verbose = false;
  bool quiet = false;
  std::string directory;            // of the world; empty: as for all programs
  std::optional<std::string> user;  // to become first
  std::string dictionary;
  std::string key;
  std::vector<std::string> command;
};

/// What of them cannot be had in a cluster, in a sentence; empty: all can.
std::string objection_of_cluster(const LockOptions& options);

/// Reads the command line.
LockOptions read_lock_options(Arguments& arguments);

}  // namespace holdfast::cli
