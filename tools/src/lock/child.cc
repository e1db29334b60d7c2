#include "lock/child.h"

#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/name.h"
#include "lock/file_lock.h"
#include "lock/job.h"
#include "lock/next_lock.h"
#include "lock/wait_notice.h"

namespace holdfast::cli {

int execute_command(const LockOptions& options, std::uint64_t token, const Hold& hold) {
  begin_job();
  if (token != 0)
    ::setenv("HOLDFAST_TOKEN", std::to_string(token).c_str(), 1);
  else
    ::unsetenv("HOLDFAST_TOKEN");
  std::vector<std::string> words = words_under_lock(options);
  if (options.also.empty()) report(options, "executing " + words.front());
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
  say_in_time("cannot run {}: {}", quote(options.command.front()), std::strerror(error));
  return error == ENOMEM ? lock_status::kSystem : lock_status::kCannotRun;
}

int become_command_when_held(const LockOptions& options, int channel) {
  begin_job();  // do this early, while the wrapper takes the lock
  Hold hold;
  std::optional<std::uint64_t> order;
  while ((order = receive_order(channel, hold)) == kTakeFile) {
    const double deadline = options.timeout == 0 ? 0 : std::numeric_limits<double>::infinity();
    const int error = take_flock(options.file, options.shared, deadline, nullptr);
    static_cast<void>(::send(channel, &error, sizeof error, MSG_NOSIGNAL));
  }
  if (!order) return lock_status::kSystem;
  return refuse_command(options, execute_command(options, *order, hold));
}

}  // namespace holdfast::cli
