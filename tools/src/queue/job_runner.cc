#include "queue/job_runner.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "cli/signals.h"
#include "run/title.h"

namespace holdfast::cli {

namespace {

std::array<Descriptor, 2> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe2");
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

/// Runs in the guard. Reads the process group of each command from the pipe. When the worker is dead, kills the last
/// group, and ends. Only KILL and STOP can reach the guard.
[[noreturn]] void guard_groups(int pipe, const std::string& name) {
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  ::setsid();
  set_title(fmt::format("holdfast: guard of queue {}", name));
  ::prctl(PR_SET_NAME, "holdfast-guard");
  ::dup2(pipe, STDIN_FILENO);
  close_between(STDIN_FILENO + 1, ~0U);
  if (::chdir("/") != 0) std::_Exit(EXIT_FAILURE);
  pid_t group = 0;
  for (pid_t told = 0; ::read(STDIN_FILENO, &told, sizeof told) == sizeof told;) group = told;
  if (group != 0) ::kill(-group, SIGKILL);
  std::_Exit(EXIT_SUCCESS);
}

/// Returns a descriptor of a file with the text, positioned at its beginning, or -1 on failure. A pipe would need a
/// process that fills it.
Descriptor file_of(const std::string& text) noexcept {
  Descriptor file(::memfd_create("job", MFD_CLOEXEC));
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t wrote = ::write(file.get(), text.data() + done, text.size() - done);
    if (wrote < 0 && errno != EINTR) return {};
    if (wrote > 0) done += static_cast<std::size_t>(wrote);
  }
  return ::lseek(file.get(), 0, SEEK_SET) == 0 ? std::move(file) : Descriptor();
}

}  // namespace

JobRunner::JobRunner(const Words& command, const PassedSignals& signals, const std::string& name)
    : signals_(signals), words_(command) {
  for (std::string& word : words_) values_.push_back(word.data());
  values_.push_back(nullptr);
  auto [out, in] = make_pipe();
  const pid_t pid = ::fork();
  if (pid < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (pid == 0) guard_groups(out.get(), name);
  guard_ = std::move(in);
}

void JobRunner::tell_guard(pid_t group) const noexcept {
  [[maybe_unused]] const ssize_t told = ::write(guard_.get(), &group, sizeof group);  // the guard may be dead
}

void JobRunner::become_command(pid_t worker, int input, int failure) noexcept {
  ::setpgid(0, 0);
  tell_guard(::getpid());  // from now on, the worker cannot die unnoticed
  follow_parent(worker, SIGKILL);
  signals_.restore();
  if (::dup2(input, STDIN_FILENO) == STDIN_FILENO) ::execvp(values_.front(), values_.data());
  const int error = errno;
  [[maybe_unused]] const ssize_t told = ::write(failure, &error, sizeof error);
  std::_Exit(EXIT_FAILURE);
}

int JobRunner::start(const std::string& text) {
  const Descriptor input = file_of(text);
  if (input.get() < 0) return errno;
  auto [out, in] = make_pipe();
  const pid_t worker = ::getpid();
  pid_ = ::fork();
  if (pid_ < 0) return errno;
  if (pid_ == 0) become_command(worker, input.get(), in.get());
  in.reset();
  int error = 0;
  if (::read(out.get(), &error, sizeof error) != sizeof error) return 0;  // exec has closed the pipe
  int status = 0;
  while (!has_ended(status, false)) ::waitid(P_PID, static_cast<id_t>(pid_), nullptr, WEXITED | WNOWAIT);
  return error;
}

void JobRunner::signal(int signal) const noexcept { ::kill(-pid_, signal); }

bool JobRunner::has_ended(int& status, bool all) noexcept {
  siginfo_t info{};
  // Until the command is reaped, no other process or group gets its number.
  if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != pid_)
    return false;
  if (all) signal(SIGKILL);
  tell_guard(0);
  return ::waitpid(pid_, &status, 0) == pid_;
}

}  // namespace holdfast::cli
