#include "cluster/listening_agents.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "base/gate_name.h"
#include "base/name.h"
#include "cli/descriptor.h"
#include "inspect/world.h"

namespace holdfast::cli {

namespace {

constexpr std::string_view kSocket = ".agent-";
// Builds a question in the format of gate/question.h, because holdfast_ask() would need a dictionary of the cluster.
std::string question(std::string_view kind, std::uint64_t number) {
  return fmt::format("{}{}{}{}{}", kind, '\0', '\0', number, '\0');
}

/// Connects to the cluster's agent. Returns Descriptor(-1) if no agent listens on the cluster's socket.
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

namespace {

Expected<Answer> ask(const std::string& cluster, const std::string& packet, double seconds) {
  Descriptor socket = connect(cluster);
  if (socket.get() < 0)
    return Status{Code::unavailable, fmt::format("the agent of cluster {} has just ended", quote(cluster))};
  if (::send(socket.get(), packet.data(), packet.size(), MSG_NOSIGNAL) < 0)
    return Status{Code::unavailable, fmt::format("no agent of cluster {} answers in this runtime directory: {}",
                                                 quote(cluster), std::strerror(errno))};
  return await_answer(socket.release(), seconds);
}

}  // namespace

Expected<Answer> ask_listening_agent(const std::string& cluster, double seconds) {
  return ask(cluster, question("status", 0), seconds);
}

Expected<Answer> accept_store(const std::string& cluster, std::uint64_t id) {
  const std::vector<std::string> there = listening_agents();
  if (std::find(there.begin(), there.end(), cluster) == there.end())
    return Status{Code::unavailable, fmt::format("no agent of cluster {} runs in {}; start holdfast-agent",
                                                 quote(cluster), inspect::directory_to_be())};
  return ask(cluster, question("accept", id), kAnswerSeconds);
}

}  // namespace holdfast::cli
