#include "lock/lock_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <optional>

#include "base/gate_name.h"
#include "base/name.h"
#include "cli/command_words.h"
#include "cli/message.h"
#include "cli/print_help.h"
#include "cli/unknown_option.h"
#include "cli/user.h"
#include "holdfast.h"
#include "inspect/text.h"

namespace holdfast::cli {

namespace {

constexpr const char* kDefaultDictionary = "commands";
constexpr const char* kDefaultShell = "/bin/sh";
constexpr double kSecondsMax = 1e9;
constexpr int kStatusMax = 255;

constexpr const char* kUsageLines =
    "Usage: holdfast lock [OPTIONS] [DICTIONARY] KEY -- COMMAND [ARGUMENTS...]\n"
    "       holdfast lock [OPTIONS] [DICTIONARY] KEY -c COMMAND\n"
    "       holdfast lock [OPTIONS] -- [DICTIONARY] KEY -- COMMAND [ARGUMENTS...]\n";

constexpr const char* kFooter =
    R"(The lock is held as long as the command runs, also if `holdfast lock` is killed. The
command finds its fencing number in HOLDFAST_TOKEN. DICTIONARY is made where there is none.
A KEY that begins with "-" stands behind "--", as in: holdfast lock -n -- -key COMMAND

Exit status: that of the command, 128 + n if signal n ended it; else
   1  another has the lock, or the time is over (see -E)
  64  the command line is wrong          73  the dictionary cannot be opened
  69  the command cannot be run          75  no agent or no store of the cluster
  71  the system refused                 76  the lock was lost while the command ran)";

class LockHelp : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* /*app*/, std::string /*name*/) const override { return kUsageLines; }
  std::string make_positionals(const CLI::App* /*app*/) const override { return {}; }
};

int refuse(const std::string& reason) {
  say("{}\nTry \"holdfast lock --help\".", reason);
  return lock_status::kUsage;
}

std::string read_seconds(const std::string& text) {
  const auto value = inspect::number_of(text);
  if (value && *value >= 0 && *value <= kSecondsMax) return {};
  return "bad time " + quote(text) + ": expected seconds, 0 to 1e9, as in 2.5";
}

// Decimal, as flock reads it.
std::string read_status(const std::string& text, int& status) {
  const auto value = inspect::whole_number_of(text);
  if (!value || *value > kStatusMax) return fmt::format("bad status {}: expected 0 to {}", quote(text), kStatusMax);
  status = static_cast<int>(*value);
  return {};
}

std::string read_why(const std::string& text) {
  if (text.size() <= HOLDFAST_WHY_MAX) return {};
  return fmt::format("a text of {} bytes: expected at most {}", text.size(), int{HOLDFAST_WHY_MAX});
}

class LockParser {
 public:
  LockParser() : app_("Runs a command that holds a lock.", "holdfast lock") {
    app_.formatter(std::make_shared<LockHelp>());
    app_.set_help_flag("-h,--help", "Print this help and exit");
    app_.set_version_flag("-V,--version", std::string("holdfast ") + holdfast_version(), "Print the version and exit");
    app_.footer(kFooter);
    app_.allow_extras();  // the names: as values of a positional option, CLI11 would take "[a,b]" for two
    add_flags();
    add_values();
  }

  std::variant<LockOptions, int> parse(const std::vector<std::string>& arguments) {
    const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
    std::vector<std::string> own(arguments.begin(), dashes);
    if (const std::string wrong = split_values(app_, own); !wrong.empty()) return refuse(wrong);
    std::reverse(own.begin(), own.end());  // as CLI11 takes it
    try {
      app_.parse(own);
    } catch (const CLI::Success& success) {
      return print_help(app_, success);
    } catch (const CLI::ParseError& error) {
      return refuse(in_words(app_, error));
    }
    std::string wrong = sort_words();
    // Without a name before them, the dashes end the options: names follow, and then the command behind other dashes.
    auto command = dashes;
    if (wrong.empty() && names_.empty() && dashes != arguments.end()) {
      command = std::find(dashes + 1, arguments.end(), "--");
      if (command != arguments.end() || app_.count("--command") != 0)
        names_.assign(dashes + 1, command);
      else
        command = take_odd_key(dashes, arguments.end());
    }
    const bool has_dashes = command != arguments.end();
    if (has_dashes) options_.command.assign(command + 1, arguments.end());
    if (wrong.empty()) wrong = read_names();
    if (wrong.empty()) wrong = read_command(has_dashes);
    if (wrong.empty()) wrong = judge();
    if (!wrong.empty()) return refuse(wrong);
    return options_;
  }

 private:
  using Word = std::vector<std::string>::const_iterator;

  /// Behind dashes without others, a word with a dash is the key, and the command follows. Any other word is rather the
  /// command of somebody who forgot the key. What is before the command; `end`: there is none.
  Word take_odd_key(Word dashes, Word end) {
    if (dashes + 1 == end || !(dashes + 1)->starts_with('-')) return end;
    names_.assign(dashes + 1, dashes + 2);
    return dashes + 2 == end ? end : dashes + 1;
  }

  void add_flag(const char* names, bool& flag, const char* text) {
    app_.add_flag(names, flag, text)->disable_flag_override();
  }

  void add_flags() {
    add_flag("-s,--shared", options_.shared, "Share the lock with others that ask for it so");
    add_flag("-x,-e,--exclusive", exclusive_, "Have the lock alone (default)");
    add_flag("-n,--nb,--nonblock,--nonblocking", nonblock_, "Do not wait: end if another has the lock");
    add_flag("-o,--close", options_.close,
             "The command does not inherit the descriptors that hold the lock; then only the processes\nof holdfast "
             "lock hold it");
    add_flag("-F,--no-fork", options_.no_fork,
             "Become the command, without a parent: the lock ends with the last process that has\ninherited it");
    add_flag("-u,--unlock", unlock_, "Refused: the lock ends with the command");
    add_flag("-q,--quiet", options_.quiet, "Say nothing where another has the lock, nor while it waits");
    add_flag("--verbose", options_.verbose, "Say how long it took to get the lock, and what is run");
    add_flag("--agent", options_.agent,
             "Have an agent of the cluster while the command runs; start one if there is none");
  }

  void add_values() {
    app_.add_option("-w,--wait,--timeout", timeout_, "Wait for so long at most; 0 as -n")
        ->type_name("SECONDS")
        ->take_last()
        ->check(read_seconds);
    app_.add_option("-E,--conflict-exit-code", status_, "Exit status if the lock is not had; default: 1")
        ->type_name("STATUS")
        ->take_last()
        ->check([this](const std::string& text) { return read_status(text, options_.conflict); });
    app_.add_option_function<std::string>(
            "-c,--command", [this](const std::string& line) { note_shell(line); },
            "Run COMMAND by the shell, $SHELL or /bin/sh")
        ->type_name("COMMAND")
        ->trigger_on_parse();
    app_.add_option("--exptime", exptime_, "End the lock after so long, and the command by TERM; default: never")
        ->type_name("SECONDS")
        ->take_last()
        ->check(read_seconds);
    app_.add_option("--why", options_.why, "What others are told when they ask for the lock")
        ->type_name("TEXT")
        ->take_last()
        ->check(read_why);
    app_.add_option("--dir", options_.directory, "The runtime directory; default: $HOLDFAST_DIR, or that of the user")
        ->type_name("PATH")
        ->take_last()
        ->check([](const std::string& path) { return path.empty() ? "bad directory \"\": expected a path" : ""; });
    app_.add_option("--user", options_.user, "Become that user first, with the command; for root")
        ->type_name("NAME")
        ->take_last();
    app_.add_option("--cluster", options_.cluster, "The cluster of which all machines share the lock")
        ->type_name("NAME")
        ->take_last()
        ->check([](const std::string& name) { return name.empty() ? "an empty name of a cluster" : ""; });
    app_.add_option("--agent-config", options_.agent_config,
                    "Configuration of the agent that --agent starts; default: /etc/holdfast/NAME.json")
        ->type_name("FILE")
        ->take_last()
        ->check(refuse_no_file);
  }

  // When it is read, and not at the end, it is known which words stand before it.
  void note_shell(const std::string& line) {
    if (words_before_shell_) throw CLI::ValidationError("--command", "expected once");
    shell_ = line;
    words_before_shell_ = app_.remaining_size();
  }

  /// Words on both sides of -c COMMAND: the later ones were meant for the command, and must not pass for a key.
  std::string stray_word() const {
    const std::size_t before = words_before_shell_.value_or(0);
    if (before == 0 || names_.size() <= before) return {};
    return "unexpected " + quote(names_[before]) + " after -c COMMAND: expected the command as one word, in quotes";
  }

  std::string sort_words() {
    for (const std::string& word : app_.remaining()) {
      if (word.size() > 1 && word.front() == '-') return unknown_option(app_, word);
      names_.push_back(word);
    }
    return {};
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

  std::string read_command(bool has_dashes) {
    const bool by_shell = app_.count("--command") != 0;
    if (by_shell && has_dashes) return "-c and a command after \"--\" were given: expected one of them";
    if (by_shell) {
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
    if (nonblock_ && !timeout_.empty()) return "-n and -w were given: expected one of them";
    if (options_.no_fork && options_.close) return "the --no-fork and --close options are incompatible";
    if (options_.cluster.empty() && (options_.agent || !options_.agent_config.empty()))
      return "an agent is of a cluster: expected --cluster NAME";
    if (!options_.agent && !options_.agent_config.empty())
      return "--agent-config is for the agent that --agent starts: expected --agent";
    if (!options_.cluster.empty()) {
      if (const Status name = check_cluster_name(options_.cluster); !name.ok()) return name.message;
      if (std::string objection = objection_of_cluster(options_); !objection.empty()) return objection;
    }
    if (options_.no_fork && !exptime_.empty())
      return "the --no-fork and --exptime options are incompatible: nothing would end the command with the lock";
    if (!timeout_.empty()) options_.timeout = std::strtod(timeout_.c_str(), nullptr);
    if (nonblock_) options_.timeout = 0;
    if (!exptime_.empty()) options_.exptime = std::strtod(exptime_.c_str(), nullptr);
    return {};
  }

  CLI::App app_;
  LockOptions options_;
  std::vector<std::string> names_;
  std::string shell_;
  std::optional<std::size_t> words_before_shell_;
  std::string timeout_;
  std::string status_;
  std::string exptime_;
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

std::variant<LockOptions, int> parse_lock_options(const std::vector<std::string>& arguments) {
  return LockParser().parse(arguments);
}

}  // namespace holdfast::cli
