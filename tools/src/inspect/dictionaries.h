// Reads the dictionaries of a world, for `holdfast ls` and `holdfast stat`. Takes no mutex.
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
  std::string trouble;   // why the dictionary cannot be read, or empty; if set, only name and file are known
  bool is_gone = false;  // the dictionary was removed in the meantime
  holdfast_dict* handle = nullptr;
  std::uint64_t size = 0;
  std::uint64_t largest_value = 0;
  holdfast_stats counts{};
  std::string cluster;
  WorldFile file;
  std::vector<std::uint64_t> lockers;  // the tokens of its holders and waiters, without duplicates
  bool all_lockers = false;            // `lockers` is complete

  std::uint64_t reads() const noexcept { return counts.hits + counts.misses; }
};

/// A process that uses a dictionary: it has the dictionary open, or holds or waits for a lock in the dictionary.
struct Opener {
  std::uint32_t pid;
  std::string program;
};

struct Users {
  std::vector<Opener> seen;  // sorted by pid
  bool complete = false;     // `seen` is complete
};

/// Opens the dictionary for reading. If it does not exist, returns not_found, and the message names the existing
/// dictionaries.
Expected<holdfast_dict*> attach(const std::string& name);

/// Returns whether this result of a call means that the dictionary was removed in the meantime, or never belonged to
/// this world. A dictionary whose file was truncated is damaged, but still exists.
bool is_gone(const std::string& directory, const std::string& name, int code);

/// Reads one dictionary. Sets `trouble` on failure.
Dictionary look_at(const std::string& directory, const std::string& name, Read what);

/// Reads the named dictionaries, or all if there are no names. Omits dictionaries that are removed in the meantime.
/// Returns not_found if a named dictionary does not exist.
Expected<std::vector<Dictionary>> look_at_dictionaries(const std::string& directory,
                                                       const std::vector<std::string>& names, Read what = Read::header);

/// Returns whether a dictionary has been removed since it was read.
bool was_removed_since(const std::string& directory, const Dictionary& dictionary);

/// Records which processes hold or wait for the dictionary's locks. Stops at `end`, in holdfast_now() time.
void find_lockers(Dictionary& dictionary, double end);
/// Does the same as find_lockers() with locks that were gathered earlier.
void note_lockers(Dictionary& dictionary, const std::vector<Lock>& locks);

/// Returns the processes that have the dictionary open, and the living processes that hold or wait for its locks. The
/// command of `holdfast lock` holds a lock without having the dictionary open.
Users users_of(const Dictionary& dictionary, const Openers& openers, Processes& processes);

/// Returns the visible processes that have the dictionary open.
std::vector<Opener> openers_of(const Dictionary& dictionary, const Openers& openers, const Processes& processes);

}  // namespace holdfast::inspect
