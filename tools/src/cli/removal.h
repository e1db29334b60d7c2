// Decides whether a dictionary may be removed. It must not be removed if processes use it or hold locks in it, or if
// this is unknown.
#pragma once

#include <string>

#include "cli/world_options.h"
#include "inspect/sole_use.h"

namespace holdfast::cli {

/// A dictionary to remove.
struct Candidate {
  std::string name;
  inspect::SoleUse use = {};
  std::string objection = {};  // why not to remove it; empty if there is no reason
  bool forced = false;         // remove it without checks
};

/// Finds living processes that hold locks. It reads the world in a child, because a process that has entered a world
/// cannot read it from outside. Create the judge before this process enters the world.
class HolderJudge {
 public:
  HolderJudge();
  ~HolderJudge();

  /// Returns why the dictionary's locks must not be ended, or an empty string.
  std::string objection(const std::string& name) const;

 private:
  inspect::Descriptor channel_;
  pid_t child_ = 0;
};

/// Judges a dictionary. If there is no objection, no process can start to use the dictionary while the result's
/// `use.held` is open. If `use.held` is not open, the dictionary does not exist. REQUIRES: this process has entered the
/// world, and has not opened the dictionary.
Candidate judge_removal(const std::string& name, const HolderJudge& judge);

/// Returns a text that names the processes that use the dictionary, if they are visible, or the holder of a lock in it.
/// REQUIRES: this process has entered the world.
std::string use_in_words(const WorldOptions& world, const std::string& directory, const std::string& name,
                         const HolderJudge& judge);

}  // namespace holdfast::cli
