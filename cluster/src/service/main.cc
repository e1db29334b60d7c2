// The command line of holdfast-agent, which "holdfast agent" runs. There is one agent for each runtime directory and
// cluster.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <exception>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/gate_name.h"
#include "base/name.h"
#include "base/version.h"
#include "cli/arguments.h"
#include "platform/standard_descriptors.h"
#include "service/config.h"
#include "service/notify.h"
#include "service/service.h"
#include "service/store_memory.h"
#include "world/world.h"

namespace holdfast::agent {

namespace {

constexpr int kUsageError = 2;

const cli::Subcommand kCommandLine{"agent",
                                   "",
                                   "[CLUSTER]",
                                   "Acquire the locks of a cluster for the programs on this machine.",
                                   R"(CLUSTER is the name of the cluster.

The agent serves the programs that use the same HOLDFAST_DIR, by default those of the same user.
TERM stops the agent. If nobody holds a lock, the agent's lease also ends; otherwise, the next
agent takes over the lease.

Exit status: 0 after TERM, INT or HUP; 1 a fault, a second signal, or the runtime directory was
removed (start the agent again); 2 invalid command line or configuration; 3 another agent has
taken over.)",
                                   nullptr,
                                   kUsageError,
                                   "holdfast-agent"};

/// Values from the command line, which replace the values in the file.
struct Given {
  std::string cluster;
  std::string path;
  std::vector<std::string> endpoints;
  std::optional<std::string> space;
  std::optional<std::int64_t> ttl_s;
  std::string state_directory;
  bool drains = false;
  bool stands_by = false;
};

Expected<Config> config_of(const Given& given) {
  if (Status bad = check_cluster_name(given.cluster); !bad.ok()) return bad;
  Config config = default_config(given.cluster);
  if (given.endpoints.empty() || !given.path.empty()) {
    auto read = read_config(given.cluster, given.path.empty() ? config_path(given.cluster) : given.path);
    if (!read && given.path.empty() && read.status().code == Code::not_found)
      return Status{Code::not_found, read.status().message + "; or use --etcd URL"};
    if (!read) return read;
    config = *read;
  }
  if (!given.endpoints.empty()) config.endpoints = given.endpoints;
  if (given.space) config.space = *given.space;
  if (given.ttl_s) config.settings.ttl_s = *given.ttl_s;
  if (!given.state_directory.empty()) config.state_directory = given.state_directory;
  if (const Status bad = check_config(config, "the command line"); !bad.ok()) return bad;
  return config;
}

std::string read_ttl(const std::string& text, std::optional<std::int64_t>& ttl_s) {
  std::int64_t seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  ttl_s = seconds;
  if (is_number && seconds >= kTtlMin && seconds <= kTtlMax) return {};
  return fmt::format("bad time {}: expected a whole number of seconds from {} to {}", quote(text), kTtlMin, kTtlMax);
}

std::string read_endpoints(const std::string& text, std::vector<std::string>& endpoints) {
  if (text.empty()) return "no endpoints: expected URLs";
  std::istringstream urls(text);
  for (std::string url; std::getline(urls, url, ',');) endpoints.push_back(url);
  return {};
}

void add_options(cli::Arguments& arguments, Given& given) {
  arguments.add_version("--version", kVersion);
  arguments.add_file("--config", "Read the configuration from FILE; default: /etc/holdfast/CLUSTER.json", given.path);
  arguments.add_value("--etcd", "URL", "Use these servers, separated by commas, instead of the file's", read_endpoints,
                      given.endpoints);
  arguments.add_value("--namespace", "PREFIX", "Prefix all keys in etcd with PREFIX; default: holdfast/CLUSTER",
                      [&](const std::string& prefix) {
                        given.space = prefix;
                        return std::string();
                      });
  arguments.add_value("--ttl", "SECONDS", "Free the locks of a lost machine after SECONDS; default: 10", read_ttl,
                      given.ttl_s);
  arguments.add_value("--state", "DIRECTORY",
                      "Keep the id of the cluster's store here; default: $STATE_DIRECTORY, else the runtime directory",
                      [&](const std::string& path) {
                        given.state_directory = path;
                        return std::string(path.empty() ? "bad directory \"\": expected a path" : "");
                      });
  arguments.add_flag("--drain", given.drains, "On TERM, take no new locks, and exit when none is held");
  arguments.add_flag("--standby", given.stands_by, "Wait until any other agent on this machine has exited");
}

int run(int count, char** values) {
  cli::Arguments arguments(kCommandLine, {values + std::min(count, 1), values + count});
  Given given;
  add_options(arguments, given);
  arguments.parse(1, 1, {"CLUSTER"});
  given.cluster = arguments.word(0);
  auto config = config_of(given);
  if (!config) {
    say(config.status().message);
    return kUsageError;
  }
  auto world = World::current();
  if (!world || (*world)->token() == kNobody) {
    say(world ? World::last_failure().message : world.status().message);
    return EXIT_FAILURE;
  }
  Signals signals;
  if (given.stands_by) {  // a service manager might not wait long enough for the start
    notify_manager("READY=1");
    notify_manager("STATUS=cluster " + config->cluster + ": waiting until the other agent on this machine exits");
    if (!await_vacancy((*world)->directory(), config->cluster, signals)) return EXIT_SUCCESS;
  }
  const StoreMemory memory(config->state_directory, (*world)->directory().path(), config->cluster);
  const auto known = memory.read();
  if (!known) {
    say(known.status().message);
    return known.status().code == Code::invalid ? kUsageError : EXIT_FAILURE;
  }
  return serve(*config, **world, signals, given.drains, memory, *known);
}

}  // namespace

}  // namespace holdfast::agent

int main(int count, char** values) try {
  holdfast::occupy_standard_descriptors();
  return holdfast::agent::run(count, values);
} catch (const holdfast::cli::Exit& exit) {
  if (!exit.message.empty()) holdfast::agent::say(exit.message);
  return exit.status;
} catch (const std::exception& error) {
  holdfast::agent::say(error.what());
  return EXIT_FAILURE;
}
