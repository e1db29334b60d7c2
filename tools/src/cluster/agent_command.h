// Implements `holdfast agent`, which executes the program holdfast-agent in the folder of this program. The agent is a
// separate program because it needs libraries that nothing else needs.
#pragma once

#include <string>

#include "cli/commands.h"

namespace holdfast::cli {

/// The agent's exit statuses, which tools/docs/holdfast.md explains.
namespace agent_status {
inline constexpr int kWrongConfiguration = 2;
inline constexpr int kSuperseded = 3;
}  // namespace agent_status

/// Returns the path of the agent.
std::string agent_program();
/// Returns a message that explains why the agent cannot be run. `error` is an errno value.
std::string why_no_agent(int error);
/// Replaces this process by the agent. On failure, prints a message and returns the exit status.
int become_agent(const Words& given);

}  // namespace holdfast::cli
