#include "lock/passed_signals.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace holdfast::cli {
namespace {

/// Forks a child in its own process group, as a shell does for a job, so that a terminal can stop it. The child exits
/// with 0 if stop_here() reports that the child was continued.
pid_t fork_job(void (*before)()) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::setpgid(0, 0);
    const PassedSignals signals;
    before();
    ::_exit(PassedSignals::stop_here() ? 0 : 1);
  }
  return child;
}

int wait_for_change(pid_t child) {
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, WUNTRACED), child);
  return status;
}

TEST(passed_signals, stops_as_a_terminal_would_until_it_is_continued) {
  const pid_t child = fork_job([] {});
  const int stopped = wait_for_change(child);
  EXPECT_TRUE(WIFSTOPPED(stopped) && WSTOPSIG(stopped) == SIGTSTP) << stopped;
  ::kill(child, SIGCONT);
  const int ended = wait_for_change(child);
  EXPECT_TRUE(WIFEXITED(ended) && WEXITSTATUS(ended) == 0) << ended;
}

TEST(passed_signals, does_not_stop_if_it_has_already_been_continued) {
  const pid_t child = fork_job([] { ::raise(SIGCONT); });
  const int ended = wait_for_change(child);
  EXPECT_TRUE(WIFEXITED(ended) && WEXITSTATUS(ended) == 0) << ended;
  if (WIFEXITED(ended)) return;
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

}  // namespace
}  // namespace holdfast::cli
