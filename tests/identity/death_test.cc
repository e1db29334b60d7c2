// Tests that a process that requests a lock detects that the holder is dead, whatever has happened to the process since
// it entered the world.
#include <dirent.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>

#include "identity/participant.h"
#include "support/started.h"

namespace holdfast::test {
namespace {

using testing::HasSubstr;

void close_all_but(const Channel& channel) {
  for (int fd = 3; fd < 1024; ++fd)
    if (fd != channel.read_fd() && fd != channel.write_fd()) ::close(fd);
}

std::string error_now() { return std::strerror(errno); }

/// A change that a process makes to itself after it has entered the world. Returns "", or the error.
using Change = std::function<std::string(const Channel&)>;

std::string run_out_of_descriptors(const Channel&) {
  const rlimit few{64, 64};
  if (::setrlimit(RLIMIT_NOFILE, &few) != 0) return error_now();
  while (::open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0) {
  }
  return errno == EMFILE ? "" : error_now();
}

std::string become_nobody(const Channel&) { return ::setuid(65534) == 0 ? "" : error_now(); }

std::string change_root(const Channel&) {
  const std::string root = std::string(::getenv("HOLDFAST_DIR")) + "/root";  // removed with the directory
  return ::mkdir(root.c_str(), 0700) == 0 && ::chroot(root.c_str()) == 0 && ::chdir("/") == 0 ? "" : error_now();
}

std::string close_everything(const Channel& channel) {
  close_all_but(channel);
  return "";
}

// Acts like a program that becomes a daemon and locks a pid file. Afterwards, the number of the library's descriptor
// belongs to a different file, which is locked completely.
std::string lock_other_files_instead(const Channel& channel) {
  close_all_but(channel);
  for (int i = 0; i < 64; ++i) {
    const int fd = ::memfd_create("pid file", MFD_CLOEXEC);
    if (fd < 0 || ::lockf(fd, F_TLOCK, 0) != 0) return error_now();
  }
  return "";
}

class DeathSeenAfter : public testing::Test {
 protected:
  /// Expects that a process that enters the world, and then changes itself, detects a holder's death.
  static void expect_death_detected(const Change& change) {
    Started seeker("ok", [&](Channel& parent) {
      Dict dict("dict");
      parent.say(in_words(dict.set("value", "there")));
      const std::string trouble = change(parent);
      parent.say(trouble.empty() ? "changed" : trouble);
      holdfast_lease lease{};
      while (parent.hear() == "lock") {
        parent.say(in_words(unless_held_up([&] { return dict.try_lock("key", 0, &lease); })));
      }
      return 0;
    });
    const std::string changed = seeker.hear();
    if (changed != "changed") GTEST_SKIP() << changed;
    Started holder("ready", [](Channel& parent) { return obey(parent); });
    ASSERT_EQ(holder.ask("lock"), "ok");
    EXPECT_EQ(seeker.ask("lock"), "locked");
    holder.kill_and_wait();  // the whole directory is removed
    EXPECT_EQ(seeker.ask("lock"), "ok");
  }

  const ScratchDirectory directory_;
};

TEST_F(DeathSeenAfter, running_out_of_descriptors) { expect_death_detected(run_out_of_descriptors); }
TEST_F(DeathSeenAfter, closing_all_descriptors) { expect_death_detected(close_everything); }
TEST_F(DeathSeenAfter, locking_other_files_under_the_same_descriptors) {
  expect_death_detected(lock_other_files_instead);
}
TEST_F(DeathSeenAfter, changing_the_user) { expect_death_detected(become_nobody); }
TEST_F(DeathSeenAfter, changing_the_root) { expect_death_detected(change_root); }

TEST_F(DeathSeenAfter, a_request_reports_why_it_cannot_ask_the_kernel) {
  // All descriptors are closed, and the directory is not reachable by a path, so the library cannot ask the kernel.
  Started seeker("ok", [&](Channel& parent) {
    Dict dict("dict");
    parent.say(in_words(dict.set("value", "there")));
    const std::string trouble = change_root(parent);
    close_all_but(parent);
    parent.say(trouble.empty() ? "changed" : trouble);
    holdfast_lease lease{};
    parent.hear();
    parent.say(in_words(unless_held_up([&] { return dict.try_lock("key", 0, &lease); })));
    // A wait continues despite the error, because the holder may release the lock. If the wait is abandoned, it returns
    // the same error.
    holdfast_parker* const parker = holdfast_parker_new();
    const std::uint32_t waiter = holdfast_waiter_open(parker);
    double sleep = 0;
    parent.say(in_words(unless_held_up([&] { return dict.wait_lock("key", 0, parker, waiter, &lease, &sleep); })));
    parent.say(in_words(dict.leave("key", parker, waiter)));
    parent.say(std::to_string(dict.stats().lives_unknown));
    parent.hear();
    return 0;
  });
  const std::string changed = seeker.hear();
  if (changed != "changed") GTEST_SKIP() << changed;
  Started holder("ready", [](Channel& parent) { return obey(parent); });
  ASSERT_EQ(holder.ask("lock"), "ok");
  EXPECT_THAT(seeker.ask("lock"), HasSubstr("cannot tell whether the blocking process is alive"));
  EXPECT_EQ(seeker.hear(), "locked");
  EXPECT_THAT(seeker.hear(), HasSubstr("cannot tell whether the blocking process is alive"));
  EXPECT_NE(seeker.hear(), "0");
  EXPECT_EQ(holder.ask("held"), "yes");
}

}  // namespace
}  // namespace holdfast::test
