// Questions to the agent of a cluster, each a packet through a socket in the runtime directory, answered by one packet.
//
//   question   KIND NUL DICTIONARY NUL REVISION NUL KEY      KIND: verify, holder, break; of the agent itself:
//                                                         status, accept (of the store with the id REVISION)
//   answer     lines of NAME=VALUE; the first is code=yes, code=no or code=unavailable
//
// The other end may be slow, or gone: nothing here waits.
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

/// The socket of the agent of that cluster.
std::string agent_socket(const RuntimeDirectory& directory, std::string_view cluster);

std::string write_question(const Question& question);
/// The fields are those of `packet`. False: it is none.
bool read_question(std::string_view packet, Question& question) noexcept;

/// Connected to the agent. unavailable: there is none.
Expected<platform::FileDescriptor> connect_agent(const RuntimeDirectory& directory, std::string_view cluster);
/// Sends the question. The descriptor is readable when the answer is there. unavailable: there is no agent.
Expected<platform::FileDescriptor> ask_agent(const RuntimeDirectory& directory, std::string_view cluster,
                                             const Question& question);
/// Writes the answer to `text`, without a NUL. ok, timeout (it has not come yet), unavailable (the agent is gone).
Code read_answer(int fd, char* text, std::size_t& size) noexcept;

}  // namespace holdfast
