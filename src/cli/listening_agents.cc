#include "cli/listening_agents.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "base/name.h"
#include "cli/descriptor.h"
#include "inspect/world.h"

namespace holdfast::cli {

namespace {

using namespace std::string_view_literals;

constexpr std::string_view kSocket = ".agent-";
// A question of cluster/question.h. holdfast_ask() needs a dictionary of the cluster.
constexpr std::string_view kStatusQuestion =
    "status\0"
    "\0"
    "0\0"sv;

/// Connected; -1: no agent listens there.
Descriptor connect(const std::string& cluster) {
  const std::string path = inspect::directory_to_be() + "/" + std::string(kSocket) + cluster;
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  if (path.size() >= sizeof address.sun_path) return Descriptor(-1);
  path.copy(static_cast<char*>(address.sun_path), sizeof address.sun_path - 1);
  Descriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return Descriptor(-1);
  return socket;
}

}  // namespace

std::vector<std::string> listening_agents() {
  std::vector<std::string> clusters;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(inspect::directory_to_be(), error)) {
    const std::string file = entry.path().filename();
    if (!file.starts_with(kSocket)) continue;
    std::string cluster = file.substr(kSocket.size());
    if (check_cluster_name(cluster).ok() && connect(cluster).get() >= 0) clusters.push_back(std::move(cluster));
  }
  std::sort(clusters.begin(), clusters.end());
  return clusters;
}

Expected<Answer> ask_listening_agent(const std::string& cluster) {
  Descriptor socket = connect(cluster);
  if (socket.get() < 0)
    return Status{Code::unavailable, fmt::format("the agent of cluster {} has ended just now", quote(cluster))};
  if (::send(socket.get(), kStatusQuestion.data(), kStatusQuestion.size(), MSG_NOSIGNAL) < 0)
    return Status{Code::unavailable, fmt::format("no agent of cluster {} answers in this world: {}", quote(cluster),
                                                 std::strerror(errno))};
  return await_answer(socket.release());
}

}  // namespace holdfast::cli
