// `holdfast agent`: becomes the program holdfast-agent beside this one. That is a separate program, because it needs
// libraries that nothing else does.
#pragma once

#include <string>

#include "cli/commands.h"

namespace holdfast::cli {

/// Exit statuses of that program, as in tools/docs/holdfast.md.
namespace agent_status {
inline constexpr int kWrongConfiguration = 2;
inline constexpr int kSuperseded = 3;
}  // namespace agent_status

/// Returns the path of that program.
std::string agent_program();
/// Makes a message for a program that cannot be run because of an errno value.
std::string why_no_agent(int error);
/// Replaces this process. Returns only on failure: the exit status, after a message.
int become_agent(const Words& given);

}  // namespace holdfast::cli
