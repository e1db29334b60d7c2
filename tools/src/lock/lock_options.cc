#include "lock/lock_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "base/gate_name.h"
#include "base/name.h"
#include "cli/user.h"
#include "holdfast.h"
#include "inspect/text.h"

namespace holdfast::cli {

namespace {

constexpr const char* kDefaultDictionary = "commands";
constexpr const char* kDefaultShell = "/bin/sh";
constexpr double kSecondsMax = 1e9;
constexpr int kStatusMax = 255;

std::string read_seconds(const std::string& text, std::optional<double>& seconds) {
  seconds = inspect::number_of(text);
  if (seconds && *seconds >= 0 && *seconds <= kSecondsMax) return {};
  return "bad time " + quote(text) + ": expected seconds, 0 to 1e9, as in 2.5";
}

std::string read_why(const std::string& text, std::string& why) {
  why = text;
  if (text.size() <= HOLDFAST_WHY_MAX) return {};
  return fmt::format("a text of {} bytes: expected at most {}", text.size(), int{HOLDFAST_WHY_MAX});
}

class LockParser {
 public:
  explicit LockParser(Arguments& arguments) : arguments_(arguments) {
    arguments_.pass_on_from_dashes();
    arguments_.add_version("-V,--version", holdfast_version());
    add_flags();
    add_values();
  }

  LockOptions parse() {
    arguments_.parse();
    names_ = arguments_.words();
    Words command = arguments_.passed_on();
    // Without a name before them, the dashes end the options: names follow, and then the command behind other dashes.
    has_command_ = arguments_.has_dashes();
    if (names_.empty() && has_command_) take_names(command);
    options_.command = std::move(command);
    std::string wrong = read_names();
    if (wrong.empty()) wrong = read_command();
    if (wrong.empty()) wrong = judge();
    if (!wrong.empty()) arguments_.refuse(wrong);
    return options_;
  }

 private:
  /// Takes the names that stand before the command. Behind dashes without others, a word with a dash is the key, and
  /// the command follows. Any other word is rather the command of somebody who forgot the key.
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
    arguments_.add_flag("-s,--shared", options_.shared, "Share the lock with others that ask for it so");
    arguments_.add_flag("-x,-e,--exclusive", exclusive_, "Have the lock alone (default)");
    arguments_.add_flag("-n,--nb,--nonblock,--nonblocking", nonblock_, "Do not wait: end if another has the lock");
    arguments_.add_flag("-o,--close", options_.close,
                        "The command does not inherit the descriptors that hold the lock; then only the processes\nof "
                        "holdfast lock hold it");
    arguments_.add_flag("-F,--no-fork", options_.no_fork,
                        "Become the command, without a parent: the lock ends with the last process that has\n"
                        "inherited it");
    arguments_.add_flag("-u,--unlock", unlock_, "Refused: the lock ends with the command");
    arguments_.add_flag("-q,--quiet", options_.quiet, "Say nothing where another has the lock, nor while it waits");
    arguments_.add_flag("--verbose", options_.verbose, "Say how long it took to get the lock, and what is run");
    arguments_.add_flag("--agent", options_.agent,
                        "Have an agent of the cluster while the command runs; start one if there is none");
  }

  void add_values() {
    arguments_.add_value("-w,--wait,--timeout", "SECONDS", "Wait for so long at most; 0 as -n", read_seconds, timeout_);
    arguments_.add_number("-E,--conflict-exit-code", "STATUS", "Exit status if the lock is not had; default: 1",
                          options_.conflict, {.what = "status", .most = kStatusMax});
    arguments_.add_value("-c,--command", "COMMAND", "Run COMMAND by the shell, $SHELL or /bin/sh",
                         [this](const std::string& line) { return note_shell(line); });
    arguments_.add_value("--exptime", "SECONDS", "End the lock after so long, and the command by TERM; default: never",
                         read_seconds, exptime_);
    arguments_.add_value("--why", "TEXT", "What others are told when they ask for the lock", read_why, options_.why);
    arguments_.add_value("--dir", "PATH", "The runtime directory; default: $HOLDFAST_DIR, or that of the user",
                         [this](const std::string& path) {
                           options_.directory = path;
                           return std::string(path.empty() ? "bad directory \"\": expected a path" : "");
                         });
    arguments_.add_value("--user", "NAME", "Become that user first, with the command; for root",
                         [this](const std::string& name) {
                           options_.user = name;
                           return std::string();
                         });
    arguments_.add_value("--cluster", "NAME", "The cluster of which all machines share the lock",
                         [this](const std::string& name) {
                           options_.cluster = name;
                           return std::string(name.empty() ? "an empty name of a cluster" : "");
                         });
    arguments_.add_file("--agent-config",
                        "Configuration of the agent that --agent starts; default: /etc/holdfast/NAME.json",
                        options_.agent_config);
  }

  // When it is read, and not at the end, it is known which words stand before it.
  std::string note_shell(const std::string& line) {
    if (by_shell_) return "expected once";
    by_shell_ = true;
    shell_ = line;
    words_before_shell_ = arguments_.words().size();
    return {};
  }

  /// Words on both sides of -c COMMAND: the later ones were meant for the command, and must not pass for a key.
  std::string stray_word() const {
    if (words_before_shell_ == 0 || names_.size() <= words_before_shell_) return {};
    return "unexpected " + quote(names_[words_before_shell_]) +
           " after -c COMMAND: expected the command as one word, in quotes";
  }

  std::string read_names() {
    if (names_.empty()) return "no key was given";
    if (std::string stray = stray_word(); !stray.empty()) return stray;
    if (names_.size() > 2) return "unexpected " + quote(names_[2]) + ": the command follows \"--\"";
    options_.key = names_.back();
    if (options_.key.empty() || options_.key.size() > HOLDFAST_KEY_MAX)
      return fmt::format("bad key of {} bytes: expected 1 to {}", options_.key.size(), int{HOLDFAST_KEY_MAX});
    options_.dictionary = names_.size() == 2 ? names_.front() : kDefaultDictionary;
    // The dictionary is a part of the lock's name at the store, and is either local or of one cluster.
    if (names_.size() == 1 && !options_.cluster.empty()) options_.dictionary += "." + options_.cluster;
    const Status name = check_name(options_.dictionary);
    return name.ok() ? std::string() : name.message;
  }

  std::string read_command() {
    if (by_shell_ && has_command_) return "-c and a command after \"--\" were given: expected one of them";
    if (by_shell_) {
      const char* const shell = std::getenv("SHELL");
      options_.command = {shell != nullptr && *shell != '\0' ? shell : kDefaultShell, "-c", shell_};
    }
    if (!options_.command.empty()) return {};
    const bool is_number = options_.key.find_first_not_of("0123456789") == std::string::npos;
    const char* const descriptor = is_number ? "; a file descriptor in its place, as with flock, is not supported" : "";
    return fmt::format("no command was given: expected \"-- COMMAND\" or -c COMMAND{}", descriptor);
  }

  std::string judge() {
    if (options_.user) {
      if (std::string wrong = check_user(*options_.user); !wrong.empty()) return wrong;
    }
    if (unlock_) return "there is nothing to unlock: the lock ends with the command";
    if (options_.shared && exclusive_) return "-s and -x were given: expected one of them";
    if (nonblock_ && timeout_) return "-n and -w were given: expected one of them";
    if (options_.no_fork && options_.close) return "the --no-fork and --close options are incompatible";
    if (options_.cluster.empty() && (options_.agent || !options_.agent_config.empty()))
      return "an agent is of a cluster: expected --cluster NAME";
    if (!options_.agent && !options_.agent_config.empty())
      return "--agent-config is for the agent that --agent starts: expected --agent";
    if (!options_.cluster.empty()) {
      if (const Status name = check_cluster_name(options_.cluster); !name.ok()) return name.message;
      if (std::string objection = objection_of_cluster(options_); !objection.empty()) return objection;
    }
    if (options_.no_fork && exptime_)
      return "the --no-fork and --exptime options are incompatible: nothing would end the command with the lock";
    options_.timeout = nonblock_ ? 0 : timeout_.value_or(kForEver);
    options_.exptime = exptime_.value_or(0);
    return {};
  }

  Arguments& arguments_;
  LockOptions options_;
  Words names_;
  bool has_command_ = false;  // it follows dashes
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

std::string objection_of_cluster(const LockOptions& options) {
  if (options.shared) return "-s is not supported in a cluster: its locks are exclusive";
  if (options.no_fork) return "--no-fork is not supported in a cluster: nothing would end the command with the lock";
  return {};
}

LockOptions read_lock_options(Arguments& arguments) { return LockParser(arguments).parse(); }

}  // namespace holdfast::cli
