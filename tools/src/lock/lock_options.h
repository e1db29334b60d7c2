// Reads the command line of `holdfast lock`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/arguments.h"

namespace holdfast::cli {

/// Exit statuses of `holdfast lock` itself. If flock(1) has a corresponding status, the number is the same.
namespace lock_status {
inline constexpr int kConflict = 1;      // another process holds the lock, or the wait timed out; -E changes this
inline constexpr int kUsage = 64;        // EX_USAGE
inline constexpr int kData = 65;         // EX_DATAERR: flock(2) failed, or the descriptor is bad
inline constexpr int kNoInput = 66;      // EX_NOINPUT: the file cannot be opened
inline constexpr int kCannotRun = 69;    // EX_UNAVAILABLE: the command cannot be run
inline constexpr int kSystem = 71;       // EX_OSERR
inline constexpr int kCannotOpen = 73;   // EX_CANTCREAT: the dictionary cannot be opened
inline constexpr int kUnavailable = 75;  // EX_TEMPFAIL: the cluster has no agent here, or no session
inline constexpr int kLost = 76;         // the lock was lost while the command ran
}  // namespace lock_status

/// The dictionary that shows the locks of files.
inline constexpr const char* kFlockDictionary = "files";

inline constexpr double kForEver = -1;
/// The seconds between TERM and KILL for a job whose lock has ended, unless --kill-after says otherwise.
inline constexpr double kGraceSeconds = 10;

struct LockOptions {
  bool shared = false;
  std::uint32_t permits = 0;  // the semaphore's number of permits; 0: a lock
  double timeout = kForEver;  // seconds; 0: do not wait
  int conflict = lock_status::kConflict;
  double exptime = 0;                // seconds; 0: only the job's end releases the lock
  std::optional<double> kill_after;  // seconds between the first signal that ends the job and KILL
  std::string why;
  std::string cluster;  // empty: a local lock, unless the dictionary belongs to a cluster
  bool replace = false;
  bool upgrade = false;
  int fd = -1;    // the caller's descriptor to which the lock belongs; -1: the lock belongs to a command
  int file = -1;  // the descriptor whose flock(2) is taken, too; -1: none
  bool agent = false;
  std::string agent_config;
  bool close = false;
  bool no_fork = false;
  bool verbose = false;
  bool quiet = false;
  std::string directory;            // the runtime directory; empty: the default
  std::optional<std::string> user;  // the user to switch to first
  std::string dictionary;
  std::string key;
  std::vector<std::string> also;  // the keys of the locks to take after this lock, in this order
  double start = 0;               // in holdfast_now() time: when the command line was read
  std::vector<std::string> command;

  /// Returns whether to behave like flock(1). In this case, the file's flock(2) is the lock, and `holdfast flock` does
  /// not wait for processes that the command leaves behind.
  bool is_flock() const noexcept { return file >= 0; }
  /// Returns whether other processes may hold the key at the same time.
  bool has_company() const noexcept { return shared || permits != 0; }
  double grace() const noexcept { return kill_after.value_or(kGraceSeconds); }
};

/// Returns an error message if one of the options is not supported in a cluster, otherwise an empty string.
std::string objection_of_cluster(const LockOptions& options);

/// Read values of options that both `lock` and `flock` have. They return an error message, or an empty string on
/// success.
std::string read_seconds(const std::string& text, std::optional<double>& seconds);
std::string read_why(const std::string& text, std::string& why);
inline constexpr int kStatusMax = 255;
inline constexpr int kDescriptorMax = 1 << 20;

/// Returns the name of the program that started this program. The name is shown as the holder if there is no command.
std::string caller_name();

/// Returns the shell for -c: $SHELL, or /bin/sh.
std::string default_shell();

/// Reads the command line.
LockOptions read_lock_options(Arguments& arguments);

}  // namespace holdfast::cli
