// `holdfast doctor`: reports what is wrong with a runtime directory, and repairs it.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <tuple>
#include <utility>

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
#include "inspect/user_access.h"
#include "inspect/user_directories.h"
#include "inspect/world.h"

namespace holdfast::cli {

namespace {

using inspect::Finding;
using inspect::Findings;
using inspect::Severity;
using inspect::WorldSnapshot;

constexpr double kLookAtProcesses = 30;

Style style_of_severity(Severity severity) {
  if (severity == Severity::error) return Style::red;
  return severity == Severity::warning ? Style::yellow : Style::dim;
}

/// Gathers the data, and adds findings for data that could not be read.
WorldSnapshot gather(const WorldOptions& world, Findings& findings) {
  return inspect::gather(
      [&](const std::string& directory) { return world.openers(directory, inspect::all_pids(), kLookAtProcesses); },
      world.names_missing_directory(), findings);
}

int status_of(const Findings& findings) {
  if (inspect::worst_of(findings) == Severity::error) return exit_status::kTrouble;
  return inspect::worst_of(findings) == Severity::warning ? exit_status::kNo : exit_status::kYes;
}

/// Reports agents that refuse a store. Other checks do not ask agents, so they notice at most that there is no session.
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
            : fmt::format("its agent refuses etcd cluster {}: too few endpoints belong to it", refused);
    findings.push_back(
        {Severity::error, "cluster " + cluster, sentence,
         fmt::format("remove the endpoints of other stores from the configuration; if the store was replaced "
                     "on purpose, run: holdfast cluster accept-new-store {} {}",
                     cluster, refused)});
  }
}

// --- repair ---

// This process can only read. So it starts `holdfast prune` in a child, as the user that this process has become.
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

std::vector<Cell> row_of(const Finding& finding) {
  const std::string severity = inspect::severity_in_words(finding.severity);
  const std::string subject = inspect::escaped(finding.subject);
  return {Cell(severity, style_of_severity(finding.severity)), Cell(subject, Style::plain, subject.empty() ? "-" : ""),
          Cell(inspect::without_controls(finding.sentence), Style::plain, inspect::escaped(finding.sentence)),
          Cell(finding.advice, Style::plain, finding.advice.empty() ? "-" : "")};
}

/// Shows a finding that does not concern a single dictionary.
void add(const Finding& finding, Shown& shown) {
  shown.rows.push_back(row_of(finding));
  shown.items.push_back(inspect::to_json(finding));
  shown.status = std::max(shown.status, status_of({finding}));
}

Shown show(const WorldSnapshot& snapshot, const Findings& findings) {
  Shown shown{.directory = snapshot.directory, .trouble = snapshot.trouble, .is_used = snapshot.entered};
  for (const Finding& finding : findings) add(finding, shown);
  for (const inspect::Dictionary& dictionary : snapshot.dictionaries) shown.names.push_back(dictionary.name);
  return shown;
}

/// Adds findings that are not about the contents of one directory. The first directory belongs to the user who runs the
/// command.
void add_findings_about_directories(const WorldOptions& world, std::vector<Shown>& all) {
  for (Shown& one : all)
    if (!one.trouble.empty() && one.rows.empty()) add(inspect::finding_of(Severity::error, "", one.trouble), one);
  if (const std::string hidden = world.hidden(); !hidden.empty())
    add({Severity::note, "", hidden, WorldOptions::kSeeHidden}, all.front());
  if (!world.shows_all()) return;
  std::vector<std::string> refused = inspect::find_user_directories().refused;
  if (refused.empty()) return;
  const bool names_all = world.json() || !world.output().columns;
  const std::size_t more = names_all ? 0 : refused.size() - 1;
  refused.resize(refused.size() - more);
  const std::string others = more != 0 ? fmt::format("; --json shows {} more like it", more) : "";
  for (const std::string& directory : refused)
    add({Severity::warning, directory, "does not belong to the user in its name, or is a mount point" + others,
         "remove it, or that user's programs cannot use the default directory"},
        all.front());
}

std::string findings_for_people(const Shown& shown, bool with_users, const Output& output) {
  constexpr const char* kIndent = "    ";
  std::string text;
  for (const std::vector<Cell>& row : shown.rows) {
    const auto& [severity, subject, sentence, advice] = std::tie(row[0], row[1], row[2], row[3]);
    std::string line = output.styled(severity.text, severity.style) + ": ";
    if (with_users && !shown.user.empty()) line += inspect::escaped(shown.user) + ": ";
    line += (subject.text.empty() ? "" : subject.text + ": ") + sentence.text;
    text += paragraph(line, output.width);
    if (!advice.text.empty()) text += paragraph(advice.text, output.width, kIndent, kIndent);
  }
  return text;
}

void print_findings(const std::vector<Shown>& all, const WorldOptions& world, int status) {
  const Output output = world.output();
  if (!output.columns) return print(table_of({}, all, world.shows_all(), output).text(output));
  std::string text;
  std::size_t dictionaries = 0;
  for (const Shown& one : all) {
    text += findings_for_people(one, world.shows_all(), output);
    dictionaries += one.names.size();
  }
  if (is_any_used(all) && status == exit_status::kYes)
    text += output.styled("no problems", Style::green) +
            fmt::format(" in {}: {}\n", directories_in_words(all),
                        inspect::counted(dictionaries, "dictionary", "dictionaries"));
  print(text);
}

const char* status_in_words(int status) {
  return status == exit_status::kYes
             ? "ok"
             : inspect::severity_in_words(status == exit_status::kNo ? Severity::warning : Severity::error);
}

/// Adapts the findings about another user's directory: omits the note that nobody uses it, and adds --user to advice
/// that contains commands.
void fit_among_others(Findings& findings) {
  std::erase_if(findings, [](const Finding& one) {
    return one.severity == Severity::note && one.sentence.starts_with(inspect::kUnusedYet);
  });
  if (::geteuid() == 0) return;
  for (Finding& one : findings)
    if (one.advice.find("\"holdfast ") != std::string::npos)
      one.advice += fmt::format("; add --user {}", inspect::name_of_user(::geteuid()));
}

Shown examine(WorldOptions& world, bool repairs, const inspect::Limits& limits) {
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
  Findings findings = inspect::check_health(snapshot, limits, found);
  if (world.is_one_of_many()) fit_among_others(findings);
  return show(snapshot, findings);
}

int run_doctor(Arguments& arguments) {
  WorldOptions world(arguments, WorldOptions::Prints::columns);
  bool repairs = false;
  inspect::Limits limits;
  arguments.add_flag("--repair", repairs, "Repair damage, and free locks of dead processes, in one directory");
  arguments.add_value("--held", "SECONDS",
                      "Warn if a lock with waiters has been held longer than SECONDS; default: 3600", read_seconds,
                      limits.held);
  arguments.add_value("--waiting", "SECONDS", "Warn if a caller has waited longer than SECONDS; default: 60",
                      read_seconds, limits.waiting);
  arguments.parse();
  if (repairs) world.show_one();
  std::vector<Shown> all =
      world.look(kSecondsEach + 2 * kLookAtProcesses, [&] { return examine(world, repairs, limits); });
  add_findings_about_directories(world, all);
  int status = exit_status::kYes;
  for (const Shown& one : all) status = std::max(status, one.status);
  if (world.json()) {
    inspect::Json json = json_of(all, "findings", world.shows_all());
    json["status"] = status_in_words(status);
    print_json(json, world.output());
  } else {
    print_findings(all, world, status);
  }
  return status;
}

}  // namespace

const Subcommand kDoctor{
    "doctor",
    "Diagnose and repair a runtime directory",
    "",
    "Report problems in a runtime directory, and what to do about each.",
    R"(Without --repair, doctor only reads and takes no locks. --repair runs "holdfast prune" on the
dictionaries that need it, and checks again. Root checks the directories of all users, unless a
directory or user is named; --repair covers only the directory that is named, or root's own.

Exit status: 0 no problems, or notes only; 1 warnings; 2 errors.)",
    run_doctor};

}  // namespace holdfast::cli
