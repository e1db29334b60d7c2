#include "cli/cluster_status.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/name.h"
#include "cli/descriptor.h"
#include "cli/dictionaries.h"
#include "cli/lock_refusal.h"
#include "cli/message.h"
#include "cli/question.h"
#include "holdfast.h"
#include "inspect/text.h"
#include "inspect/world.h"

namespace holdfast::cli {

namespace {

/// A dictionary of a cluster, and why no lock of it can be had; empty: it can.
struct Member {
  std::string dictionary;
  holdfast_cluster state{};
  std::string trouble;
};

/// The agent of a cluster here. Without an answer, why there is none.
struct Agent {
  Answer answer;
  std::string trouble;
};

struct Overview {
  std::vector<Member> members;
  std::map<std::string, Agent> agents;  // by cluster
};

std::string cluster_of(const Member& member) { return static_cast<const char*>(member.state.name); }

std::uint64_t number(const Answer& answer, const std::string& name) {
  const auto found = answer.find(name);
  return found == answer.end() ? 0 : std::strtoull(found->second.c_str(), nullptr, 10);
}

// --- finding it ---

std::vector<std::string> names_of_world() {
  std::string packed(std::size_t{64} * 1024, '\0');
  holdfast_value names{};
  std::uint32_t count = 0;
  int code = HOLDFAST_BUFFER;
  while (code == HOLDFAST_BUFFER) {
    names.data = packed.data();
    names.capacity = packed.size();
    code = holdfast_list(&names, &count);
    if (code == HOLDFAST_BUFFER) packed.resize(2 * std::max(names.size, packed.size()));
  }
  std::vector<std::string> found;
  const char* at = packed.data();
  for (std::uint32_t i = 0; code == HOLDFAST_OK && i < count; ++i) {
    std::uint32_t length = 0;
    std::memcpy(&length, at, sizeof length);
    found.emplace_back(at + sizeof length, length);
    at += sizeof length + length;
  }
  if (code != HOLDFAST_OK) say("{}", holdfast_error());
  return found;
}

/// Adds the dictionary; false if it is plain.
bool add_member(const std::string& name, holdfast_dict* dict, Overview& overview) {
  Member member{name, {}, {}};
  const int code = holdfast_cluster_state(dict, &member.state);
  if (code != HOLDFAST_OK && code != HOLDFAST_UNAVAILABLE) return false;
  if (code == HOLDFAST_UNAVAILABLE) member.trouble = holdfast_error();
  const std::string cluster = cluster_of(member);
  if (!overview.agents.contains(cluster)) {
    auto answer = ask_agent(dict, HOLDFAST_ASK_STATUS, {}, 0);
    overview.agents[cluster] = answer ? Agent{*answer, {}} : Agent{{}, answer.status().message};
  }
  overview.members.push_back(std::move(member));
  return true;
}

/// Those of the world that belong to clusters. One that has just been removed is none of them.
void add_all(Overview& overview) {
  for (const std::string& name : names_of_world()) {
    holdfast_dict* dict = nullptr;
    if (holdfast_attach(name.data(), name.size(), &dict) == HOLDFAST_OK) add_member(name, dict, overview);
  }
}

/// Clusters with an agent that listens here: their dictionaries may be yet to be made.
std::vector<std::string> listening_agents() {
  constexpr std::string_view kSocket = ".agent-";
  std::vector<std::string> clusters;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(inspect::directory_to_be(), error)) {
    const std::string file = entry.path().filename();
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    if (!file.starts_with(kSocket) || entry.path().native().size() >= sizeof address.sun_path) continue;
    entry.path().native().copy(static_cast<char*>(address.sun_path), sizeof address.sun_path - 1);
    const Descriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0)
      clusters.push_back(quote(file.substr(kSocket.size())));
  }
  std::sort(clusters.begin(), clusters.end());
  return clusters;
}

void say_that_there_is_none() {
  std::vector<std::string> agents = listening_agents();
  if (agents.empty()) return say("no dictionary here belongs to a cluster");
  say("no dictionary here belongs to a cluster; an agent listens for {}: the first program that opens one makes it",
      fmt::join(agents, ", "));
}

// --- as text ---

/// By their bounds in microseconds, how many requests were answered within them.
std::map<std::uint64_t, std::uint64_t> latency_of(const Answer& answer) {
  constexpr std::string_view kName = "latency_us_";
  std::map<std::uint64_t, std::uint64_t> within;
  for (const auto& [name, value] : answer)
    if (name.starts_with(kName) && name != "latency_us_sum")
      within[std::strtoull(name.c_str() + kName.size(), nullptr, 10)] = number(answer, name);
  return within;
}

/// The time within which that part of the requests was answered.
std::string time_within(const Answer& answer, double part) {
  const double wanted = static_cast<double>(number(answer, "latency_count")) * part;
  for (const auto& [bound, count] : latency_of(answer))
    if (static_cast<double>(count) >= wanted) return fmt::format("{:g} ms", static_cast<double>(bound) / 1e3);
  return "more than 1 s";
}

void print_agent(const Answer& answer) {
  const auto of = [&](const char* name) { return number(answer, name); };
  fmt::print("  agent: up for {}; locks here {}, waited for {}; sessions lost {}\n",
             inspect::duration_in_words(static_cast<double>(of("up_ms")) / 1e3), of("locks_here"), of("locks_wanted"),
             of("sessions_lost"));
  fmt::print("  got: {} by the answer, {} by the bell, {} by looking; broken {}\n", of("grants_by_answer"),
             of("grants_by_bell"), of("grants_by_look"), of("grants_broken"));
  fmt::print("  given: {} to machines that waited, {} back\n", of("hand_overs"), of("returns"));
  fmt::print("  store: requests {}, refused {}, without an answer {}", of("requests"), of("requests_refused"),
             of("requests_unanswered"));
  if (of("latency_count") > 0)
    fmt::print("; half within {}, 99 % within {}", time_within(answer, 0.5), time_within(answer, 0.99));
  fmt::print("\n  bell: rings {}, dead {} times\n", of("bells"), of("dead_bells"));
}

void print_text(const Overview& overview) {
  std::map<std::string, bool> shown;
  for (const Member& member : overview.members) {
    const holdfast_cluster& state = member.state;
    const std::string cluster = cluster_of(member);
    const std::string agent = state.agent != 0 ? fmt::format("agent {}", state.agent) : "no agent";
    const std::string session = state.seconds > 0 ? fmt::format("session {} for {:.1f} s more, machine {:016x}",
                                                                state.epoch, state.seconds, state.machine)
                                                  : "no session";
    fmt::print("{}: cluster {}, {}, {}\n", member.dictionary, cluster, agent, session);
    if (std::exchange(shown[cluster], true)) continue;
    const Agent& answered = overview.agents.at(cluster);
    const auto sentence = answered.answer.find("sentence");
    if (!answered.trouble.empty())
      fmt::print("  {}\n", answered.trouble);
    else if (sentence != answered.answer.end())
      fmt::print("  {}\n", sentence->second);
    if (answered.trouble.empty()) print_agent(answered.answer);
  }
}

// --- as JSON ---

std::string json_text(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      quoted += {'\\', c};
    else if (static_cast<unsigned char>(c) < ' ' || static_cast<unsigned char>(c) >= 0x7F)
      quoted += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    else
      quoted += c;
  }
  return quoted + "\"";
}

std::string json_latency(const Answer& answer) {
  std::string within;
  for (const auto& [bound, count] : latency_of(answer))
    within += fmt::format(R"({}"{}": {})", within.empty() ? "" : ", ", bound, count);
  return fmt::format(R"({{"count": {}, "sum_us": {}, "within_us": {{{}}}}})", number(answer, "latency_count"),
                     number(answer, "latency_us_sum"), within);
}

std::string json_agent(const Agent& agent) {
  if (!agent.trouble.empty()) return fmt::format(R"({{"error": {}}})", json_text(agent.trouble));
  std::string fields;
  for (const auto& [name, value] : agent.answer) {
    if (name == "code" || name.starts_with("latency_")) continue;
    const bool is_text = name == "sentence" || name == "machine";
    fields +=
        fmt::format("{}: {}, ", json_text(name == "sentence" ? "error" : name), is_text ? json_text(value) : value);
  }
  return fmt::format(R"({{{}"latency": {}}})", fields, json_latency(agent.answer));
}

void print_json(const Overview& overview) {
  std::string members;
  for (const Member& member : overview.members) {
    members += members.empty() ? "\n" : ",\n";
    members += fmt::format(
        R"(    {{"dictionary": {}, "cluster": {}, "agent": {}, "session": {}, "seconds": {:.3f}, "machine": {}, "ok": {}, "error": {}}})",
        json_text(member.dictionary), json_text(cluster_of(member)), member.state.agent, member.state.epoch,
        member.state.seconds, member.state.machine != 0 ? fmt::format("\"{:016x}\"", member.state.machine) : "null",
        member.trouble.empty(), member.trouble.empty() ? "null" : json_text(member.trouble));
  }
  std::string agents;
  for (const auto& [cluster, agent] : overview.agents)
    agents += fmt::format("{}    {}: {}", agents.empty() ? "\n" : ",\n", json_text(cluster), json_agent(agent));
  fmt::print("{{\n  \"dictionaries\": [{}\n  ],\n  \"agents\": {{{}\n  }}\n}}\n", members, agents);
}

}  // namespace

int show_cluster_status(const std::string& dictionary, bool as_json) {
  Overview overview;
  if (!dictionary.empty()) {
    holdfast_dict* const dict = find_dictionary(dictionary);
    if (dict == nullptr) return EXIT_FAILURE;
    if (!add_member(dictionary, dict, overview)) {
      say("{}", holdfast_error());
      return EXIT_FAILURE;
    }
  } else {
    add_all(overview);
  }
  if (as_json)
    print_json(overview);
  else
    print_text(overview);
  if (overview.members.empty() && !as_json) say_that_there_is_none();
  const bool ok = std::all_of(overview.members.begin(), overview.members.end(),
                              [](const Member& member) { return member.trouble.empty(); });
  return ok && !overview.members.empty() ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace holdfast::cli
