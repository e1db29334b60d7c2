#include "run/run_options.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <thread>

#include "base/gate_name.h"
#include "cli/descriptor.h"
#include "inspect/text.h"

namespace holdfast::cli {

namespace {

constexpr const char* kWrongWorkers =
    "bad number {}: expected 1 to 1023 (a runtime directory has room for 1024 processes)";
static_assert(kWorkersMax == 1023);

int default_workers() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

std::string read_grace(const std::string& text, std::chrono::duration<double>& grace) {
  const auto number = inspect::number_of(text);
  if (!number || !(*number >= 0 && *number <= kGraceMax))
    return fmt::format("bad time \"{}\": expected seconds from 0 to {:g}, as in 2.5", text, kGraceMax);
  grace = std::chrono::duration<double>(*number);
  return {};
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

/// Joins the texts of all -e options as lines of one script, so that each line can use the local variables of earlier
/// lines.
std::string read_code(const std::string& text, std::optional<std::string>& code) {
  code = code ? *code + "\n" + text : text;
  return {};
}

/// Returns why the file cannot be run, or an empty string. Each worker reads the file, so the file must not be a pipe.
std::string judge_script(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (file.get() < 0) return fmt::format("cannot read the script \"{}\": {}", path, std::strerror(errno));
  struct stat status {};
  if (::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode))
    return fmt::format("cannot run \"{}\": expected a file with a Lua script", path);
  return {};
}

void add_options(Arguments& arguments, RunOptions& options) {
  arguments.pass_on_from_first_word();
  arguments.add_value("-e", "CODE", "Run CODE instead of a script; may be repeated to add lines", read_code,
                      options.script.code);
  arguments.add_number("--workers", "N", "Start N workers; default: the number of processors", options.workers,
                       {.least = 1, .most = kWorkersMax, .wrong = kWrongWorkers});
  arguments.add_value("--dict", "NAME=SIZE", "Open a shared dictionary, as in --dict my_locks=1m; may be repeated",
                      read_dictionary, options.dictionaries);
  arguments.add_value("--agent", "CLUSTER", "Run this cluster's agent while the workers run; may be repeated",
                      read_agent, options.agents);
  arguments.add_file("--agent-config", "Read the agent's configuration from FILE; default: /etc/holdfast/CLUSTER.json",
                     options.agent_config);
  arguments.add_value("--grace", "SECONDS", "When stopping, send KILL this long after TERM; default: 5", read_grace,
                      options.grace);
  arguments.add_flag("--respawn", options.respawn, "Restart a worker when it fails");
}

/// Finds out which script to run. Returns an error message, or an empty string on success.
std::string read_script(const Arguments& arguments, Script& script) {
  script.arguments = arguments.passed_on();
  if (script.code) {
    script.path = "-e";
    if (script.arguments.empty() || arguments.has_dashes()) return {};
    return fmt::format("-e cannot be combined with the script \"{}\"; put arguments for the CODE of -e after \"--\"",
                       script.arguments.front());
  }
  if (script.arguments.empty()) return "no SCRIPT and no -e was given";
  script.path = script.arguments.front();
  script.arguments.erase(script.arguments.begin());
  return judge_script(script.path);
}

/// Checks the combination of options. Returns an error message, or an empty string on success.
std::string judge(RunOptions& options) {
  const auto environment = environment_declarations();
  if (!environment) return environment.status().message;
  const auto declarations = merge_declarations(*environment, options.dictionaries);
  if (!declarations) return declarations.status().message;
  options.dictionaries = *declarations;
  if (options.agent_config.empty() || options.agents.size() == 1) return {};
  return fmt::format("--agent-config needs exactly one --agent CLUSTER, but {} were given", options.agents.size());
}

}  // namespace

RunOptions read_run_options(Arguments& arguments) {
  RunOptions options;
  options.workers = default_workers();
  add_options(arguments, options);
  arguments.parse();
  std::string wrong = read_script(arguments, options.script);
  if (wrong.empty()) wrong = judge(options);
  if (!wrong.empty()) arguments.refuse(wrong);
  return options;
}

}  // namespace holdfast::cli
