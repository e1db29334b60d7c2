// Sends questions to the agent of a cluster, through a socket in the runtime directory. A question and its answer are
// one packet each.
//
//   question   KIND NUL DICTIONARY NUL REVISION NUL KEY. KIND is verify, holder or break. In questions about the agent
//              itself, KIND is status, or accept (of the store with the id REVISION).
//   answer     lines of NAME=VALUE. The first line is code=yes, code=no or code=unavailable.
//
// The other end may be slow or gone, so no function here waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "platform/platform.h"

namespace holdfast {

class RuntimeDirectory;

inline constexpr std::size_t kAnswerMax = 4096;
inline constexpr std::size_t kQuestionMax = std::size_t{128} * 1024;  // the longest key has 65535 bytes

struct Question {
  std::string_view kind;
  std::string_view dictionary;
  std::uint64_t revision = 0;
  std::string_view key;
};

/// Returns the path of the socket on which the cluster's agent listens.
std::string agent_socket(const RuntimeDirectory& directory, std::string_view cluster);

std::string write_question(const Question& question);
/// Parses a question. Its fields point into `packet`. Returns false if the packet is not a question.
bool read_question(std::string_view packet, Question& question) noexcept;

/// Connects to the agent. Returns unavailable if there is none.
Expected<platform::FileDescriptor> connect_agent(const RuntimeDirectory& directory, std::string_view cluster);
/// Sends the question. The descriptor becomes readable when the answer has arrived. Returns unavailable if there is no
/// agent.
Expected<platform::FileDescriptor> ask_agent(const RuntimeDirectory& directory, std::string_view cluster,
                                             const Question& question);
/// Writes the answer to `text`, without a NUL. Returns ok, timeout if the answer has not arrived yet, or unavailable if
/// the agent is gone.
Code read_answer(int fd, char* text, std::size_t& size) noexcept;

}  // namespace holdfast
