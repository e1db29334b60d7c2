// Why a dictionary must not be removed: processes that use it or hold locks in it, or that this cannot be told.
#pragma once

#include <string>

#include "cli/world_options.h"
#include "inspect/sole_use.h"

namespace holdfast::cli {

/// A dictionary that is to be removed.
struct Candidate {
  std::string name;
  inspect::SoleUse use;
  std::string objection;  // empty: there is none, as far as it has been looked for
};

/// Looks, before this process enters the world. Without an objection and use by others, nobody begins to use it as long
/// as `use` is held; if it is not, there is no such dictionary.
Candidate judge_removal(const std::string& name);

/// Of one that is in use: by which processes, as far as that can be seen. The world is entered.
std::string use_in_words(const WorldOptions& world, const std::string& directory, const std::string& name);

}  // namespace holdfast::cli
