#include "lock/child.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "base/name.h"
#include "cli/message.h"
#include "lock/job.h"
#include "lock/wait_notice.h"

namespace holdfast::cli {

int execute_command(const LockOptions& options, std::uint64_t token, const Hold& hold) {
  begin_job();
  if (token != 0)
    ::setenv("HOLDFAST_TOKEN", std::to_string(token).c_str(), 1);
  else
    ::unsetenv("HOLDFAST_TOKEN");
  report(options, "executing " + options.command.front());
  std::vector<std::string> words = options.command;
  std::vector<char*> values;
  values.reserve(words.size() + 1);
  for (std::string& word : words) values.push_back(word.data());
  values.push_back(nullptr);
  ::prctl(PR_SET_PDEATHSIG, 0);
  if (!options.close) hold.inherit();
  ::execvp(values.front(), values.data());
  return errno;
}

int refuse_command(const LockOptions& options, int error) {
  // The wrapper holds the lock until this process has ended, so whoever should read the message must not be able to
  // prolong the hold by not reading.
  constexpr int kMessageMs = 1000;
  if (accepts_messages(STDERR_FILENO, kMessageMs))
    say("cannot run {}: {}", quote(options.command.front()), std::strerror(error));
  return error == ENOMEM ? lock_status::kSystem : lock_status::kCannotRun;
}

int become_command_when_held(const LockOptions& options, int channel) {
  begin_job();  // early, while the wrapper takes the lock
  Hold hold;
  const std::optional<std::uint64_t> token = receive_hold(channel, hold);
  if (!token) return lock_status::kSystem;
  return refuse_command(options, execute_command(options, *token, hold));
}

}  // namespace holdfast::cli
