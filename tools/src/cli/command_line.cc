#include "cli/command_line.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <thread>

#include "base/gate_name.h"
#include "base/name.h"
#include "cli/command_words.h"
#include "cli/commands.h"
#include "cli/descriptor.h"
#include "cli/message.h"
#include "cli/print_help.h"
#include "holdfast.h"

namespace holdfast::cli {

namespace {

constexpr const char* kRunFooter =
    R"(SCRIPT runs once in every worker. Arguments after it are in the table arg.
With -e, the arguments of CODE follow "--".
In the script, require "resty.holdfast.worker" tells id(), count() and exiting().

Signals to the master:
  TERM, INT  stop the workers at once; a second one kills them
  QUIT       let the workers finish
  HUP        start new workers with the script as it is now, let the old ones finish

Exit status: 0 all workers succeeded, 1 a worker failed, 2 the command line is wrong;
ended by TERM or INT, the master ends by that signal.)";

/// The usage line in the customary form; the rest as CLI11 has it.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* app, std::string /*name*/) const override {
    if (app->get_name() == "run")
      return "Usage: holdfast run [OPTIONS] SCRIPT [ARGUMENTS...]\n"
             "       holdfast run [OPTIONS] -e CODE [-- ARGUMENTS...]\n";
    return "Usage: holdfast [OPTIONS] COMMAND ...\n";
  }
};

int default_workers() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

template <class Number>
bool parse_number(const std::string& text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

/// A CLI11 validator's answer: empty, or what is wrong.
std::string read_workers(const std::string& text, int& workers) {
  if (parse_number(text, workers) && workers >= 1 && workers <= kWorkersMax) return {};
  return fmt::format("bad number \"{}\": expected 1 to {} (a runtime directory has room for {} processes)", text,
                     kWorkersMax, kWorkersMax + 1);
}

std::string read_grace(const std::string& text, std::chrono::duration<double>& grace) {
  double value = 0;
  if (parse_number(text, value) && value >= 0 && value <= kGraceMax) {
    grace = std::chrono::duration<double>(value);
    return {};
  }
  return fmt::format("bad time \"{}\": expected seconds, 0 to {:g}, as in 2.5", text, kGraceMax);
}

std::string read_dictionary(const std::string& text, std::vector<Declaration>& dictionaries) {
  const Expected<Declaration> declaration = read_declaration(text);
  if (!declaration) return declaration.status().message;
  dictionaries.push_back(*declaration);
  return {};
}

std::string read_agent(const std::string& text, std::vector<std::string>& agents) {
  if (const Status name = check_cluster_name(text); !name.ok()) return name.message;
  if (std::find(agents.begin(), agents.end(), text) == agents.end()) agents.push_back(text);
  return {};
}

std::string read_agent_config(const std::string& text, std::string& path) {
  path = text;
  return refuse_no_file(text);
}

/// As lines of one script: a second one sees the local variables of the first.
std::string read_code(const std::string& text, std::optional<std::string>& code) {
  code = code ? *code + "\n" + text : text;
  return {};
}

/// Why the file cannot be run; empty if it can. Workers read it one by one, so a pipe will not do.
std::string judge_script(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (file.get() < 0) return fmt::format("cannot read the script \"{}\": {}", path, std::strerror(errno));
  struct stat status {};
  if (::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode))
    return fmt::format("cannot run \"{}\": expected a file with a Lua script", path);
  return {};
}

class Parser {
 public:
  Parser() : app_("Cross-process locks and a shared dictionary for LuaJIT.", "holdfast") {
    app_.formatter(std::make_shared<HelpFormatter>());
    app_.set_help_flag("-h,--help", "Print this help and exit");
    app_.set_version_flag("--version", std::string("holdfast ") + holdfast_version(), "Print the version and exit");
    app_.footer("\"holdfast COMMAND --help\" tells more about a command.");
    app_.allow_extras();
    run_ = app_.add_subcommand("run", "Run a Lua script in several worker processes");
    run_->group("Commands");
    for (const Subcommand& other : commands()) app_.add_subcommand(other.name, other.summary)->group("Commands");
    run_->footer(kRunFooter);
    run_->allow_extras();
    add_value("-e", "CODE", "Run CODE instead of a script; may be repeated, each is a line of one script",
              [this](const std::string& text) { return read_code(text, options_.script.code); });
    add_value("--workers", "N", "Number of workers; default: the number of processors",
              [this](const std::string& text) { return read_workers(text, options_.workers); });
    add_value("--dict", "NAME=SIZE", "Open a shared dictionary, as in --dict my_locks=1m; may be repeated",
              [this](const std::string& text) { return read_dictionary(text, options_.dictionaries); });
    add_value("--agent", "CLUSTER", "Have an agent of the cluster, as long as the workers run; may be repeated",
              [this](const std::string& text) { return read_agent(text, options_.agents); });
    add_value("--agent-config", "FILE", "Configuration of that agent; default: /etc/holdfast/CLUSTER.json",
              [this](const std::string& text) { return read_agent_config(text, options_.agent_config); });
    add_value("--grace", "SECONDS", "Time from TERM to KILL when workers are stopped; default: 5",
              [this](const std::string& text) { return read_grace(text, options_.grace); });
    run_->add_flag("--respawn", options_.respawn, "Start a worker again when it fails")->disable_flag_override();
    options_.workers = default_workers();
  }

  Parsed parse(const std::vector<std::string>& arguments) {
    const Parts parts = split(arguments);
    std::vector<std::string> own = parts.own;
    const bool is_run = !own.empty() && own.front() == run_->get_name();
    if (const std::string wrong = split_values(is_run ? *run_ : app_, own); !wrong.empty())
      return refuse(wrong, is_run);
    std::reverse(own.begin(), own.end());  // as CLI11 takes it
    try {
      app_.parse(own);
    } catch (const CLI::Success& success) {
      return Done{print_help(app_, success)};
    } catch (const CLI::ParseError& error) {
      return refuse(in_words(*run_, error));
    }
    if (!run_->parsed()) return refuse_command(arguments);
    for (const std::string& extra : run_->remaining()) return refuse(unknown_option(extra, *run_));
    if (const std::string reason = read_script(parts); !reason.empty()) return refuse(reason);
    const auto environment = environment_declarations();
    if (!environment) return refuse(environment.status().message);
    const auto declarations = merge_declarations(*environment, options_.dictionaries);
    if (!declarations) return refuse(declarations.status().message);
    options_.dictionaries = *declarations;
    if (!options_.agent_config.empty() && options_.agents.size() != 1)
      return refuse(fmt::format("--agent-config and {} clusters were given: expected one, by --agent CLUSTER",
                                options_.agents.size()));
    return options_;
  }

 private:
  template <class Read>
  void add_value(const char* name, const char* type, const char* description, Read read) {
    run_->add_option_function<std::vector<std::string>>(
            name, [](const std::vector<std::string>&) {}, description)
        ->type_name(type)
        ->type_size(1)
        ->expected(1)
        ->take_all()
        ->allow_extra_args(false)  // with it, CLI11 would take "[1,2]" for two values
        ->check([read](const std::string& text) { return read(text); });
  }

  /// The arguments of `holdfast`, and those of the script, with its name. CLI11 never sees the latter.
  struct Parts {
    std::vector<std::string> own;
    std::vector<std::string> rest;
    bool dashes;  // between them
  };

  Parts split(const std::vector<std::string>& arguments) const {
    if (arguments.empty() || arguments.front() != "run") return {arguments, {}, false};
    std::size_t i = 1;
    for (; i < arguments.size() && arguments[i] != "--"; ++i) {
      const std::string& argument = arguments[i];
      if (argument.size() < 2 || argument.front() != '-') break;
      const CLI::Option* option = run_->get_option_no_throw(argument);
      if (option != nullptr && option->get_items_expected_max() > 0) ++i;
    }
    const auto end = arguments.begin() + static_cast<std::ptrdiff_t>(std::min(i, arguments.size()));
    const bool dashes = end != arguments.end() && *end == "--";
    return {{arguments.begin(), end}, {end + (dashes ? 1 : 0), arguments.end()}, dashes};
  }

  /// Empty, or what is wrong.
  std::string read_script(const Parts& parts) {
    Script& script = options_.script;
    script.arguments = parts.rest;
    if (script.code) {
      script.path = "-e";
      if (parts.rest.empty() || parts.dashes) return {};
      return fmt::format("-e and the script \"{}\" were given: expected one of them; arguments of -e follow \"--\"",
                         parts.rest.front());
    }
    if (parts.rest.empty()) return "no script was given, and no -e";
    script.path = parts.rest.front();
    script.arguments.erase(script.arguments.begin());
    return judge_script(script.path);
  }

  static std::string unknown_option(const std::string& given, const CLI::App& app) {
    std::string accepted;
    for (const CLI::Option* option : app.get_options()) accepted += (accepted.empty() ? "" : ", ") + option->get_name();
    return fmt::format("unknown option \"{}\"; accepted: {}", given, accepted);
  }

  Parsed refuse_command(const std::vector<std::string>& arguments) const {
    if (arguments.empty()) return refuse("no command was given; accepted: " + names_of_commands());
    if (arguments.front().starts_with('-')) return refuse(unknown_option(arguments.front(), app_));
    return refuse(fmt::format("unknown command \"{}\"; accepted: {}", arguments.front(), names_of_commands()));
  }

  Parsed refuse(const std::string& reason) const { return refuse(reason, run_->parsed()); }

  static Parsed refuse(const std::string& reason, bool is_run) {
    say("{}\nTry \"holdfast {}--help\".", reason, is_run ? "run " : "");
    return Done{kUsageError};
  }

  CLI::App app_;
  CLI::App* run_ = nullptr;
  RunOptions options_;
};

}  // namespace

Parsed parse_command_line(const std::vector<std::string>& arguments) { return Parser().parse(arguments); }

}  // namespace holdfast::cli
