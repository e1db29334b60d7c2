// What is wrong with a world: what `holdfast doctor` says. Each check reads only.
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
struct WorldSnapshot {
  std::string directory;
  std::vector<WorldFile> files;
  Openers openers;       // of all processes of the machine that may be looked at
  bool entered = false;  // the rest is known: the world could be looked at
  Processes processes;
  std::vector<Dictionary> dictionaries;
};

/// Which processes have the files of that directory open.
using LookAtOpeners = std::function<Openers(const std::string& directory)>;

/// Gathers what there is, and adds what stands in the way of more.
WorldSnapshot gather(const LookAtOpeners& openers, Findings& findings);

/// Adds what is wrong with it. The worst stand first.
Findings check_health(WorldSnapshot& snapshot, Findings findings);

/// Of findings that check_health() gave; note: all is well.
Severity worst_of(const Findings& findings) noexcept;

// health_files.cc: files that are none, of another layout or another world, cut short, open to others; and the room in
// the file system.
void check_files(const WorldSnapshot& snapshot, Findings& findings);
void check_room(const WorldSnapshot& snapshot, Findings& findings);
// health_processes.cc: places that are taken, processes that are stopped, and whether any lives.
void check_processes(WorldSnapshot& snapshot, Findings& findings);
// health_dictionaries.cc: damage, mutexes, what the dead hold, how full it is, its cluster.
void check_dictionary(const Dictionary& dictionary, WorldSnapshot& snapshot, Findings& findings);

/// Whether holdfast_flush_expired would mend something: damage, or what the dead hold.
bool needs_repair(const Dictionary& dictionary, WorldSnapshot& snapshot);

}  // namespace holdfast::inspect
