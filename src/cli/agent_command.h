// `holdfast agent`: becomes the program holdfast-agent, which lies beside this one. It is a program of its own, as it
// needs libraries that no other part does.
#pragma once

#include <string>
#include <vector>

namespace holdfast::cli {

/// The path of that program.
std::string agent_program();
/// A sentence about a program that cannot be run because of an errno value.
std::string why_no_agent(int error);
/// Replaces this process. Returns only if that fails: the exit status, after a sentence.
int become_agent(const std::vector<std::string>& arguments);

}  // namespace holdfast::cli
