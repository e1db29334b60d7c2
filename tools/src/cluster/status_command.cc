#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/name.h"
#include "cli/arguments.h"
#include "cli/message.h"
#include "cli/output.h"
#include "cli/print_json.h"
#include "cli/world_options.h"
#include "cluster/listening_agents.h"
#include "cluster/question.h"
#include "holdfast.h"
#include "inspect/dictionaries.h"
#include "inspect/json.h"
#include "inspect/text.h"
#include "inspect/world.h"
#include "lock/lock_refusal.h"

namespace holdfast::cli {

namespace {

/// The average time in the agent's queue is printed only if it is at least this long.
constexpr double kQueuedMs = 1;

/// A dictionary of a cluster, and why its locks are unavailable. The reason is empty if they are available.
struct Member {
  std::string dictionary;
  holdfast_cluster state{};
  std::string trouble;
};

/// The answer from the cluster's agent on this machine, or the reason why there is none.
struct Agent {
  Answer answer;
  std::string trouble;
};

struct Overview {
  std::vector<Member> members;
  std::map<std::string, Agent> agents;  // indexed by cluster
};

std::string cluster_of(const Member& member) { return static_cast<const char*>(member.state.name); }

std::uint64_t number(const Answer& answer, const std::string& name) {
  const auto found = answer.find(name);
  return found == answer.end() ? 0 : std::strtoull(found->second.c_str(), nullptr, 10);
}

// --- gathering ---

Agent agent_of(const Expected<Answer>& answer) {
  return answer ? Agent{*answer, {}} : Agent{{}, answer.status().message};
}

/// Adds the dictionary, or returns false if it belongs to no cluster. Reads the cluster's state only after the agent
/// has answered, because the answer may take long.
bool add_member(const std::string& name, holdfast_dict* dict, Overview& overview) {
  Member member{name, {}, {}};
  int code = holdfast_cluster_state(dict, &member.state);
  if (code != HOLDFAST_OK && code != HOLDFAST_UNAVAILABLE) return false;
  const std::string cluster = cluster_of(member);
  if (!overview.agents.contains(cluster)) {
    overview.agents[cluster] = agent_of(ask_agent(dict, HOLDFAST_ASK_STATUS, {}, 0));
    code = holdfast_cluster_state(dict, &member.state);
  }
  member.trouble = code == HOLDFAST_OK ? overview.agents[cluster].trouble : holdfast_error();
  overview.members.push_back(std::move(member));
  return true;
}

/// Adds agents whose clusters have no dictionary here.
void add_listening_agents(Overview& overview) {
  for (const std::string& cluster : listening_agents())
    if (!overview.agents.contains(cluster)) overview.agents[cluster] = agent_of(ask_listening_agent(cluster));
}

/// Reads the dictionary with this name. If the name is empty, reads all dictionaries that belong to clusters. There may
/// be no world yet, because an agent may be the first process in the directory. But a directory that the user has named
/// must exist.
Expected<Overview> gather(const std::string& name) {
  Overview overview;
  if (const auto world = inspect::observe(); !world) {
    const bool is_to_be = inspect::is_default_directory() || std::filesystem::exists(inspect::directory_to_be());
    if (name.empty() && world.status().code == Code::not_found && is_to_be) {
      add_listening_agents(overview);
      return overview;
    }
    return world.status();
  }
  if (!name.empty()) {
    auto dict = inspect::attach(name);
    if (!dict) return dict.status();
    if (!add_member(name, *dict, overview)) return Status{Code::not_found, holdfast_error()};
    return overview;
  }
  auto names = inspect::dictionary_names();
  if (!names) return names.status();
  for (const std::string& one : *names)  // skips a dictionary that has just been removed
    if (auto dict = inspect::attach(one)) add_member(one, *dict, overview);
  add_listening_agents(overview);
  return overview;
}

void say_that_there_is_none(const Overview& overview) {
  std::vector<std::string> clusters;
  for (const auto& [cluster, agent] : overview.agents) clusters.push_back(quote(cluster));
  if (clusters.empty()) return say("no dictionary here belongs to a cluster");
  say("no dictionary here belongs to a cluster yet; agents here: {}", fmt::join(clusters, ", "));
}

/// Returns whether the locks of all dictionaries, and of all agents without a dictionary, are available.
bool is_all_well(const Overview& overview) {
  const bool members_are = std::all_of(overview.members.begin(), overview.members.end(),
                                       [](const Member& member) { return member.trouble.empty(); });
  const auto has_member = [&](const std::string& cluster) {
    return std::any_of(overview.members.begin(), overview.members.end(),
                       [&](const Member& member) { return cluster_of(member) == cluster; });
  };
  const bool others_are = std::all_of(overview.agents.begin(), overview.agents.end(), [&](const auto& one) {
    const auto& [cluster, agent] = one;
    return has_member(cluster) || (agent.trouble.empty() && !agent.answer.contains("sentence"));
  });
  return members_are && others_are && !overview.agents.empty();
}

// --- as text ---

/// Returns a map from times in microseconds to the number of requests that were answered within that time.
std::map<std::uint64_t, std::uint64_t> latency_of(const Answer& answer) {
  constexpr std::string_view kName = "latency_us_";
  std::map<std::uint64_t, std::uint64_t> within;
  for (const auto& [name, value] : answer)
    if (name.starts_with(kName) && name != "latency_us_sum")
      within[std::strtoull(name.c_str() + kName.size(), nullptr, 10)] = number(answer, name);
  return within;
}

/// Returns the time within which this fraction of the requests was answered.
std::string time_within(const Answer& answer, double part) {
  const double wanted = static_cast<double>(number(answer, "latency_count")) * part;
  for (const auto& [bound, count] : latency_of(answer))
    if (static_cast<double>(count) >= wanted) return fmt::format("{:g} ms", static_cast<double>(bound) / 1e3);
  return "more than 1 s";
}

/// Returns how long, on average, a request waited in the agent.
double queued_ms(const Answer& answer) {
  const auto count = static_cast<double>(number(answer, "latency_count"));
  return count == 0 ? 0 : static_cast<double>(number(answer, "queue_us_sum")) / count / 1e3;
}

std::string agent_in_words(const Answer& answer) {
  std::string text;
  const auto of = [&](const char* name) { return number(answer, name); };
  text += fmt::format("  agent: up for {}; locks held {}, waited for {}; sessions lost {}",
                      inspect::duration_in_words(static_cast<double>(of("up_ms")) / 1e3), of("locks_here"),
                      of("locks_wanted"), of("sessions_lost"));
  // All agents with the same namespace share their locks.
  if (const auto space = answer.find("namespace"); space != answer.end())
    text += fmt::format("; namespace {}", inspect::escaped(space->second));
  text += '\n';
  text += fmt::format("  acquired: {} at once, {} after a notification, {} by polling; broken {}\n",
                      of("grants_by_answer"), of("grants_by_bell"), of("grants_by_look"), of("grants_broken"));
  text += fmt::format("  released: {} to waiting machines, {} unused\n", of("hand_overs"), of("returns"));
  text += fmt::format("  store: requests {}, refused {}, unanswered {}", of("requests"), of("requests_refused"),
                      of("requests_unanswered"));
  if (of("latency_count") > 0)
    text += fmt::format("; half within {}, 99 % within {}", time_within(answer, 0.5), time_within(answer, 0.99));
  if (const double queued = queued_ms(answer); queued >= kQueuedMs)
    text += fmt::format("; {:.0f} ms in the agent's queue before that", queued);
  if (of("store_cluster") != 0) text += fmt::format("; cluster {:016x}", of("store_cluster"));
  if (of("store_refused") != 0) text += fmt::format("; cluster {:016x} is refused", of("store_refused"));
  text += fmt::format("\n  notifications: {} received, {} minutes without one\n", of("bells"), of("dead_bells"));
  return text;
}

std::string in_words(const Agent& agent, const Output& output) {
  const auto line_in_red = [&](const std::string& text) { return "  " + output.styled(text, Style::red) + "\n"; };
  if (!agent.trouble.empty()) return line_in_red(agent.trouble);
  const auto sentence = agent.answer.find("sentence");
  const std::string trouble = sentence != agent.answer.end() ? line_in_red(sentence->second) : "";
  return trouble + agent_in_words(agent.answer);
}

std::string in_words(const Overview& overview, const Output& output) {
  std::string text;
  std::map<std::string, bool> shown;
  for (const Member& member : overview.members) {
    const holdfast_cluster& state = member.state;
    const std::string cluster = cluster_of(member);
    const std::string agent = state.agent != 0 ? fmt::format("agent {}", state.agent) : "no agent";
    const std::string session = state.seconds > 0 ? fmt::format("session {} with {:.1f} s left, machine {:016x}",
                                                                state.epoch, state.seconds, state.machine)
                                                  : "no session";
    text += fmt::format("{}: cluster {}, {}, {}\n", inspect::escaped(member.dictionary), cluster, agent, session);
    if (!std::exchange(shown[cluster], true)) text += in_words(overview.agents.at(cluster), output);
  }
  for (const auto& [cluster, agent] : overview.agents)
    if (!shown.contains(cluster))
      text += fmt::format("no dictionary: cluster {}\n{}", cluster, in_words(agent, output));
  return text;
}

// --- as JSON ---

inspect::Json latency_as_json(const Answer& answer) {
  inspect::Json within = inspect::Json::object();
  for (const auto& [bound, count] : latency_of(answer)) within[std::to_string(bound)] = count;
  return {{"count", number(answer, "latency_count")},
          {"sum_us", number(answer, "latency_us_sum")},
          {"queue_us", number(answer, "queue_us_sum")},
          {"within_us", std::move(within)}};
}

inspect::Json to_json(const Agent& agent) {
  inspect::Json fields;
  if (!agent.trouble.empty()) {
    inspect::add_text(fields, "error", agent.trouble);
    return fields;
  }
  for (const auto& [name, value] : agent.answer) {
    if (name == "code" || name == "queue_us_sum" || name.starts_with("latency_")) continue;
    if (name == "sentence")
      inspect::add_text(fields, "error", value);
    else if (name == "machine" || name == "namespace")
      inspect::add_text(fields, name.c_str(), value);
    else if (name == "store_cluster" || name == "store_refused")
      fields[name] = fmt::format("{:016x}", number(agent.answer, name));
    else
      fields[name] = number(agent.answer, name);
  }
  fields["latency"] = latency_as_json(agent.answer);
  return fields;
}

inspect::Json to_json(const Member& member) {
  inspect::Json fields;
  inspect::add_text(fields, "dictionary", member.dictionary);
  inspect::add_text(fields, "cluster", cluster_of(member));
  fields["agent"] = member.state.agent;
  fields["session"] = member.state.epoch;
  fields["seconds"] = inspect::rounded(member.state.seconds);
  fields["machine"] = nullptr;
  if (member.state.machine != 0) fields["machine"] = fmt::format("{:016x}", member.state.machine);
  fields["ok"] = member.trouble.empty();
  fields["error"] = nullptr;
  if (!member.trouble.empty()) inspect::add_text(fields, "error", member.trouble);
  return fields;
}

inspect::Json to_json(const Overview& overview) {
  inspect::Json members = inspect::Json::array();
  for (const Member& member : overview.members) members.push_back(to_json(member));
  inspect::Json agents = inspect::Json::object();
  for (const auto& [cluster, agent] : overview.agents) agents[cluster] = to_json(agent);
  return {{"dictionaries", std::move(members)}, {"agents", std::move(agents)}};
}

int run_status(Arguments& arguments) {
  WorldOptions world(arguments, WorldOptions::Prints::something);
  arguments.parse(0, 1, {"DICTIONARY"});
  world.apply();
  const Overview overview = value_or_fail(gather(arguments.word(0)));
  if (world.json())
    print_json(to_json(overview), world.output());
  else
    print(in_words(overview, world.output()));
  if (overview.members.empty()) say_that_there_is_none(overview);
  return is_all_well(overview) ? exit_status::kYes : exit_status::kNo;
}

}  // namespace

const Subcommand kClusterStatus{
    "cluster status",
    "Show whether this machine can get locks of a cluster",
    "[DICTIONARY]",
    "Show whether this machine can get locks of a cluster.",
    R"(For DICTIONARY, or for every dictionary that belongs to a cluster, prints the cluster, its agent
on this machine, how much longer the machine's session lasts, and the agent's counters. Also shows
agents whose clusters have no dictionary here yet.

Exit status: 0 success; 1 locks of a cluster are unavailable, or there is neither a dictionary
nor an agent; 2 error.)",
    run_status};

}  // namespace holdfast::cli
