// `holdfast agent`: becomes the program holdfast-agent, which lies beside this one. It is a program of its own, as it
// needs libraries that no other part does.
#pragma once

#include <string>

#include "cli/commands.h"

namespace holdfast::cli {

/// Of that program, as tools/docs/holdfast.md has them.
namespace agent_status {
inline constexpr int kWrongConfiguration = 2;
inline constexpr int kSuperseded = 3;
}  // namespace agent_status

/// The path of that program.
std::string agent_program();
/// A sentence about a program that cannot be run because of an errno value.
std::string why_no_agent(int error);
/// Replaces this process. Returns only if that fails: the exit status, after a sentence.
int become_agent(const Words& given);

}  // namespace holdfast::cli
