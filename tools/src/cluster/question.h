// Asks the agent of a cluster.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/status.h"
#include "holdfast.h"

namespace holdfast::cli {

inline constexpr double kAnswerSeconds = 5;

/// The fields of an answer, indexed by name.
using Answer = std::map<std::string, std::string>;

/// Asks the agent about the key, and waits at most `seconds` for the answer. On failure, returns an error with a
/// message for the user.
Expected<Answer> ask_agent(holdfast_dict* dict, holdfast_question question, const std::string& key,
                           std::uint64_t revision, double seconds = kAnswerSeconds);

/// Waits for the answer to a question that was sent, and closes the descriptor.
Expected<Answer> await_answer(int fd, double seconds = kAnswerSeconds);

}  // namespace holdfast::cli
