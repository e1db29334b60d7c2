#include "support/process.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <thread>

namespace holdfast::test {

void Channel::say(const std::string& line) const {
  const std::string text = line + "\n";
  // If the child is gone, hear() detects this.
  if (::write(write_fd_, text.data(), text.size()) < 0 && errno != EPIPE) std::perror("test channel");
}

std::string Channel::hear() {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  for (;;) {
    if (const auto end = buffer_.find('\n'); end != std::string::npos) {
      std::string line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      return line;
    }
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return "(silence)";
    pollfd waiting{.fd = read_fd_, .events = POLLIN, .revents = 0};
    if (::poll(&waiting, 1, static_cast<int>(left.count())) <= 0) continue;
    char chunk[512];
    const ssize_t got = ::read(read_fd_, chunk, sizeof chunk);
    if (got <= 0) return "(end)";
    buffer_.append(chunk, static_cast<std::size_t>(got));
  }
}

Child::Child(const std::function<int(Channel&)>& body) {
  int to_child[2];
  int from_child[2];
  if (::pipe(to_child) != 0 || ::pipe(from_child) != 0) {
    std::perror("pipe");
    std::abort();
  }
  ::signal(SIGPIPE, SIG_IGN);
  std::fflush(nullptr);
  pid_ = fork_bound([&] {
    ::close(to_child[1]);
    ::close(from_child[0]);
    Channel channel(to_child[0], from_child[1]);
    const int status = body(channel);
    std::fflush(nullptr);
    ::_exit(status);
  });
  ::close(to_child[0]);
  ::close(from_child[1]);
  channel_ = Channel(from_child[0], to_child[1]);
}

Child::~Child() {
  if (!reaped_ && pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  ::close(channel_.read_fd());
  ::close(channel_.write_fd());
}

void Child::signal(int number) const {
  if (!reaped_) ::kill(pid_, number);
}

void Child::stop() const {
  signal(SIGSTOP);
  siginfo_t info;
  ::waitid(P_PID, static_cast<id_t>(pid_), &info, WSTOPPED | WNOWAIT);
}

int Child::wait() {
  int status = 0;
  const bool ended = eventually([&] { return ::waitpid(pid_, &status, WNOHANG) == pid_; });
  if (!ended) return -1;
  reaped_ = true;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

pid_t fork_bound(const std::function<void()>& body) {
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // If the parent is in a different pid namespace, getppid() returns 0.
  if (const pid_t now = ::getppid(); now != parent && now != 0) ::_exit(0);
  body();
  std::abort();
}

bool eventually(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

namespace {

std::string make_directory() {
  std::string path = "/dev/shm/hf-test-XXXXXX";
  if (::mkdtemp(path.data()) == nullptr) {
    std::perror(path.c_str());
    std::abort();
  }
  return path;
}

}  // namespace

ScratchDirectory::ScratchDirectory() : path_(make_directory()) { ::setenv("HOLDFAST_DIR", path_.c_str(), 1); }

ScratchDirectory::~ScratchDirectory() {
  ::unsetenv("HOLDFAST_DIR");
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

bool exists(const std::string& path) {
  struct stat info;
  return ::lstat(path.c_str(), &info) == 0;
}

}  // namespace holdfast::test
