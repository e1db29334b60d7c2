// Agents that listen in the runtime directory, whether or not a dictionary of their cluster is there.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "cluster/question.h"

namespace holdfast::cli {

/// Clusters of which an agent listens here, in order: their dictionaries may be yet to be made.
std::vector<std::string> listening_agents();

/// What the agent of that cluster says of itself.
Expected<Answer> ask_listening_agent(const std::string& cluster, double seconds = kAnswerSeconds);
/// Tells the agent of that cluster that the store with this id is the right one.
Expected<Answer> accept_store(const std::string& cluster, std::uint64_t id);

}  // namespace holdfast::cli
