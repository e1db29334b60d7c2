#include "look/top_request.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>
#include <vector>

#include "base/name.h"
#include "cli/message.h"
#include "inspect/dictionaries.h"
#include "inspect/locks.h"
#include "inspect/text.h"

namespace holdfast::cli {

namespace {

constexpr std::array<std::pair<int, const char*>, 3> kSignalNames{
    {{SIGTERM, "TERM"}, {SIGKILL, "KILL"}, {SIGCONT, "CONT"}}};

bool is_held(const TopRequest& request) {
  const auto dict = inspect::attach(request.dictionary);
  if (!dict) return false;
  const inspect::Lock lock = inspect::look_at_lock(*dict, request.dictionary, request.key);
  return std::any_of(lock.holders.begin(), lock.holders.end(), [&](const holdfast_holder& holder) {
    return holder.owner == request.grant.owner && holder.sequence == request.grant.sequence;
  });
}

}  // namespace

const char* name_of_signal(int signal) noexcept {
  for (const auto& [number, name] : kSignalNames)
    if (number == signal) return name;
  return "";
}

int signal_after(int signal) noexcept {
  for (std::size_t i = 0; i < kSignalNames.size(); ++i)
    if (kSignalNames[i].first == signal) return kSignalNames[(i + 1) % kSignalNames.size()].first;
  return kSignalNames.front().first;
}

// The pid may belong to another process by now. But if the holder is still alive after the pidfd was opened, then the
// pidfd refers to the holder.
std::string send_signal(const TopRequest& request) {
  const std::string who = inspect::in_words(request.holder);
  const inspect::Descriptor process(static_cast<int>(::syscall(SYS_pidfd_open, request.holder.pid_here, 0)));
  if (process.get() < 0 && errno != ESRCH) return fmt::format("cannot signal {}: {}", who, std::strerror(errno));
  auto processes = inspect::Processes::read();
  const bool is_there = process.get() >= 0 && processes && processes->of(request.grant.owner).is_there();
  if (!is_there) return fmt::format("{} has ended", who);
  if (!is_held(request))
    return fmt::format("{} was not signalled: it no longer holds {}", who, quote_whole(request.key));
  if (::syscall(SYS_pidfd_send_signal, process.get(), request.signal, nullptr, 0) != 0)
    return fmt::format("cannot signal {}: {}", who, std::strerror(errno));
  return fmt::format("sent {} to {}", name_of_signal(request.signal), who);
}

std::string TopRelease::start(const TopRequest& request) {
  if (output_.get() >= 0) return "cannot release another lock: the previous release has not ended";
  success_ = fmt::format("released {} of {}", quote_whole(request.key), inspect::in_words(request.holder));
  printed_.clear();
  std::array<int, 2> ends{};
  const auto failed = [](int error) {
    return fmt::format("cannot run \"holdfast release\": {}", std::strerror(error));
  };
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return failed(errno);
  output_ = inspect::Descriptor(ends[0]);
  const inspect::Descriptor input(ends[1]);
  std::vector<std::string> words{"holdfast",
                                 "release",
                                 "--escaped",
                                 "--token",
                                 std::to_string(request.grant.sequence),
                                 "--",
                                 request.dictionary,
                                 inspect::escaped(request.key)};
  std::vector<char*> values;
  values.reserve(words.size() + 1);
  for (std::string& word : words) values.push_back(word.data());
  values.push_back(nullptr);
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&files, input.get(), STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&files, input.get(), STDERR_FILENO);
  posix_spawnattr_t signals;
  sigset_t none;
  sigset_t all;
  sigemptyset(&none);
  sigfillset(&all);
  ::posix_spawnattr_init(&signals);
  ::posix_spawnattr_setsigmask(&signals, &none);
  ::posix_spawnattr_setsigdefault(&signals, &all);
  ::posix_spawnattr_setflags(&signals, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  const int error = ::posix_spawn(&child_, "/proc/self/exe", &files, &signals, values.data(), environ);
  ::posix_spawnattr_destroy(&signals);
  ::posix_spawn_file_actions_destroy(&files);
  if (error == 0) return {};
  output_.reset();
  return failed(error);
}

std::string TopRelease::read() {
  std::array<char, 1024> part{};
  const ssize_t got = ::read(output_.get(), part.data(), part.size());
  if (got < 0 && errno == EINTR) return {};
  if (got > 0) printed_.append(part.data(), static_cast<std::size_t>(got));
  if (got > 0) return {};
  output_.reset();
  int status = 0;
  while (::waitpid(child_, &status, 0) < 0 && errno == EINTR) continue;
  if (WIFEXITED(status) && WEXITSTATUS(status) == exit_status::kYes) return success_;
  constexpr std::string_view kSpeaker = "holdfast: ";
  std::string_view why = printed_;
  if (why.starts_with(kSpeaker)) why.remove_prefix(kSpeaker.size());
  why = why.substr(0, why.find('\n'));
  return why.empty() ? "the release failed" : inspect::without_controls(why);
}

}  // namespace holdfast::cli
