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

/// Severity of a finding. warning: everything works, but something needs attention. error: something does not work, or
/// was lost.
enum class Severity { note, warning, error };
/// Returns "note", "warning" or "error".
const char* severity_in_words(Severity severity) noexcept;

struct Finding {
  Severity severity = Severity::note;
  std::string subject;   // a file, a dictionary or a process; empty for the world
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
  Openers openers;        // of all visible processes of the machine
  bool entered = false;   // the world could be read; if not, the members below are unknown
  std::string trouble{};  // why it could not be read, although programs have used it
  Processes processes;
  std::vector<Dictionary> dictionaries;
};

/// Finds which processes have the files of the directory open.
using LookAtOpeners = std::function<Openers(const std::string& directory)>;

/// Gathers the data, and adds findings for what could not be read. If no program has used the directory yet, the
/// finding is an error if the directory `must_exist`, and otherwise a note.
WorldSnapshot gather(const LookAtOpeners& openers, bool must_exist, Findings& findings);

/// Times in seconds. It is a fault if a lock with waiters is held longer, or if a caller waits longer.
struct Limits {
  double held = 3600;
  double waiting = 60;
};

/// Adds what is wrong with the world. Returns the findings with the worst first.
Findings check_health(WorldSnapshot& snapshot, const Limits& limits, Findings findings);

/// Returns the severity of the worst finding; a note if there are no problems. REQUIRES: check_health() returned the
/// findings.
Severity worst_of(const Findings& findings) noexcept;

// health_files.cc: checks for files that are not holdfast's, that belong to a different layout or world, or that are
// truncated or open to other users. Also checks the free space in the file system.
void check_files(const WorldSnapshot& snapshot, Findings& findings);
void check_room(const WorldSnapshot& snapshot, Findings& findings);
// health_processes.cc: checks process slots, stopped processes, and whether any process is alive.
void check_processes(WorldSnapshot& snapshot, Findings& findings);
// health_dictionaries.cc: checks damage, mutexes, locks of dead processes, how full dictionaries are, dead jobs, and
// clusters.
void check_dictionary(const Dictionary& dictionary, WorldSnapshot& snapshot, Findings& findings);
// health_waits.cc: checks rings of waits, and locks that are waited for or held too long.
void check_waits(WorldSnapshot& snapshot, const Limits& limits, Findings& findings);

/// Returns whether there is something that holdfast_flush_expired would repair: damage, or locks of dead processes.
bool needs_repair(const Dictionary& dictionary, WorldSnapshot& snapshot);

}  // namespace holdfast::inspect
