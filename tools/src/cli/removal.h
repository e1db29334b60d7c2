// Why a dictionary must not be removed: processes that use it or hold locks in it, or that this cannot be told.
#pragma once

#include <string>

#include "cli/world_options.h"
#include "inspect/sole_use.h"

namespace holdfast::cli {

/// A dictionary that is to be removed.
struct Candidate {
  std::string name;
  inspect::SoleUse use = {};
  std::string objection = {};  // empty: there is none, as far as it has been looked for
  bool forced = false;         // it is not looked for
};

/// Looks for living processes that hold locks, in a child, as a process that has entered a world cannot look from
/// outside. Make it before this process enters.
class HolderJudge {
 public:
  HolderJudge();
  ~HolderJudge();

  /// Why nobody may end the dictionary's locks, or "".
  std::string objection(const std::string& name) const;

 private:
  inspect::Descriptor channel_;
  pid_t child_ = 0;
};

/// Without an objection and use by others, nobody begins to use it as long as `use` is held; if it is not, there is no
/// such dictionary. REQUIRES: this process has entered the world, and has not opened the dictionary.
Candidate judge_removal(const std::string& name, const HolderJudge& judge);

/// Of one that is in use: by which processes, as far as that can be seen, or the holder of a lock in it. The world is
/// entered.
std::string use_in_words(const WorldOptions& world, const std::string& directory, const std::string& name,
                         const HolderJudge& judge);

}  // namespace holdfast::cli
