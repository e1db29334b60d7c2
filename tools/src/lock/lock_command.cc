// `holdfast lock`: runs a command while holding a lock.
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "cli/arguments.h"
#include "cli/message.h"
#include "cli/user.h"
#include "holdfast.h"
#include "lock/descriptor_lock.h"
#include "lock/lock_options.h"
#include "lock/upgrade.h"
#include "lock/wrapper.h"

namespace holdfast::cli {

namespace {

// Makes the path of the runtime directory absolute, so that an agent and the command use the same directory, whatever
// their working directories are.
void export_directory(const std::string& option) {
  const char* const given = option.empty() ? std::getenv("HOLDFAST_DIR") : option.c_str();
  if (given == nullptr || *given == '\0') return;
  std::error_code error;
  const std::filesystem::path here = std::filesystem::current_path(error);
  // An absolute path does not change. If the working directory is unknown, the library refuses the relative path.
  ::setenv("HOLDFAST_DIR", error ? given : (here / given).c_str(), 1);
}

int run_lock(Arguments& arguments) {
  const LockOptions options = read_lock_options(arguments);
  export_directory(options.directory);
  if (const std::string wrong = options.user ? become_user(*options.user) : ""; !wrong.empty()) {
    say("{}", wrong);
    return lock_status::kSystem;
  }
  // Other processes may truncate files during a wait. The command does not inherit the guard.
  static_cast<void>(holdfast_guard_sigbus());
  try {
    if (options.upgrade) return upgrade_lock(options);
    return options.fd >= 0 ? lock_descriptor(options) : run_under_lock(options);
  } catch (const std::exception& error) {
    say("{}", error.what());
    return lock_status::kSystem;
  }
}

int run_unlock(Arguments& arguments) {
  int fd = -1;
  arguments.add_number("--fd", "N", "The descriptor given to holdfast lock --fd; required", fd,
                       {.what = "descriptor", .most = kDescriptorMax});
  arguments.parse();
  if (fd < 0) arguments.refuse("no --fd was given");
  return unlock_descriptor(fd) > 0 ? 0 : say_no("descriptor {} has no lock", fd);
}

}  // namespace

const Subcommand kLock{"lock",
                       "Run a command while holding a lock, like flock",
                       "KEY COMMAND [ARGUMENTS...]\n"
                       "       holdfast lock [OPTIONS] [DICTIONARY] KEY -- COMMAND [ARGUMENTS...]\n"
                       "       holdfast lock [OPTIONS] [DICTIONARY] KEY -c COMMAND\n"
                       "       holdfast lock [OPTIONS] -- [DICTIONARY] KEY -- COMMAND [ARGUMENTS...]\n"
                       "       holdfast lock --fd N [OPTIONS] [DICTIONARY] KEY\n"
                       "       holdfast lock --upgrade [--fd N] [OPTIONS] [DICTIONARY] KEY",
                       "Run a command while holding a lock.",
                       R"(The lock is held until the job has ended, even if `holdfast lock` is killed. The job is the
command and the processes that it started in its process group. TERM, INT, HUP and QUIT go to the
whole job. The command gets the fencing token of the lock in $HOLDFAST_TOKEN. DICTIONARY is
created if it does not exist.
Put "--" before a KEY that begins with "-": holdfast lock -n -- -key COMMAND

Exit status: the command's, or 128 + n if signal n killed it; otherwise
   1  the lock is held, or the wait timed out (see -E)
  64  invalid command line               73  the dictionary cannot be opened
  69  the command cannot be run          75  no agent is running, or the store does not answer
  71  a system call failed               76  the lock was lost while the command ran
With --upgrade, 1 may also mean a deadlock, and 76 means that the lock is not held.)",
                       run_lock,
                       lock_status::kUsage};

const Subcommand kUnlock{"unlock",
                         "Release the lock on a file descriptor",
                         "--fd N",
                         "Release the locks that holdfast lock --fd N took.",
                         R"(Without this command, the lock ends when the last copy of the descriptor is closed.

Exit status: 0 success; 1 the descriptor has no lock; 64 invalid command line.)",
                         run_unlock,
                         lock_status::kUsage};

}  // namespace holdfast::cli
