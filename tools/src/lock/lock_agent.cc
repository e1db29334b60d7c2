#include "lock/lock_agent.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cluster/agent_command.h"
#include "lock/wait_notice.h"

namespace holdfast::cli {

namespace {

/// The time limit for an agent to start and to reach its store. With -n and -w, the limit of the wait applies instead.
/// A shorter limit is raised to kLeastSeconds, because a healthy agent needs this time to start.
constexpr double kStartSeconds = 10;
constexpr double kLeastSeconds = 2;
constexpr double kStopSeconds = 5;
constexpr int kLookMs = 5;

}  // namespace

void LockAgent::ensure(holdfast_dict* dict) {
  holdfast_cluster state{};
  holdfast_cluster_state(dict, &state);
  if (state.agent == 0 && (pid_ == 0 || has_ended())) start();
}

// If the wait for the lock is unlimited, this function waits only for the agent. The caller then waits for the cluster,
// and reports this wait.
int LockAgent::ensure_and_wait(holdfast_dict* dict) {
  const bool is_bounded = options_.timeout != kForEver;
  const double deadline = holdfast_now() + (is_bounded ? std::max(options_.timeout, kLeastSeconds) : kStartSeconds);
  holdfast_cluster state{};
  while (holdfast_cluster_state(dict, &state) != HOLDFAST_OK) {
    if (!is_bounded && state.agent != 0) return 0;
    if (has_ended() && !gave_way_ && state.agent == 0) {
      // Another agent may have taken over at this moment.
      holdfast_cluster_state(dict, &state);
      if (state.agent == 0) return complain();
    }
    if (state.agent == 0 && pid_ == 0) start();
    if (holdfast_now() >= deadline) {
      const std::string why = holdfast_error();
      pass_messages_on();
      say_in_time("{}", why);
      return lock_status::kUnavailable;
    }
    signal_ = await_signal();
    if (signal_ != 0) return lock_status::kSystem;
  }
  return 0;
}

int LockAgent::await_signal() const {
  pollfd come{signals_.descriptor(), POLLIN, 0};
  ::poll(&come, 1, kLookMs);
  while (const std::optional<signalfd_siginfo> info = signals_.next()) {
    const int signal = static_cast<int>(info->ssi_signo);
    if (signal == SIGTSTP) PassedSignals::stop_here();
    if (signal != SIGTSTP && signal != SIGCHLD && signal != SIGCONT && signal != SIGWINCH) return signal;
  }
  return 0;
}

void LockAgent::pass_messages_on() const {
  std::array<char, 4096> text{};
  const ssize_t size = messages_.get() < 0 ? 0 : ::pread(messages_.get(), text.data(), text.size(), 0);
  [[maybe_unused]] const ssize_t written =
      size > 0 ? ::write(STDERR_FILENO, text.data(), static_cast<std::size_t>(size)) : 0;
}

int LockAgent::complain() const {
  pass_messages_on();
  say_in_time("the agent of cluster {} did not start", options_.cluster);
  return lock_status::kUnavailable;
}

bool LockAgent::has_ended() {
  if (pid_ == 0) return false;
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG) == 0) return false;
  note_end(pid_, status);
  return true;
}

void LockAgent::note_end(pid_t child, int status) noexcept {
  if (child != pid_) return;
  gave_way_ = WIFEXITED(status) && WEXITSTATUS(status) == agent_status::kSuperseded;
  pid_ = 0;
}

// Starts the agent in its own session, because a terminal's signals are for the command, and the agent must outlive the
// command.
void LockAgent::start() {
  if (!options_.verbose) messages_ = Descriptor(::memfd_create("messages of the agent", MFD_CLOEXEC));
  pid_ = ::fork();
  if (pid_ > 0) return;
  if (pid_ < 0) {
    pid_ = 0;
    return;
  }
  ::setsid();
  signals_.restore();
  const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(nothing, STDOUT_FILENO);
  if (messages_.get() >= 0) ::dup2(messages_.get(), STDERR_FILENO);
  close_between(STDERR_FILENO + 1, ~0U);  // no process must wait until the agent closes inherited descriptors
  std::vector<std::string> arguments{options_.cluster};
  if (!options_.agent_config.empty()) arguments.insert(arguments.end(), {"--config", options_.agent_config});
  std::_Exit(become_agent(arguments));
}

void LockAgent::stop() {
  if (pid_ == 0) return;
  ::kill(pid_, SIGTERM);
  const double deadline = holdfast_now() + kStopSeconds;
  while (!has_ended() && holdfast_now() < deadline) std::this_thread::sleep_for(std::chrono::milliseconds(kLookMs));
}

}  // namespace holdfast::cli
