// The command line of holdfast-agent: one agent for each world and cluster. "holdfast agent" runs it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/gate_name.h"
#include "base/name.h"
#include "base/version.h"
#include "cli/command_words.h"
#include "cli/unknown_option.h"
#include "platform/standard_descriptors.h"
#include "service/config.h"
#include "service/notify.h"
#include "service/service.h"
#include "service/store_memory.h"
#include "world/world.h"

namespace holdfast::agent {

namespace {

constexpr int kUsageError = 2;

constexpr const char* kTryHelp = "\nTry \"holdfast agent --help\".";

constexpr const char* kFooter =
    R"(It serves the programs of the same user, or of the same HOLDFAST_DIR. TERM ends it: if nobody
holds a lock its lease ends with it, else the lease stays for the next agent.

Exit status: 0 after TERM, INT or HUP; 1 a fault, a second signal, or its runtime directory was
removed: start it again; 2 the command line or the configuration is wrong; 3 another agent has
taken over.)";

/// What the command line says in place of the file.
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
      return Status{Code::not_found, read.status().message + "; --etcd URL does without"};
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

std::string read_ttl(const std::string& text) {
  std::int64_t seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  if (is_number && seconds >= kTtlMin && seconds <= kTtlMax) return {};
  return fmt::format("bad time {}: expected whole seconds, {} to {}", quote(text), kTtlMin, kTtlMax);
}

void describe(CLI::App& app, Given& given) {
  app.set_version_flag("--version", std::string("holdfast-agent ") + kVersion, "Print the version and exit");
  app.add_option("CLUSTER", given.cluster, "Name of the cluster");
  app.allow_extras();
  app.add_option("--config", given.path, "Configuration; default: /etc/holdfast/CLUSTER.json")
      ->type_name("FILE")
      ->check(cli::refuse_no_file);
  app.add_option("--etcd", given.endpoints, "Servers, separated by commas, in place of the file's")
      ->delimiter(',')
      ->allow_extra_args(false)  // else an empty one takes the next word
      ->type_name("URL")
      ->check([](const std::string& url) { return url.empty() ? "no endpoints: expected URLs" : ""; });
  app.add_option("--namespace", given.space, "Of all keys at etcd; default: holdfast/CLUSTER")->type_name("PREFIX");
  app.add_option("--ttl", given.ttl_s, "Seconds after which others may have the locks of a lost machine; default: 10")
      ->type_name("SECONDS")
      ->check(read_ttl);
  app.add_option("--state", given.state_directory,
                 "Where to keep which store the cluster has; default: $STATE_DIRECTORY, else the runtime directory")
      ->type_name("DIRECTORY")
      ->check([](const std::string& path) { return path.empty() ? "bad directory \"\": expected a path" : ""; });
  app.add_flag("--drain", given.drains, "At TERM, wait until no lock is held, and get no new one")
      ->disable_flag_override();
  app.add_flag("--standby", given.stands_by, "While another agent acts for this machine, wait for its end")
      ->disable_flag_override();
  app.footer(kFooter);
}

/// What is wrong with the words of a command line, once its options are read.
std::string judge_words(const CLI::App& app, const Given& given) {
  for (const std::string& word : app.remaining())
    return word.size() > 1 && word.front() == '-' ? cli::unknown_option(app, word) : "unexpected " + quote(word);
  return given.cluster.empty() ? "no CLUSTER was given" : "";
}

/// The exit status where there is nothing left to do.
std::optional<int> read_command_line(CLI::App& app, const Given& given, std::vector<std::string> words) try {
  std::string wrong = cli::split_values(app, words);
  if (wrong.empty()) {
    std::reverse(words.begin(), words.end());  // as CLI11 takes it
    app.parse(words);
    wrong = judge_words(app, given);
  }
  if (wrong.empty()) return std::nullopt;
  say(wrong + kTryHelp);
  return kUsageError;
} catch (const CLI::Success& success) {
  return app.exit(success);
} catch (const CLI::ParseError& error) {
  say(cli::in_words(app, error) + kTryHelp);
  return kUsageError;
}

int run(int count, char** values) {
  CLI::App app("Keeps the locks of a cluster for the programs of this machine.", "holdfast agent");
  Given given;
  describe(app, given);
  if (const auto done = read_command_line(app, given, {values + std::min(count, 1), values + count})) return *done;
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
  if (given.stands_by) {  // it may wait for longer than a manager waits for a start
    notify_manager("READY=1");
    notify_manager("STATUS=cluster " + config->cluster + ": waits for the end of the agent that acts for this machine");
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
} catch (const std::exception& error) {
  holdfast::agent::say(error.what());
  return EXIT_FAILURE;
}
