// Finds the problems of a world, for `holdfast doctor`. All checks are read-only.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "inspect/dictionaries.h"
#include "inspect/files.h"
#include "inspect/locks.h"
#include "inspect/openers.h"
#include "inspect/processes.h"

namespace holdfast::inspect {

/// The severity of a finding. warning: everything works, but something needs attention. error: something does not work,
/// or was lost.
enum class Severity { note, warning, error };
/// Returns "note", "warning" or "error".
const char* severity_in_words(Severity severity) noexcept;

struct Finding {
  Severity severity = Severity::note;
  std::string subject;   // a file, a dictionary or a process; empty if the finding is about the world
  std::string sentence;  // what is wrong
  std::string advice;    // what to do; may be empty
};
using Findings = std::vector<Finding>;

/// Makes a finding from a message of the library. The part after the message's last semicolon may be advice.
Finding finding_of(Severity severity, const std::string& subject, const std::string& sentence);

/// All data that the checks need, gathered once.
struct WorldSnapshot {
  std::string directory;
  std::vector<WorldFile> files;
  Openers openers;        // the files that this machine's visible processes have open
  bool entered = false;   // the world could be read; if not, the members below are unknown
  std::string trouble{};  // why it could not be read, although programs have used it
  Processes processes;
  std::vector<Dictionary> dictionaries;
};

/// Finds out which processes have the directory's files open.
using LookAtOpeners = std::function<Openers(const std::string& directory)>;

/// Gathers the data, and adds findings for data that could not be read. If no program has used the directory yet, adds
/// a finding, which is an error if `must_exist` is true, otherwise a note.
WorldSnapshot gather(const LookAtOpeners& openers, bool must_exist, Findings& findings);

/// The limits, in seconds. doctor reports a lock with waiters that is held for longer, and a caller that waits for
/// longer.
struct Limits {
  double held = 3600;
  double waiting = 60;
};

/// Adds findings about the world. Returns all findings, with the worst first.
Findings check_health(WorldSnapshot& snapshot, const Limits& limits, Findings findings);

/// Returns the severity of the worst finding, or `note` if there are no problems. REQUIRES: check_health() returned the
/// findings.
Severity worst_of(const Findings& findings) noexcept;

// health_files.cc: finds files that holdfast did not create, that have a different layout or belong to a different
// world, that are truncated, or that other users can open. Also checks the free space in the file system.
void check_files(const WorldSnapshot& snapshot, Findings& findings);
void check_room(const WorldSnapshot& snapshot, Findings& findings);
// health_processes.cc: checks process slots, stopped processes, and whether any process is alive.
void check_processes(WorldSnapshot& snapshot, Findings& findings);
// health_dictionaries.cc: checks dictionaries for damage, stuck mutexes, locks of dead processes, a lack of space, dead
// jobs, and trouble with their clusters.
void check_dictionary(const Dictionary& dictionary, WorldSnapshot& snapshot, Findings& findings);
// health_waits.cc: finds rings of waits, and locks that processes wait for or hold for too long.
void check_waits(WorldSnapshot& snapshot, const Limits& limits, Findings& findings);

/// Returns whether the dictionary has damage or locks of dead processes, which holdfast_flush_expired would repair.
bool needs_repair(const Dictionary& dictionary, WorldSnapshot& snapshot);

}  // namespace holdfast::inspect
