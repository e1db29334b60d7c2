// What is wrong with a world: what `holdfast doctor` says. Each check reads only, and has a file of its own.
#pragma once

#include <string>
#include <vector>

#include "inspect/dictionaries.h"
#include "inspect/files.h"
#include "inspect/locks.h"
#include "inspect/openers.h"
#include "inspect/processes.h"

namespace holdfast::inspect {

/// warning: it works, and somebody should look at it. error: something does not work, or was lost.
enum class Severity { note, warning, error };
/// "note", "warning", "error".
const char* severity_in_words(Severity severity) noexcept;

struct Finding {
  Severity severity = Severity::note;
  std::string subject;   // a file, a dictionary, a process; empty: the world
  std::string sentence;  // what is so
  std::string advice;    // what to do, if there is something
};
using Findings = std::vector<Finding>;

/// A finding of a sentence of the library, which may have advice behind its last semicolon.
Finding finding_of(Severity severity, const std::string& subject, const std::string& sentence);

/// All that the checks look at, gathered once.
struct Patient {
  std::string directory;
  std::vector<WorldFile> files;
  Openers openers;       // of all processes of the machine that may be looked at
  bool entered = false;  // the rest is known: the world could be looked at
  Processes processes;
  std::vector<Dictionary> dictionaries;
};

// health_files.cc: files that are none, of another layout or another world, cut short, open to others.
void check_files(const Patient& patient, Findings& findings);
// health_room.cc: the file system.
void check_room(const Patient& patient, Findings& findings);
// health_processes.cc: places that are taken, processes that are stopped, and whether any lives.
void check_processes(Patient& patient, Findings& findings);
// health_dictionaries.cc: damage, mutexes, what the dead hold, how full it is, its cluster.
void check_dictionary(const Dictionary& dictionary, Patient& patient, Findings& findings);

// health_waits.cc: commands that wait for each other.
void check_waits(Patient& patient, Findings& findings);

/// Whether holdfast_flush_expired would mend something: damage, or what the dead hold.
bool needs_repair(const Dictionary& dictionary, Patient& patient);

}  // namespace holdfast::inspect
