// Reads the configuration of an agent from /etc/holdfast/CLUSTER.json, or from a file given on the command line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agent/settings.h"
#include "base/status.h"

namespace holdfast::agent {

struct Config {
  std::string cluster;
  std::vector<std::string> endpoints;  // such as "https://host:2379"
  std::string space;                   // the namespace: the prefix of all keys, without the final '/'
  std::string user;                    // empty if there is no user
  std::string password_file;
  std::string ca;  // PEM files for libcurl
  std::string cert;
  std::string key;
  std::string state_directory;      // the directory for the store's id; empty: see service/store_memory.h
  bool require_fixed_etcd = false;  // do not use a server that may end leases early
  Settings settings;
};

/// Returns the path of a cluster's configuration.
std::string config_path(const std::string& cluster);
/// Reads the file. If it is wrong, returns invalid, with a message that names the file, the field, the value and the
/// accepted values. Other errors are not_found and permission. The latter means that this process may not read the
/// file, or that users other than the file's owner and group may read it.
Expected<Config> read_config(const std::string& cluster, const std::string& path);
/// Returns a cluster's defaults, with this machine's name.
Config default_config(const std::string& cluster);
/// Returns an endpoint to which etcd's password would be sent over a network without encryption, or an empty string if
/// there is none.
std::string endpoint_in_clear(const Config& config);
/// The limits of "ttl", in seconds.
inline constexpr std::int64_t kTtlMin = 2;
inline constexpr std::int64_t kTtlMax = 3600;
/// Returns an error for invalid values, missing files, and secret files that all users can read. `source`: where the
/// configuration comes from, for the message.
Status check_config(const Config& config, const std::string& source);

}  // namespace holdfast::agent
