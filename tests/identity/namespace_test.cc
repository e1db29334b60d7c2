// Tests processes in different namespaces, which differ in their process ids, user ids or clocks. Two processes must
// never hold the same lock.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <string>

#include "identity/participant.h"
#include "platform/platform.h"
#include "support/started.h"

namespace holdfast::test {
namespace {

using testing::HasSubstr;

bool write_to(const char* path, const std::string& text) {
  const platform::FileDescriptor fd(::open(path, O_WRONLY));
  return fd && ::write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

bool be_root_as_outside() {
  return write_to("/proc/self/uid_map", "0 0 1") && write_to("/proc/self/setgroups", "deny") &&
         write_to("/proc/self/gid_map", "0 0 1");
}
bool be_ahead_by_a_day() { return write_to("/proc/self/timens_offsets", "monotonic 86400 0"); }
bool be_as_it_is() { return true; }

/// Runs a participant in a new namespace, and forwards orders and answers between the test and the participant. The
/// order "kill" kills the participant. If the kernel refuses the namespace, reports "skip: ...".
int forward(Channel& test, int kind, const std::function<bool()>& prepare) {
  if (::unshare(kind) != 0 || !prepare()) {
    test.say(std::string("skip: ") + std::strerror(errno));
    return 0;
  }
  Child participant([](Channel& outside) { return obey(outside); });
  for (std::string line = participant.hear();; line = test.hear()) {
    if (line == "(end)" || line == "(silence)") return 0;
    if (line == "kill") {
      participant.kill_and_wait();
      test.say("killed");
    } else if (line == "lock" || line == "held" || line == "unlock") {
      test.say(participant.ask(line));
    } else {
      test.say(line);
    }
  }
}

class IdentityNamespace : public testing::Test {
 protected:
  /// Expects that a process inside the namespace and a process outside share the dictionary and detect each other's
  /// death.
  void expect_one_world(int kind, const std::function<bool()>& prepare) {
    Child inside([&](Channel& test) { return forward(test, kind, prepare); });
    const std::string ready = inside.hear();
    if (ready.starts_with("skip")) GTEST_SKIP() << ready;
    ASSERT_EQ(ready, "ready");
    ASSERT_EQ(outside_.ask("lock"), "ok");
    expect_passed_on(outside_, inside);
    EXPECT_EQ(outside_.ask("lock"), "locked");
    EXPECT_EQ(inside.ask("held"), "yes");
    ASSERT_EQ(inside.ask("kill"), "killed");
    EXPECT_EQ(outside_.ask("lock"), "ok");

    Started next("ready", [&](Channel& test) { return forward(test, kind, prepare); });
    EXPECT_EQ(next.ask("lock"), "locked");
    outside_.kill_and_wait();
    EXPECT_EQ(next.ask("lock"), "ok");
  }
  void SetUp() override { ASSERT_EQ(outside_.hear(), "ready"); }

  const ScratchDirectory directory_;
  Child outside_{[](Channel& test) { return obey(test); }};
};

TEST_F(IdentityNamespace, of_process_ids_does_not_separate_processes) { expect_one_world(CLONE_NEWPID, be_as_it_is); }

TEST_F(IdentityNamespace, of_users_does_not_separate_processes_of_the_same_user) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can map root";
  expect_one_world(CLONE_NEWUSER, be_root_as_outside);
}

TEST_F(IdentityNamespace, of_users_without_a_map_does_not_separate_processes_of_the_same_user) {
  expect_one_world(CLONE_NEWUSER, be_as_it_is);
}

TEST_F(IdentityNamespace, of_time_is_refused_while_the_world_is_in_use_and_gets_its_own_world_afterwards) {
  ASSERT_EQ(outside_.ask("lock"), "ok");
  const auto in_another_time = [](Channel& test) { return forward(test, kNewTime, be_ahead_by_a_day); };
  {
    Child newcomer(in_another_time);
    const std::string refused = newcomer.hear();
    if (refused.starts_with("skip")) GTEST_SKIP() << refused;
    EXPECT_THAT(refused, HasSubstr("is used by processes in another time namespace"));
  }
  EXPECT_EQ(outside_.ask("held"), "yes");
  outside_.kill_and_wait();
  Started next("ready", in_another_time);
  EXPECT_EQ(next.ask("lock"), "ok");
}

}  // namespace
}  // namespace holdfast::test
