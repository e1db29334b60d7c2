// `holdfast agent`: becomes the program holdfast-agent, which lies beside this one. It is a program of its own, as it
// needs libraries that no other part does.
#pragma once

#include <string>
#include <vector>

namespace holdfast::cli {

/// Replaces this process. Returns only if that fails: the exit status, after a sentence.
int become_agent(const std::vector<std::string>& arguments);

}  // namespace holdfast::cli
