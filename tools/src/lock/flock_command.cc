// `holdfast flock`: flock(1) with a lock that other processes can see. A link named flock that points to `holdfast`
// does the same.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>

#include "base/name.h"
#include "cli/arguments.h"
#include "cli/message.h"
#include "holdfast.h"
#include "inspect/text.h"
#include "lock/descriptor_lock.h"
#include "lock/file_lock.h"
#include "lock/lock_options.h"
#include "lock/wrapper.h"

namespace holdfast::cli {

namespace {

/// Opens the file as flock(1) does: creates it if it is missing, and accepts a directory.
int open_file(const std::string& path) {
  constexpr mode_t kMode = 0666;
  int fd = ::open(path.c_str(), O_RDONLY | O_NOCTTY | O_CREAT, kMode);
  if (fd < 0 && errno == EISDIR) fd = ::open(path.c_str(), O_RDONLY | O_NOCTTY);
  if (fd >= 0) return fd;
  const int error = errno;
  say("cannot open lock file {}: {}", path, std::strerror(error));
  if (error == ENOMEM || error == EMFILE || error == ENFILE) throw Exit{lock_status::kSystem};
  throw Exit{error == EROFS || error == ENOSPC ? lock_status::kCannotOpen : lock_status::kNoInput};
}

/// Returns the key of the lock: the path of the descriptor's file, with all links resolved. If the file has no path, or
/// a path that is too long for a key, returns its device and inode numbers.
std::string key_of(int fd) {
  std::error_code error;
  const std::string path = std::filesystem::read_symlink(fmt::format("/proc/self/fd/{}", fd), error);
  if (!error && path.starts_with('/') && path.size() <= HOLDFAST_KEY_MAX) return path;
  struct stat file {};
  ::fstat(fd, &file);
  return fmt::format("{}:{}", file.st_dev, file.st_ino);
}

class FlockParser {
 public:
  explicit FlockParser(Arguments& arguments) : arguments_(arguments) {
    arguments_.pass_on_from_first_word();
    arguments_.allow_abbreviations();
    arguments_.add_flag("-s,--shared", shared_, "Take a shared lock");
    arguments_.add_flag("-x,-e,--exclusive", exclusive_, "Take an exclusive lock (default)");
    arguments_.add_flag("-u,--unlock", unlock_, "Release the lock on the descriptor FD");
    arguments_.add_flag("-n,--nb,--nonblock,--nonblocking", nonblock_, "Fail instead of waiting if the lock is held");
    arguments_.add_value("-w,--wait,--timeout", "SECONDS", "Wait at most SECONDS; 0 is the same as -n", read_seconds,
                         timeout_);
    arguments_.add_number("-E,--conflict-exit-code", "STATUS",
                          "Exit with STATUS if the lock is held or the wait times out; default: 1", options_.conflict,
                          {.what = "status", .most = kStatusMax});
    arguments_.add_flag("-o,--close", options_.close, "Close the lock's descriptor in the command");
    arguments_.add_flag("-F,--no-fork", options_.no_fork, "Run the command without forking");
    arguments_.add_flag("--verbose", options_.verbose,
                        "Print how long the wait took, the command, and who holds the lock");
    arguments_.add_value("--why", "TEXT", "Show TEXT to others who want the lock", read_why, options_.why);
    arguments_.add_version("-V,--version", holdfast_version());
  }

  /// Returns the options. Sets `unlocks` if the command must release a lock instead of taking one.
  LockOptions parse(bool& unlocks) {
    arguments_.parse();
    Words words = arguments_.passed_on();
    if (words.empty()) arguments_.refuse("missing file descriptor, file or directory");
    if (options_.no_fork && options_.close) arguments_.refuse("--no-fork and --close cannot be combined");
    unlocks = unlock_;
    options_.shared = shared_ && !exclusive_;
    options_.timeout = nonblock_ ? 0 : timeout_.value_or(kForEver);
    options_.dictionary = kFlockDictionary;
    // Like flock(1), print nothing when the lock is held. Otherwise, cron would send an email.
    options_.quiet = !options_.verbose && ::isatty(STDERR_FILENO) != 1;
    if (words.size() == 1)
      take_descriptor(words.front());
    else
      take_file(std::move(words));
    options_.key = key_of(options_.file);
    return options_;
  }

 private:
  void take_descriptor(const std::string& word) {
    const auto number = inspect::whole_number_of(word);
    if (!number || *number > kDescriptorMax)
      arguments_.refuse(fmt::format("bad file descriptor {}: expected a number, or a file and a command", quote(word)));
    options_.fd = options_.file = static_cast<int>(*number);
    options_.command = {caller_name()};
  }

  void take_file(Words words) {
    const std::string path = words.front();
    words.erase(words.begin());
    if (words.front() == "-c" || words.front() == "--command") {
      if (words.size() != 2) arguments_.refuse(fmt::format("{} requires exactly one command argument", words.front()));
      words = {default_shell(), "-c", words.back()};
    }
    options_.command = std::move(words);
    options_.file = open_file(path);
    if (options_.close) ::fcntl(options_.file, F_SETFD, FD_CLOEXEC);
  }

  Arguments& arguments_;
  LockOptions options_;
  std::optional<double> timeout_;
  bool shared_ = false;
  bool exclusive_ = false;
  bool unlock_ = false;
  bool nonblock_ = false;
};

/// Releases the flock(2) lock and, for a descriptor, also the visible lock. Then becomes the command if there is one.
int unlock(const LockOptions& options) {
  if (::flock(options.file, LOCK_UN) != 0) return refuse_flock(options, errno);
  if (options.fd < 0) return run_without_lock(options);
  unlock_descriptor(options.fd);
  return 0;
}

int run_flock(Arguments& arguments) {
  bool unlocks = false;
  const LockOptions options = FlockParser(arguments).parse(unlocks);
  static_cast<void>(holdfast_guard_sigbus());
  try {
    if (unlocks) return unlock(options);
    return options.fd >= 0 ? lock_descriptor(options) : run_under_lock(options);
  } catch (const std::system_error& error) {
    say("{}", error.what());
    return lock_status::kSystem;
  }
}

}  // namespace

const Subcommand kFlock{
    "flock",
    "Run a command while holding a lock on a file, as flock(1) does",
    "FILE COMMAND [ARGUMENTS...]\n"
    "       holdfast flock [OPTIONS] FILE -c COMMAND\n"
    "       holdfast flock [OPTIONS] FD",
    "Run a command while holding a lock on a file, or lock an open descriptor.",
    R"(The options and exit statuses are those of flock(1). The lock is an ordinary flock(2) lock on the
file, so flock(1) and holdfast flock exclude each other. The lock is also visible: "holdfast locks"
shows it in the dictionary "files" with its holder and waiters, and the command gets its fencing
token in $HOLDFAST_TOKEN.

Exit status: the command's, or 128 + n if signal n killed it; otherwise
   1  the lock is held, or the wait timed out (see -E)
  64  invalid command line               69  the command cannot be run
  65  flock(2) failed                    71  a system call failed
  66  the file cannot be opened          73  the file cannot be created)",
    run_flock,
    lock_status::kUsage};

}  // namespace holdfast::cli
