// `holdfast doctor`: reports what is wrong with a world, and repairs it.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "cli/arguments.h"
#include "cli/key_command.h"
#include "cli/message.h"
#include "cli/output.h"
#include "cli/print_json.h"
#include "cli/world_options.h"
#include "cluster/listening_agents.h"
#include "inspect/health.h"
#include "inspect/proc.h"
#include "inspect/text.h"

namespace holdfast::cli {

namespace {

using inspect::Finding;
using inspect::Findings;
using inspect::Severity;
using inspect::WorldSnapshot;

constexpr double kLookAtProcesses = 30;

std::string subject_and_sentence(const Finding& finding) {
  const std::string sentence = inspect::without_controls(finding.sentence);
  return finding.subject.empty() ? sentence : inspect::escaped(finding.subject) + ": " + sentence;
}

Style style_of_severity(Severity severity) {
  if (severity == Severity::error) return Style::red;
  return severity == Severity::warning ? Style::yellow : Style::dim;
}

/// Gathers the data, and adds findings for what could not be read.
WorldSnapshot gather(const WorldOptions& world, Findings& findings) {
  return inspect::gather(
      [&](const std::string& directory) { return world.openers(directory, inspect::all_pids(), kLookAtProcesses); },
      world.names_missing_directory(), findings);
}

int status_of(const Findings& findings) {
  if (inspect::worst_of(findings) == Severity::error) return exit_status::kTrouble;
  return inspect::worst_of(findings) == Severity::warning ? exit_status::kNo : exit_status::kYes;
}

/// Reports agents that refuse a store. No other check asks an agent; the others notice at most that there is no
/// session.
void report_refused_stores(Findings& findings) {
  constexpr double kTimeout = 1;
  for (const std::string& cluster : listening_agents()) {
    auto answer = ask_listening_agent(cluster, kTimeout);
    if (!answer || !answer->contains("store_refused")) continue;
    const auto id = [&](const char* name) {
      return fmt::format("{:016x}", std::strtoull((*answer)[name].c_str(), nullptr, 10));
    };
    const std::string refused = id("store_refused");
    const std::string sentence =
        answer->contains("store_cluster")
            ? fmt::format("its agent refuses etcd cluster {}: expected {}", refused, id("store_cluster"))
            : fmt::format("its agent refuses etcd cluster {}: too few endpoints name it", refused);
    findings.push_back(
        {Severity::error, "cluster " + cluster, sentence,
         fmt::format("remove the endpoints of other stores from the configuration; if the store was replaced "
                     "on purpose: holdfast cluster accept-new-store {} {}",
                     cluster, refused)});
  }
}

// --- repair ---

// This process can only read. So a child repairs: `holdfast prune`, as the user that this process has become.
bool prune(const std::vector<std::string>& names) {
  const pid_t child = ::fork();
  if (child < 0) return false;
  if (child == 0) {
    std::vector<std::string> words{"holdfast", "prune", "--"};
    words.insert(words.end(), names.begin(), names.end());
    std::vector<char*> values;
    values.reserve(words.size() + 1);
    for (std::string& word : words) values.push_back(word.data());
    values.push_back(nullptr);
    ::dup2(STDERR_FILENO, STDOUT_FILENO);
    ::execv("/proc/self/exe", values.data());
    ::_exit(exit_status::kTrouble);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

std::vector<std::string> names_to_repair(WorldSnapshot& snapshot) {
  std::vector<std::string> names;
  for (const inspect::Dictionary& dictionary : snapshot.dictionaries)
    if (inspect::needs_repair(dictionary, snapshot)) names.push_back(dictionary.name);
  return names;
}

void repair(WorldSnapshot& snapshot, Findings& findings) {
  const std::vector<std::string> names = names_to_repair(snapshot);
  if (names.empty() || prune(names)) return;
  // A dictionary that was removed in the meantime needs no repair.
  if (!names_to_repair(snapshot).empty()) findings.push_back({Severity::error, "", "the repair failed", ""});
}

// --- printing ---

void print_findings(const WorldSnapshot& snapshot, const Findings& findings, const Output& output) {
  std::string text;
  for (const Finding& finding : findings) {
    const std::string severity = inspect::severity_in_words(finding.severity);
    if (!output.columns) {
      text +=
          fmt::format("{}\t{}\t{}\t{}\n", severity, finding.subject.empty() ? "-" : inspect::escaped(finding.subject),
                      inspect::escaped(finding.sentence), finding.advice.empty() ? "-" : finding.advice);
      continue;
    }
    text += output.styled(severity, style_of_severity(finding.severity)) + ": " + subject_and_sentence(finding) + "\n";
    if (!finding.advice.empty()) text += "    " + finding.advice + "\n";
  }
  if (output.columns && snapshot.entered && status_of(findings) == exit_status::kYes)
    text += output.styled("no problems", Style::green) +
            fmt::format(" in {}: {}\n", inspect::escaped(snapshot.directory),
                        inspect::counted(snapshot.dictionaries.size(), "dictionary", "dictionaries"));
  print(text);
}

int run_doctor(Arguments& arguments) {
  WorldOptions world(arguments, WorldOptions::Prints::columns);
  bool repairs = false;
  inspect::Limits limits;
  arguments.add_flag("--repair", repairs, "Repair damage, and free locks of dead processes");
  arguments.add_value("--held", "SECONDS", "Warn if a lock with waiters has been held for longer; default: 3600",
                      read_seconds, limits.held);
  arguments.add_value("--waiting", "SECONDS", "Warn if a caller has waited for longer; default: 60", read_seconds,
                      limits.waiting);
  arguments.parse();
  world.want_openers();
  world.apply();
  Findings found;
  WorldSnapshot snapshot = gather(world, found);
  if (repairs) {
    repair(snapshot, found);
    Findings again;
    WorldSnapshot after = gather(world, again);
    found.insert(found.end(), again.begin(), again.end());
    snapshot = std::move(after);
  }
  report_refused_stores(found);
  const Findings findings = inspect::check_health(snapshot, limits, found);
  if (world.json())
    print_json(inspect::to_json(snapshot, findings), world.output());
  else
    print_findings(snapshot, findings, world.output());
  return status_of(findings);
}

}  // namespace

const Subcommand kDoctor{
    "doctor",
    "Diagnose and repair a runtime directory",
    "",
    "Report problems in a runtime directory, and what to do about each.",
    R"(Without --repair, doctor only reads and takes no locks. --repair runs "holdfast prune" on the
dictionaries that need it, and checks again.

Exit status: 0 no problems, or notes only; 1 warnings; 2 errors.)",
    run_doctor};

}  // namespace holdfast::cli
