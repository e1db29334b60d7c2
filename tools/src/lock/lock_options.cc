#include "lock/lock_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "base/gate_name.h"
#include "base/name.h"
#include "cli/paths.h"
#include "cli/user.h"
#include "holdfast.h"
#include "inspect/proc.h"
#include "inspect/text.h"
#include "lock/next_lock.h"

namespace holdfast::cli {

namespace {

constexpr const char* kDefaultDictionary = "commands";
constexpr std::size_t kNamesMax = 2;  // DICTIONARY and KEY

/// Returns whether the word is the name of a shell, which nobody would use as a key.
bool is_shell(const std::string& word) {
  const std::string name = word.substr(word.rfind('/') + 1);
  for (const char* const shell : {"sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "busybox"})
    if (name == shell) return true;
  return false;
}

std::string wrong_key(const std::string& key) {
  if (!key.empty() && key.size() <= HOLDFAST_KEY_MAX) return {};
  return fmt::format("bad key: expected 1 to {1} bytes, got {0}", key.size(), int{HOLDFAST_KEY_MAX});
}

class LockParser {
 public:
  explicit LockParser(Arguments& arguments) : arguments_(arguments) {
    arguments_.pass_on_from_dashes({"--command", "--fd", "--upgrade"}, kNamesMax, is_shell);
    arguments_.add_version("-V,--version", holdfast_version());
    add_flags();
    add_values();
  }

  LockOptions parse() {
    arguments_.parse();
    names_ = arguments_.words();
    Words command = arguments_.passed_on();
    // If no name precedes the first "--", it ends the options. The names, another "--" and the command then follow it.
    has_command_ = arguments_.passes_on();
    if (names_.empty() && has_command_) take_names(command);
    options_.command = std::move(command);
    std::string wrong = read_names();
    if (wrong.empty()) wrong = read_command();
    if (wrong.empty()) wrong = judge();
    if (!wrong.empty()) arguments_.refuse(wrong);
    return options_;
  }

 private:
  /// Takes the names before the command. If there is no second "--" and the first word begins with a dash, that word is
  /// the key, and the command follows. If the word does not begin with a dash, it is probably the command, and the user
  /// forgot the key.
  void take_names(Words& words) {
    const auto dashes = std::find(words.begin(), words.end(), "--");
    auto names_end = dashes;
    has_command_ = dashes != words.end();
    if (!has_command_ && !by_shell_) {
      const bool has_key = !words.empty() && words.front().starts_with('-');
      names_end = words.begin() + (has_key ? 1 : 0);
      has_command_ = has_key && words.size() > 1;
    }
    names_.assign(words.begin(), names_end);
    words.erase(words.begin(), dashes != words.end() ? dashes + 1 : names_end);
    if (!has_command_) words.clear();
  }

  void add_flags() {
    arguments_.add_flag("-s,--shared", options_.shared,
                        "Take a shared lock: several --shared commands can hold it at once");
    arguments_.add_flag("-x,-e,--exclusive", exclusive_, "Take an exclusive lock (default)");
    arguments_.add_flag("-n,--nb,--nonblock,--nonblocking", nonblock_, "Fail instead of waiting if the lock is held");
    arguments_.add_flag("-o,--close", options_.close,
                        "Close the lock's descriptors before COMMAND runs, so that only holdfast lock\n"
                        "itself holds the lock");
    arguments_.add_flag("-F,--no-fork", options_.no_fork,
                        "Run the command without forking: the lock is held until the last process that\n"
                        "inherited it exits");
    arguments_.add_flag("--replace", options_.replace,
                        "End the job that holds the lock (TERM, and KILL after --kill-after, by default\n"
                        "10 seconds), and take its place");
    arguments_.add_flag("--upgrade", options_.upgrade,
                        "Make a shared lock exclusive: the lock of descriptor N with --fd N, else the lock\n"
                        "of the job that runs this command; takes no COMMAND");
    arguments_.add_flag("-u,--unlock", unlock_, "Not supported; use holdfast unlock");
    arguments_.add_flag("-q,--quiet", options_.quiet, "Print no message while waiting, or when the lock is held");
    arguments_.add_flag("--verbose", options_.verbose, "Print the command, and how long the wait for the lock took");
    arguments_.add_flag("--agent", options_.agent,
                        "Run the cluster's agent while the command runs, unless one is running already");
  }

  void add_values() {
    arguments_.add_value("-w,--wait,--timeout", "SECONDS", "Wait at most SECONDS; 0 is the same as -n", read_seconds,
                         timeout_);
    arguments_.add_number("-E,--conflict-exit-code", "STATUS",
                          "Exit with STATUS if the lock is held or the wait times out; default: 1", options_.conflict,
                          {.what = "status", .most = kStatusMax});
    arguments_.add_number("--permits", "N", "Take one of N permits: at most N commands hold the key at the same time",
                          options_.permits, {.least = 1, .most = HOLDFAST_ALL_PERMITS - 1});
    arguments_.add_value("--also", "KEY",
                         "Also take the lock KEY; can be given several times. The locks are taken in the\n"
                         "order of their keys",
                         [this](const std::string& key) {
                           options_.also.push_back(key);
                           return wrong_key(key);
                         });
    arguments_.add_value("-c,--command", "COMMAND", "Run COMMAND in a shell: $SHELL, else /bin/sh",
                         [this](const std::string& line) { return note_shell(line); });
    arguments_.add_number("--fd", "N",
                          "Hold the lock on descriptor N of the caller, until its last copy is closed; takes\n"
                          "no COMMAND",
                          options_.fd, {.what = "descriptor", .most = kDescriptorMax});
    arguments_.add_value("--exptime", "SECONDS",
                         "End the job after SECONDS (default: never): TERM, then KILL after --kill-after", read_seconds,
                         exptime_);
    arguments_.add_value("--kill-after", "SECONDS",
                         "Send KILL if the job still runs SECONDS after it was told to end; default:\n"
                         "never, but 10 with --exptime or --replace, or if the lock is lost",
                         read_seconds, options_.kill_after);
    arguments_.add_value("--why", "TEXT", "Show TEXT to others who want the lock", read_why, options_.why);
    arguments_.add_value("--dir", "PATH", "Use this runtime directory; default: $HOLDFAST_DIR, else the user's own",
                         [this](const std::string& path) {
                           options_.directory = path;
                           return std::string(path.empty() ? "bad directory \"\": expected a path" : "");
                         });
    arguments_.add_value("--user", "NAME", "Switch to this user first, and run the command as this user; needs root",
                         [this](const std::string& name) {
                           options_.user = name;
                           return std::string();
                         });
    arguments_.add_value("--cluster", "NAME", "Take the lock on all machines of this cluster",
                         [this](const std::string& name) {
                           options_.cluster = name;
                           return std::string(name.empty() ? "bad cluster \"\": expected a name" : "");
                         });
    arguments_.add_file("--agent-config", "Read the agent's configuration from FILE; default: /etc/holdfast/NAME.json",
                        options_.agent_config);
  }

  // Reads the option -c. This is called while the command line is read, so only the words before the option are known.
  std::string note_shell(const std::string& line) {
    if (by_shell_) return "given twice; expected once";
    by_shell_ = true;
    shell_ = line;
    words_before_shell_ = arguments_.words().size();
    return {};
  }

  /// Reports a word after -c COMMAND if a word also precedes -c. The user meant the second word as a part of the
  /// command, so it must not be used as a key.
  std::string stray_word() const {
    if (words_before_shell_ == 0 || names_.size() <= words_before_shell_) return {};
    return "unexpected " + quote(names_[words_before_shell_]) +
           " after -c COMMAND: expected the command as one word, in quotes";
  }

  /// Reports a word that may be a key or a program. For example, "lock KEY PROGRAM -c ..." may also mean the key
  /// PROGRAM in the dictionary KEY. Also reports "lock KEY PROGRAM -- ..." if no program follows the "--".
  std::string ambiguous_word() const {
    const bool is_first = arguments_.words().size() == kNamesMax;  // not after a "--"
    const bool is_command =
        by_shell_ || (has_command_ && !options_.command.empty() && !is_program(options_.command[0]));
    if (!is_first || !is_command || !is_program(names_[1])) return {};
    return fmt::format("{} may be the key or the command; write {} -- {} ... to run it, or -- {} {} -- COMMAND",
                       quote(names_[1]), names_[0], names_[1], names_[0], names_[1]);
  }

  std::string read_names() {
    if (names_.empty()) return "no key was given";
    if (std::string ambiguous = ambiguous_word(); !ambiguous.empty()) return ambiguous;
    if (std::string stray = stray_word(); !stray.empty()) return stray;
    if (names_.size() > kNamesMax) return "unexpected " + quote(names_[2]) + ": the command follows \"--\"";
    options_.key = names_.back();
    if (std::string wrong = wrong_key(options_.key); !wrong.empty()) return wrong;
    put_keys_in_order(options_);
    options_.dictionary = names_.size() == 2 ? names_.front() : kDefaultDictionary;
    // Each cluster has its own default dictionary, because a dictionary belongs to at most one cluster. The
    // dictionary's name is a part of the lock's name in the store.
    if (names_.size() == 1 && !options_.cluster.empty()) options_.dictionary += "." + options_.cluster;
    const Status name = check_name(options_.dictionary);
    return name.ok() ? std::string() : name.message;
  }

  std::string read_command() {
    if (options_.fd >= 0 || options_.upgrade) {
      if (by_shell_ || has_command_)
        return options_.upgrade ? "--upgrade takes no command: the lock is held already"
                                : "--fd takes no command: the lock lasts until the descriptor is closed";
      options_.command = {caller_name()};
      return {};
    }
    if (by_shell_ && has_command_) return "-c cannot be combined with a command after \"--\"";
    if (by_shell_) {
      options_.command = {default_shell(), "-c", shell_};
    }
    if (!options_.command.empty()) return {};
    const bool is_number = options_.key.find_first_not_of("0123456789") == std::string::npos;
    const char* const descriptor = is_number ? "; use --fd for a file descriptor" : "";
    return fmt::format("no command was given: expected COMMAND or -c COMMAND{}", descriptor);
  }

  std::string judge() {
    if (!options_.also.empty() && (options_.fd >= 0 || options_.upgrade))
      return fmt::format("--also and {0} cannot be combined; run holdfast lock {0} once for each key",
                         options_.fd >= 0 ? "--fd" : "--upgrade");
    if (options_.user) {
      if (std::string wrong = check_user(*options_.user); !wrong.empty()) return wrong;
    }
    if (unlock_)
      return "there is nothing to unlock: the lock ends with the command; use \"holdfast unlock\" for a descriptor";
    if (options_.shared && exclusive_) return "-s and -x cannot be combined";
    if (options_.permits != 0 && options_.shared) return "--permits and -s cannot be combined";
    if (options_.permits != 0 && exclusive_) return "--permits and -x cannot be combined";
    if (nonblock_ && timeout_) return "-n and -w cannot be combined";
    if (options_.no_fork && options_.close) return "--no-fork and --close cannot be combined";
    if (options_.cluster.empty() && (options_.agent || !options_.agent_config.empty()))
      return "--agent and --agent-config need --cluster NAME";
    if (!options_.agent && !options_.agent_config.empty()) return "--agent-config needs --agent";
    if (!options_.cluster.empty()) {
      if (const Status name = check_cluster_name(options_.cluster); !name.ok()) return name.message;
      if (std::string objection = objection_of_cluster(options_); !objection.empty()) return objection;
    }
    if (options_.upgrade) {
      if (options_.fd < 0 && std::getenv("HOLDFAST_TOKEN") == nullptr)
        return "--upgrade needs --fd N outside a job: $HOLDFAST_TOKEN is not set";
      if (options_.has_company() || options_.no_fork || options_.close || options_.kill_after || options_.replace ||
          exptime_ || !options_.why.empty())
        return "--upgrade can be combined only with --fd, -x, -n, -w, -E, -q, --verbose, --dir and --user";
    }
    if (options_.fd >= 0 && (options_.no_fork || options_.close || options_.kill_after || options_.replace))
      return "--fd cannot be combined with --no-fork, --close, --kill-after or --replace: there is no job";
    if (options_.replace && (nonblock_ || options_.no_fork))
      return nonblock_ ? "--replace and -n cannot be combined: jobs take time to end"
                       : "--replace and --no-fork cannot be combined: nothing would end the other job";
    if (options_.no_fork && options_.kill_after)
      return "--no-fork and --kill-after cannot be combined: nothing would send KILL";
    if (options_.no_fork && exptime_)
      return "--no-fork and --exptime cannot be combined: nothing would end the command when the lock ends";
    options_.timeout = nonblock_ ? 0 : timeout_.value_or(kForEver);
    options_.exptime = exptime_.value_or(0);
    options_.start = holdfast_now();
    return {};
  }

  Arguments& arguments_;
  LockOptions options_;
  Words names_;
  bool has_command_ = false;  // a command follows "--"
  bool by_shell_ = false;
  std::string shell_;
  std::size_t words_before_shell_ = 0;
  std::optional<double> timeout_;
  std::optional<double> exptime_;
  bool exclusive_ = false;
  bool nonblock_ = false;
  bool unlock_ = false;
};

}  // namespace

std::string read_seconds(const std::string& text, std::optional<double>& seconds) {
  constexpr double kSecondsMax = 1e9;
  seconds = inspect::number_of(text);
  if (seconds && *seconds >= 0 && *seconds <= kSecondsMax) return {};
  return "bad time " + quote(text) + ": expected seconds from 0 to 1e9, as in 2.5";
}

std::string read_why(const std::string& text, std::string& why) {
  why = text;
  if (text.size() <= HOLDFAST_WHY_MAX) return {};
  return fmt::format("bad text: expected at most {1} bytes, got {0}", text.size(), int{HOLDFAST_WHY_MAX});
}

std::string caller_name() {
  const auto caller = inspect::read_stat(static_cast<std::uint32_t>(::getppid()));
  return caller ? caller->program : "holdfast";
}

std::string default_shell() {
  const char* const shell = std::getenv("SHELL");
  return shell != nullptr && *shell != '\0' ? shell : "/bin/sh";
}

std::string objection_of_cluster(const LockOptions& options) {
  if (options.shared) return "-s is not supported in a cluster: its locks are exclusive";
  if (options.upgrade) return "--upgrade is not supported in a cluster: its locks are exclusive";
  if (options.fd >= 0) return "--fd is not supported in a cluster: nothing would tell the caller that the lock is lost";
  if (options.permits != 0) return "--permits is not supported in a cluster: its locks are exclusive";
  if (options.replace) return "--replace is not supported in a cluster: the job may run on another machine";
  if (options.no_fork)
    return "--no-fork is not supported in a cluster: nothing would end the command when the lock ends";
  return {};
}

LockOptions read_lock_options(Arguments& arguments) { return LockParser(arguments).parse(); }

}  // namespace holdfast::cli
