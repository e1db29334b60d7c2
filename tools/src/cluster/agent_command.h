// Implements `holdfast agent`, which becomes the program holdfast-agent beside this one. The agent is a separate
// program because it needs libraries that nothing else needs.
#pragma once

#include <string>

#include "cli/commands.h"

namespace holdfast::cli {

/// Exit statuses of the agent, as in tools/docs/holdfast.md.
namespace agent_status {
inline constexpr int kWrongConfiguration = 2;
inline constexpr int kSuperseded = 3;
}  // namespace agent_status

/// Returns the path of the agent.
std::string agent_program();
/// Returns a message that explains, by an errno value, why the agent cannot be run.
std::string why_no_agent(int error);
/// Replaces this process by the agent. On failure, prints a message and returns the exit status.
int become_agent(const Words& given);

}  // namespace holdfast::cli
