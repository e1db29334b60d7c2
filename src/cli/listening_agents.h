// Agents that listen in the runtime directory, whether or not a dictionary of their cluster is there.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "cli/question.h"

namespace holdfast::cli {

/// Clusters of which an agent listens here, in order: their dictionaries may be yet to be made.
std::vector<std::string> listening_agents();

/// What the agent of that cluster says of itself.
Expected<Answer> ask_listening_agent(const std::string& cluster);

}  // namespace holdfast::cli
