// Tests the keeper, a process that keeps a world until a parent process ends: holdfast_keep_for and
// platform::start_apart. This program never enters a world itself.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <set>
#include <string>

#include "platform/platform.h"
#include "support/dict.h"
#include "support/process.h"
#include "support/refused_call.h"
#include "world/file_use.h"

namespace holdfast::test {
namespace {

constexpr const char* kKey = "key";
constexpr const char* kFile = "d.dict";

/// Stores a value, and ends as if the process had been killed.
void work() {
  Dict dict("d");
  if (dict.set(kKey, "value") != HOLDFAST_OK) ::_exit(2);
  if (holdfast_keep_for(::getppid()) != HOLDFAST_OK) ::_exit(3);
}

/// Runs `body` in a child, waits for the child's end, and returns its status.
int run_worker(void (*body)()) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    body();
    ::_exit(0);
  }
  int status = -1;
  ::waitpid(pid, &status, 0);
  return status;
}

void read() {
  Dict dict("d");
  if (dict.get(kKey) != text("value")) ::_exit(4);
}

void work_without_pidfd() {
  if (!refuse_call(SYS_pidfd_open, ENOSYS)) ::_exit(4);
  work();
}

/// A master process that never uses a dictionary. Whenever it gets a line, it runs a worker and reports the worker's
/// status.
int master(Channel& parent) {
  for (std::string order = parent.hear(); order != "(end)"; order = parent.hear()) {
    if (order == "end") return 0;
    parent.say(std::to_string(run_worker(order == "read" ? read : order == "store" ? work : work_without_pidfd)));
  }
  return 0;
}

/// Returns the keepers' process ids.
std::set<std::string> keepers_of(const ScratchDirectory& directory) {
  std::set<std::string> pids;
  const std::string command =
      "for f in $(grep -lx holdfast-keeper /proc/[0-9]*/comm 2>/dev/null); do p=${f%/comm}; "
      "grep -q " +
      directory.path() + " $p/maps 2>/dev/null && echo ${p#/proc/}; done";
  FILE* const out = ::popen(command.c_str(), "r");
  std::array<char, 64> line{};
  while (std::fgets(line.data(), line.size(), out) != nullptr) pids.insert(line.data());
  ::pclose(out);
  return pids;
}

// The keeper must also work if the kernel does not have pidfds.
TEST(keeper, keeps_values_between_workers_until_their_parent_ends) {
  for (const char* const store : {"store", "store without pidfd"}) {
    const ScratchDirectory directory;
    Child parent(&master);
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(parent.ask(store), "0");
      EXPECT_EQ(parent.ask("read"), "0");
    }
    EXPECT_TRUE(exists(directory / kFile)) << store;
    parent.kill_and_wait();
    EXPECT_TRUE(eventually([&] { return !exists(directory / kFile); })) << store;
    EXPECT_TRUE(eventually([&] { return keepers_of(directory).empty(); })) << store;
  }
}

TEST(keeper, is_started_once_for_each_parent) {
  const ScratchDirectory directory;
  Child first(&master);
  Child second(&master);
  const auto keepers = [&](std::size_t count) {
    EXPECT_TRUE(eventually([&] { return keepers_of(directory).size() == count; }));
    return keepers_of(directory);
  };
  EXPECT_EQ(first.ask("store"), "0");
  const std::set<std::string> one = keepers(1);
  EXPECT_EQ(first.ask("store"), "0");
  EXPECT_EQ(keepers(1), one);
  EXPECT_EQ(second.ask("store"), "0");
  keepers(2);
  first.kill_and_wait();
  EXPECT_EQ(keepers(1).count(*one.begin()), 0U);
  EXPECT_EQ(second.ask("read"), "0");
  second.kill_and_wait();
  EXPECT_TRUE(eventually([&] { return !exists(directory / kFile); }));
}

TEST(keeper, uses_no_dictionary) {
  const ScratchDirectory directory;
  Child parent(&master);
  EXPECT_EQ(parent.ask("store"), "0");
  EXPECT_TRUE(eventually([&] { return keepers_of(directory).size() == 1; }));
  const platform::FileDescriptor file(::open((directory / kFile).c_str(), O_RDWR | O_CLOEXEC));
  EXPECT_EQ(platform::try_record_lock(file.get(), kUseLock), 0);
}

TEST(keeper, does_not_end_a_world_with_other_processes) {
  const ScratchDirectory directory;
  Child parent(&master);
  EXPECT_EQ(parent.ask("store"), "0");
  Child other([](Channel& test) {
    Dict dict("d");
    test.say("here");
    for (std::string order = test.hear(); order == "read"; order = test.hear()) {
      test.say(dict.get(kKey).text);
    }
    return 0;
  });
  EXPECT_EQ(other.hear(), "here");
  parent.kill_and_wait();
  EXPECT_TRUE(eventually([&] { return keepers_of(directory).empty(); }));
  EXPECT_EQ(other.ask("read"), "value");
}

TEST(keeper, that_was_killed_is_reported_to_the_worker_that_starts_the_next_keeper) {
  const ScratchDirectory directory;
  Child parent(&master);
  EXPECT_EQ(parent.ask("store"), "0");
  EXPECT_EQ(parent.ask("store"), "0");
  ASSERT_TRUE(eventually([&] { return keepers_of(directory).size() == 1; }));
  ASSERT_EQ(::kill(std::stoi(*keepers_of(directory).begin()), SIGKILL), 0);
  ASSERT_TRUE(eventually([&] { return keepers_of(directory).empty(); }));
  EXPECT_EQ(parent.ask("store"), std::to_string(3 << 8)) << "the worker's call must not return OK";
  EXPECT_EQ(parent.ask("store"), "0");
  parent.kill_and_wait();
  EXPECT_TRUE(eventually([&] { return !exists(directory / kFile); }));
}

TEST(keeper, is_refused_with_a_message_if_fork_fails) {
  const ScratchDirectory directory;
  Child child([](Channel& test) {
    Dict dict("d");
    if (!refuse_call(SYS_clone, EAGAIN)) return 1;
    test.say(std::to_string(holdfast_keep_for(::getppid())) + " " + holdfast_error());
    return dict.set(kKey, "value") == HOLDFAST_OK ? 0 : 2;
  });
  EXPECT_EQ(child.hear(), std::to_string(HOLDFAST_SYSTEM) + " cannot start a holdfast-keeper for " + directory.path() +
                              ": Resource temporarily unavailable");
  EXPECT_EQ(child.wait(), 0);
}

TEST(keeper, is_refused_for_a_process_that_is_not_the_parent) {
  const ScratchDirectory directory;
  Child child([](Channel& test) {
    const int self = holdfast_keep_for(::getpid());
    const int none = holdfast_keep_for(0);
    test.say(std::to_string(self) + " " + std::to_string(none) + " " + holdfast_error());
    return 0;
  });
  const std::string invalid = std::to_string(HOLDFAST_INVALID);
  EXPECT_EQ(child.hear(), invalid + " " + invalid + " process 0 is not the parent of this process");
}

TEST(process_apart, is_not_a_child_and_has_only_one_descriptor) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
  const int other = ::dup(pipe[1]);
  struct Argument {
    int out;
    int other;
  } argument{pipe[1], other};
  const auto begin = [](void*) { return true; };
  const auto body = [](void* given) {
    const auto& [out, closed] = *static_cast<Argument*>(given);
    sigset_t blocked;
    ::sigprocmask(SIG_SETMASK, nullptr, &blocked);
    const bool apart = ::fcntl(closed, F_GETFD) < 0 && ::fcntl(0, F_GETFD) >= 0 && ::getsid(0) == ::getpid() &&
                       ::sigismember(&blocked, SIGTERM) == 1;
    static_cast<void>(::write(out, apart ? "1" : "0", 1));
  };
  sigset_t before;
  sigset_t after;
  ::sigprocmask(SIG_SETMASK, nullptr, &before);
  ASSERT_EQ(platform::start_apart({"apart", pipe[1], {}, begin, body, &argument}), 0);
  ::sigprocmask(SIG_SETMASK, nullptr, &after);
  EXPECT_EQ(::sigismember(&before, SIGTERM), ::sigismember(&after, SIGTERM));
  ::close(pipe[1]);
  ::close(other);
  std::string told(1, ' ');
  EXPECT_EQ(::read(pipe[0], told.data(), 1), 1);
  EXPECT_EQ(told, "1");
  EXPECT_EQ(::read(pipe[0], told.data(), 1), 0);  // the process has ended
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
  ::close(pipe[0]);
}

TEST(process_apart, is_not_started_if_there_is_nothing_to_do) {
  const auto begin = [](void*) { return false; };
  const auto body = [](void*) { ::kill(::getppid(), SIGKILL); };
  EXPECT_EQ(platform::start_apart({"apart", -1, {}, begin, body, nullptr}), 0);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
}

TEST(process_end, is_unknown_for_a_process_that_is_gone) {
  const pid_t gone = ::fork();
  if (gone == 0) ::_exit(0);
  platform::ProcessEnd end;
  EXPECT_EQ(end.open(gone), 0);
  ::waitpid(gone, nullptr, 0);
  end.wait();
  EXPECT_EQ(platform::ProcessEnd().open(gone), ESRCH);
}

}  // namespace
}  // namespace holdfast::test
