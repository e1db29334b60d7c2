// The configuration of an agent: /etc/holdfast/CLUSTER.json, or what the command line says in its place.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agent/settings.h"
#include "base/status.h"

namespace holdfast::agent {

struct Config {
  std::string cluster;
  std::vector<std::string> endpoints;  // as "https://host:2379"
  std::string space;                   // the namespace: the prefix of all keys, without the '/' that ends it
  std::string user;                    // empty: none
  std::string password_file;
  std::string ca;  // files in PEM, as libcurl takes them
  std::string cert;
  std::string key;
  std::string state_directory;      // where the agent keeps which store there is; empty: see service/store_memory.h
  bool require_fixed_etcd = false;  // refuse a server that may end leases early
  Settings settings;
};

/// Where the configuration of a cluster lies.
std::string config_path(const std::string& cluster);
/// Reads the file. invalid, with a sentence that names the file, the field, what was found and what is accepted;
/// not_found; permission: this process may not read it, or others than its owner and group may.
Expected<Config> read_config(const std::string& cluster, const std::string& path);
/// The defaults of a cluster, and this machine's name.
Config default_config(const std::string& cluster);
/// An endpoint to which the password of etcd's user would go without encryption and over a network; empty: none.
std::string endpoint_in_clear(const Config& config);
/// What "ttl" may be, in seconds.
inline constexpr std::int64_t kTtlMin = 2;
inline constexpr std::int64_t kTtlMax = 3600;
/// Refuses what no file and no command line may say, and files that are not there or are open to all users.
Status check_config(const Config& config, const std::string& source);

}  // namespace holdfast::agent
