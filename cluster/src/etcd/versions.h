// Finds out which version of etcd each endpoint runs, and to which cluster it belongs. Asks each endpoint, because
// members of one cluster may have different versions.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "etcd/client.h"
#include "etcd/json.h"

namespace holdfast::etcd {

struct EndpointVersion {
  std::string url;
  std::optional<ServerVersion> version;
  std::string trouble;  // why the version is unknown
  std::string cluster;  // the cluster's id; empty if the endpoint does not report it
};

/// Asks all endpoints at the same time. Endpoints answer without a user.
class VersionQuestion {
 public:
  using Done = std::function<void(const std::vector<EndpointVersion>&)>;
  /// Calls `done` once, later, unless the question is destroyed first. `done` must not destroy the question.
  VersionQuestion(Client& client, Done done);

 private:
  void answered(std::size_t endpoint, const Response& response);
  void ask_cluster(std::size_t endpoint);
  void end_one();

  Client& client_;

  const Done done_;
  std::vector<EndpointVersion> answers_;
  std::vector<std::unique_ptr<Transfer>> transfers_;
  std::size_t open_;
};

}  // namespace holdfast::etcd
