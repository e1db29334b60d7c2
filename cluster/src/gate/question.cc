#include "gate/question.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <charconv>

#include "base/name.h"
#include "world/runtime_directory.h"

namespace holdfast {

namespace {

constexpr char kEnd = '\0';

/// Moves the text before the next NUL to `part`. Returns false if there is no NUL.
bool cut(std::string_view& rest, std::string_view& part) noexcept {
  const std::size_t end = rest.find(kEnd);
  if (end == std::string_view::npos) return false;
  part = rest.substr(0, end);
  rest.remove_prefix(end + 1);
  return true;
}

Status no_agent(std::string_view cluster, int error) {
  return {Code::unavailable, "no agent of cluster " + quote(cluster) +
                                 " answers in this runtime directory: " + platform::error_text(error)};
}

}  // namespace

std::string agent_socket(const RuntimeDirectory& directory, std::string_view cluster) {
  return directory.path_of(".agent-" + std::string(cluster));
}

std::string write_question(const Question& question) {
  const std::string revision = std::to_string(question.revision);
  std::string packet;
  for (const std::string_view part : {question.kind, question.dictionary, std::string_view(revision)}) {
    packet += part;
    packet += kEnd;
  }
  packet += question.key;
  return packet;
}

bool read_question(std::string_view packet, Question& question) noexcept {
  std::string_view revision;
  if (!cut(packet, question.kind) || !cut(packet, question.dictionary) || !cut(packet, revision)) return false;
  const char* const end = revision.data() + revision.size();
  question.key = packet;
  return std::from_chars(revision.data(), end, question.revision).ptr == end;
}

Expected<platform::FileDescriptor> connect_agent(const RuntimeDirectory& directory, std::string_view cluster) {
  const std::string path = agent_socket(directory, cluster);
  sockaddr_un address{};
  if (path.size() >= sizeof address.sun_path)
    return Status{Code::system, "the path " + path + " is too long for a socket: expected at most " +
                                    std::to_string(sizeof address.sun_path - 1) + " bytes"};
  address.sun_family = AF_UNIX;
  std::copy(path.begin(), path.end(), static_cast<char*>(address.sun_path));
  platform::FileDescriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return Status{Code::system, "cannot create a socket: " + platform::error_text(errno)};
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return no_agent(cluster, errno);
  return socket;
}

Expected<platform::FileDescriptor> ask_agent(const RuntimeDirectory& directory, std::string_view cluster,
                                             const Question& question) {
  auto socket = connect_agent(directory, cluster);
  if (!socket) return socket;
  const std::string packet = write_question(question);
  if (::send(socket->get(), packet.data(), packet.size(), MSG_NOSIGNAL) < 0) return no_agent(cluster, errno);
  return socket;
}

Code read_answer(int fd, char* text, std::size_t& size) noexcept {
  const ssize_t count = ::recv(fd, text, kAnswerMax, MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return Code::timeout;
  if (count <= 0) return Code::unavailable;
  size = static_cast<std::size_t>(count);
  return Code::ok;
}

}  // namespace holdfast
