// The dictionaries of a world: what `holdfast ls` and `holdfast stat` show. Gathered without a mutex.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "holdfast.h"
#include "inspect/files.h"
#include "inspect/locks.h"
#include "inspect/openers.h"
#include "inspect/processes.h"

namespace holdfast::inspect {

struct Dictionary {
  std::string name;
  std::string trouble;   // why it cannot be looked at; empty if it can. Else only name and file are known
  bool is_gone = false;  // it was removed meanwhile
  holdfast_dict* handle = nullptr;
  std::uint64_t size = 0;
  std::uint64_t largest_value = 0;
  holdfast_stats counts{};
  std::string cluster;
  WorldFile file;
  std::vector<std::uint64_t> lockers;  // tokens of processes that hold or wait for its locks, each once
  bool all_lockers = false;            // these are all of them

  std::uint64_t reads() const noexcept { return counts.hits + counts.misses; }
};

/// A process that uses a dictionary: it has it open, or holds or waits for a lock in it.
struct Opener {
  std::uint32_t pid;
  std::string program;
};

struct Users {
  std::vector<Opener> seen;  // by pid
  bool complete = false;     // there are no others
};

/// Opens the dictionary to look at it. not_found with a sentence that names those that there are.
Expected<holdfast_dict*> attach(const std::string& name);

/// Whether the outcome of a call says that the dictionary was removed meanwhile, or never was one of this world. One of
/// which the file was cut short is still there: damaged.
bool is_gone(const std::string& directory, const std::string& name, int code);

/// Looks at one. With `trouble` if that is not possible.
Dictionary look_at(const std::string& directory, const std::string& name, Read what);

/// Looks at all, or at those that are named, but for those that go meanwhile; not_found if one is not there.
Expected<std::vector<Dictionary>> look_at_dictionaries(const std::string& directory,
                                                       const std::vector<std::string>& names, Read what = Read::header);

/// Whether one that could be looked at was removed since.
bool was_removed_since(const std::string& directory, const Dictionary& dictionary);

/// Notes which processes hold or wait for its locks. Gives up at that time, of holdfast_now().
void find_lockers(Dictionary& dictionary, double end);
/// Notes those of locks that were gathered before.
void note_lockers(Dictionary& dictionary, const std::vector<Lock>& locks);

/// Those that have it open, and the living of those that hold or wait for its locks: the command of `holdfast lock`
/// holds one without having it open.
Users users_of(const Dictionary& dictionary, const Openers& openers, Processes& processes);

/// Names the processes that have the dictionary open, as far as they were seen.
std::vector<Opener> openers_of(const Dictionary& dictionary, const Openers& openers, const Processes& processes);

}  // namespace holdfast::inspect
