#include "run/run_agents.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "cli/message.h"
#include "cli/signals.h"
#include "cluster/agent_command.h"

namespace holdfast::cli {

namespace {

constexpr auto kStopTime = std::chrono::seconds(5);
constexpr auto kLook = std::chrono::milliseconds(5);

}  // namespace

RunAgents::RunAgents(const RunOptions& options, SignalQueue& signals)
    : options_(options), signals_(signals), master_(::getpid()) {
  for (const std::string& cluster : options_.agents) {
    agents_.emplace_back();
    agents_.back().cluster = cluster;
  }
}

bool RunAgents::start() {
  if (!agents_.empty() && ::access(agent_program().c_str(), X_OK) != 0) {
    say("{}", why_no_agent(errno));
    return false;
  }
  return std::all_of(agents_.begin(), agents_.end(), [this](Agent& agent) { return start(agent); });
}

bool RunAgents::start(Agent& agent) {
  agent.started = Clock::now();
  agent.pid = ::fork();
  if (agent.pid == 0) become(agent);
  if (agent.pid > 0) return true;
  say("cannot start the agent of cluster {}: {}", agent.cluster, std::strerror(errno));
  agent.pid = 0;
  return false;
}

// Turns this process into the agent, in its own session. A terminal's signals must reach only the workers, which need
// the agent for their locks until they end.
void RunAgents::become(const Agent& agent) {
  follow_parent(master_, SIGTERM);
  ::setsid();
  signals_.become_worker();
  std::vector<std::string> arguments{agent.cluster, "--standby"};
  if (!options_.agent_config.empty()) arguments.insert(arguments.end(), {"--config", options_.agent_config});
  std::_Exit(become_agent(arguments));
}

RunAgents::End RunAgents::on_end(pid_t child, int status) {
  const auto ended = std::find_if(agents_.begin(), agents_.end(), [child](const Agent& a) { return a.pid == child; });
  if (ended == agents_.end()) return End::none;
  ended->pid = 0;
  if (WIFEXITED(status) && WEXITSTATUS(status) == agent_status::kWrongConfiguration) return End::hopeless;
  const Time now = Clock::now();
  const Backoff::Duration wait = ended->backoff.next(now - ended->started);
  ended->again_at = now + wait;
  say("the agent of cluster {} (pid {}) {}; restarting it in {:g} s", ended->cluster, child, describe_end(status),
      std::chrono::duration<double>(wait).count());
  return End::started_again;
}

void RunAgents::act_on_time(Time now) {
  for (Agent& agent : agents_) {
    if (!agent.again_at || *agent.again_at > now) continue;
    agent.again_at.reset();
    if (!start(agent)) agent.again_at = now + agent.backoff.next(Backoff::Duration::zero());
  }
}

std::optional<RunAgents::Time> RunAgents::next_deadline() const {
  std::optional<Time> first;
  for (const Agent& agent : agents_)
    if (agent.again_at && (!first || *agent.again_at < *first)) first = agent.again_at;
  return first;
}

bool RunAgents::running() const {
  return std::any_of(agents_.begin(), agents_.end(), [](const Agent& agent) { return agent.pid != 0; });
}

void RunAgents::reap() {
  for (Agent& agent : agents_)
    if (agent.pid != 0 && ::waitpid(agent.pid, nullptr, WNOHANG) != 0) agent.pid = 0;
}

void RunAgents::stop() {
  for (const Agent& agent : agents_)
    if (agent.pid != 0) ::kill(agent.pid, SIGTERM);
  const Time end = Clock::now() + kStopTime;
  for (reap(); running() && Clock::now() < end; reap()) std::this_thread::sleep_for(kLook);
  for (const Agent& agent : agents_)
    if (agent.pid != 0) ::kill(agent.pid, SIGKILL);
}

}  // namespace holdfast::cli
