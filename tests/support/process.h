// Real processes and scratch worlds for tests.
//
// A process never leaves the world that it has entered. So a test program never enters a world itself: a test runs
// everything that needs a world in a Child.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>

namespace holdfast::test {

/// The limit of every wait for a process.
inline constexpr std::chrono::seconds kPatience{60};

/// Sends one line at a time between a parent and its child.
class Channel {
 public:
  Channel(int read_fd, int write_fd) : read_fd_(read_fd), write_fd_(write_fd) {}
  void say(const std::string& line) const;
  /// Returns the next line, "(end)" if the other side is gone, or "(silence)" after kPatience.
  std::string hear();
  int read_fd() const { return read_fd_; }
  int write_fd() const { return write_fd_; }

 private:
  int read_fd_;
  int write_fd_;
  std::string buffer_;
};

/// Runs `body` in a forked process. The result of `body` is the exit status. The destructor kills and reaps the
/// process, and the kernel kills it if the test program dies.
class Child {
 public:
  explicit Child(const std::function<int(Channel&)>& body);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  Channel& channel() { return channel_; }
  std::string hear() { return channel_.hear(); }
  void say(const std::string& line) { channel_.say(line); }
  std::string ask(const std::string& line) {
    say(line);
    return hear();
  }

  void signal(int number) const;
  /// Sends SIGSTOP, and returns when the kernel has stopped the process.
  void stop() const;
  /// Sends SIGKILL. The zombie stays unreaped.
  void kill() const { signal(9); }
  /// Kills and reaps the process. Returns its status, which is 128 + SIGKILL.
  int kill_and_wait() {
    kill();
    return wait();
  }
  /// Returns the exit status, 128 plus the signal that ended the process, or -1 after kPatience.
  int wait();

 private:
  pid_t pid_ = -1;
  bool reaped_ = false;
  Channel channel_{-1, -1};
};

/// Forks a process that never returns from `body` and ends with its parent.
pid_t fork_bound(const std::function<void()>& body);

/// Repeats the call until it returns true. Returns false after kPatience.
bool eventually(const std::function<bool()>& condition);

/// A new empty directory in /dev/shm with mode 0700. Sets $HOLDFAST_DIR to the directory. The destructor removes it
/// with its content.
class ScratchDirectory {
 public:
  ScratchDirectory();
  ~ScratchDirectory();
  ScratchDirectory(const ScratchDirectory&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  const std::string path_;
};

bool exists(const std::string& path);

}  // namespace holdfast::test
