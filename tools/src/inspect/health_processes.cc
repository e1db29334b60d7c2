#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "inspect/health.h"
#include "inspect/text.h"
#include "world/world_file.h"

namespace holdfast::inspect {

namespace {

constexpr double kNearlyAll = 0.9;
constexpr std::size_t kPlaces = HOLDFAST_PROCESSES_MAX;

void check_places(std::size_t taken, Findings& findings) {
  if (taken >= kPlaces)
    findings.push_back(
        {Severity::error, "",
         fmt::format("all {} process slots are taken: no further process can use the directory", kPlaces),
         "end some processes, or give unrelated programs their own directory (HOLDFAST_DIR)"});
  else if (static_cast<double>(taken) >= kNearlyAll * static_cast<double>(kPlaces))
    findings.push_back({Severity::warning, "", fmt::format("{} of {} process slots are taken", taken, kPlaces),
                        "give unrelated programs their own directory (HOLDFAST_DIR)"});
}

// Checks the limit on inotify instances, because a process in a long wait uses one of its user's instances
// (wait/death_watch.h).
void check_instances(std::size_t living, Findings& findings) {
  std::size_t most = 0;
  if (!(std::ifstream("/proc/sys/fs/inotify/max_user_instances") >> most) || living <= most) return;
  findings.push_back({Severity::note, "",
                      fmt::format("{} processes use this directory, but a user has only {} inotify instances: waiters "
                                  "without one must poll for dead holders",
                                  living, most),
                      "raise fs.inotify.max_user_instances (sysctl)"});
}

// Checks the counts that cover the whole world. They can be read through any dictionary.
void check_counts(const WorldSnapshot& snapshot, Findings& findings) {
  const auto first = std::find_if(snapshot.dictionaries.begin(), snapshot.dictionaries.end(),
                                  [](const Dictionary& dictionary) { return dictionary.trouble.empty(); });
  if (first == snapshot.dictionaries.end()) return;
  const holdfast_stats& counts = first->counts;
  if (counts.lives_unknown != 0)
    findings.push_back(
        {Severity::warning, "",
         fmt::format("processes failed {} to tell whether another process is alive: its locks were not taken over",
                     counted(counts.lives_unknown, "time", "times")),
         "processes may have no free descriptors, or no access to the directory after chroot or setuid"});
  if (counts.words_mended != 0)
    findings.push_back(
        {Severity::warning, "",
         fmt::format("{} overwritten, and repaired", counted(counts.words_mended, "word of the file \"processes\" was",
                                                             "words of the file \"processes\" were")),
         "a program writes to memory that it does not own: run it under a memory checker"});
}

std::string dictionaries_that_end(const WorldSnapshot& snapshot) {
  std::string names;
  for (const Dictionary& dictionary : snapshot.dictionaries)
    if (dictionary.trouble.empty() && dictionary.file.persist == kTemporary)
      names += (names.empty() ? "" : ", ") + escaped(dictionary.name);
  return names;
}

}  // namespace

void check_processes(WorldSnapshot& snapshot, Findings& findings) {
  const std::vector<const Process*> living = snapshot.processes.living();
  check_places(living.size(), findings);
  check_instances(living.size(), findings);
  check_counts(snapshot, findings);
  for (const Process* const process : living) {
    if (process->life == Life::stopped)
      findings.push_back(
          {Severity::warning, fmt::format("pid {}", process->shown_pid()),
           fmt::format("({}) is stopped, by a signal or a debugger: it keeps its locks", escaped(process->program)),
           "continue it (kill -CONT), or end it"});
  }
  const auto unknown = std::count_if(living.begin(), living.end(),
                                     [](const Process* process) { return process->life == Life::unknown; });
  if (unknown != 0)
    findings.push_back({Severity::warning, "",
                        fmt::format("cannot tell whether {} alive",
                                    counted(static_cast<std::uint64_t>(unknown), "process is", "processes are")),
                        "run doctor again; until it can tell, their locks stay held"});
  if (!living.empty()) return;
  const std::string left = dictionaries_that_end(snapshot);
  // This is not a warning, because `holdfast lock --no-fork` always leaves dictionaries behind, and any other last
  // process leaves them behind for a moment.
  if (!left.empty())
    findings.push_back({Severity::note, "", "no process uses this directory, and these dictionaries are left: " + left,
                        "the next process removes them; so does \"holdfast prune\""});
}

}  // namespace holdfast::inspect
