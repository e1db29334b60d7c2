#include "crash/stepper.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "platform/platform.h"

namespace holdfast::crash {

namespace {

/// More instructions than any operation on a small dictionary takes.
constexpr std::uint64_t kTooMany = 5'000'000;

[[noreturn]] void be_stepped(const std::function<void()>& prepare, const std::function<int()>& run) {
  prepare();
  if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(200);
  ::raise(SIGSTOP);
  ::_exit(run());
}

}  // namespace

Stepped step_through(const std::function<void()>& prepare, const std::function<int()>& run,
                     const std::function<void()>& before_first, const std::function<void()>& after_each) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) be_stepped(prepare, run);

  Stepped result;
  int status = 0;
  const auto next_stop = [&] {
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFSTOPPED(status);
  };
  if (child < 0 || !next_stop() || WSTOPSIG(status) != SIGSTOP) {
    if (child > 0 && WIFEXITED(status)) result.status = WEXITSTATUS(status);
    result.problem = "the operation did not begin; status " + std::to_string(result.status) +
                     " (200 means that ptrace is not possible)";
    return result;
  }
  ::ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_EXITKILL);
  result.start_ns = platform::monotonic_ns();
  before_first();
  int signal = 0;
  while (result.instructions < kTooMany) {
    if (::ptrace(PTRACE_SINGLESTEP, child, nullptr, static_cast<long>(signal)) != 0) {
      result.problem = std::string("ptrace: ") + std::strerror(errno);
      break;
    }
    if (!next_stop()) break;
    signal = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
    ++result.instructions;
    after_each();
  }
  if (WIFSTOPPED(status)) {
    ::kill(child, SIGKILL);
    ::waitpid(child, &status, 0);
    if (result.problem.empty()) result.problem = "the operation does not end";
  } else if (WIFEXITED(status)) {
    result.status = WEXITSTATUS(status);
  } else {
    result.problem = "ended by signal " + std::to_string(WTERMSIG(status));
  }
  return result;
}

std::vector<Image> step_images(const std::function<void()>& prepare, const std::function<int()>& run,
                               std::span<const std::byte> bytes, std::size_t compared, Stepped& result) {
  std::vector<Image> images;
  const auto take = [&] { images.emplace_back(bytes.begin(), bytes.end()); };
  result = step_through(prepare, run, take, [&] {
    if (std::memcmp(images.back().data(), bytes.data(), compared) != 0) take();
  });
  return images;
}

}  // namespace holdfast::crash
