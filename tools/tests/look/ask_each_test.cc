// Tests that a process that reads a runtime directory can neither crash nor delay the process that started it. Also
// tests that the directory's user has no access to the reading process.
#include "inspect/ask_each.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "holdfast.h"
#include "inspect/user_access.h"

namespace holdfast::inspect {
namespace {

using testing::HasSubstr;

constexpr uid_t kOther = 65534;

/// Returns directories of this user. No test opens them.
std::vector<UserDirectory> some(std::size_t count) {
  std::vector<UserDirectory> directories;
  for (std::size_t i = 0; i < count; ++i) directories.push_back({std::to_string(i), ::geteuid()});
  return directories;
}

bool has_child() { return ::waitpid(-1, nullptr, WNOHANG) >= 0 || errno != ECHILD; }

TEST(AskEach, ReturnsTheAnswersInOrder) {
  const auto answers =
      ask_each(some(50), 30, [](const UserDirectory& directory) { return "<" + directory.path + ">"; });
  ASSERT_EQ(answers.size(), 50U);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    EXPECT_EQ(answers[i].text, "<" + std::to_string(i) + ">");
    EXPECT_EQ(answers[i].trouble, "");
  }
  EXPECT_FALSE(has_child());
}

TEST(AskEach, KillsAProcessThatDoesNotAnswerInTime) {
  const double begin = holdfast_now();
  const auto answers = ask_each(some(20), 0.5, [](const UserDirectory& directory) {
    if (directory.path == "3") ::kill(::getpid(), SIGSTOP);
    while (directory.path == "4") continue;
    return directory.path;
  });
  EXPECT_LT(holdfast_now() - begin, 20);
  EXPECT_EQ(answers[3].trouble, "reading it took too long");
  EXPECT_EQ(answers[4].trouble, "reading it took too long");
  EXPECT_EQ(answers[4].text, "");
  EXPECT_EQ(answers[19].text, "19");
  EXPECT_FALSE(has_child());
}

TEST(AskEach, ReportsHowAProcessFailed) {
  const auto answers = ask_each(some(5), 30, [](const UserDirectory& directory) -> std::string {
    if (directory.path == "0") ::raise(SIGSEGV);
    if (directory.path == "1") ::_exit(7);
    if (directory.path == "2") throw std::runtime_error("no luck");
    if (directory.path == "3") return std::string(std::size_t{70} << 20, 'x');
    return "well";
  });
  EXPECT_THAT(answers[0].trouble, HasSubstr("signal 11 killed the process"));
  EXPECT_EQ(answers[1].trouble, "the process that read it failed");
  EXPECT_EQ(answers[2].trouble, "no luck");
  EXPECT_EQ(answers[3].trouble, "there is too much to show");
  EXPECT_EQ(answers[4].text, "well");
  EXPECT_EQ(answers[4].trouble, "");
}

TEST(AskEach, LimitsTheMemoryOfEachProcess) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer ends a process that lacks memory";
#endif
  const auto answers = ask_each(
      some(1), 30, [](const UserDirectory&) { return std::to_string(std::vector<char>(std::size_t{2} << 30).size()); });
  EXPECT_EQ(answers[0].text, "");
  EXPECT_NE(answers[0].trouble, "");
}

TEST(AskEach, GivesEachProcessOnlyTheAccessOfItsUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  ::setenv("HOLDFAST_SHARE", "group", 1);
  const auto answers = ask_each({{"/somewhere", kOther}}, 30, [](const UserDirectory&) {
    return std::to_string(::geteuid()) + " " + ::getenv("HOLDFAST_DIR") + " " +
           (::getenv("HOLDFAST_SHARE") == nullptr ? "unset" : "set") + " " +
           (::open("/etc/shadow", O_RDONLY | O_CLOEXEC) < 0 ? "closed" : "open");
  });
  ::unsetenv("HOLDFAST_SHARE");
  EXPECT_EQ(answers[0].text, "65534 /somewhere unset closed") << answers[0].trouble;
}

/// Does to the process, as the other user, what a hostile user would do. Returns the actions that succeeded.
std::string attack(pid_t process) {
  int ends[2];
  if (::pipe(ends) != 0) return "no pipe";
  const pid_t attacker = ::fork();
  if (attacker == 0) {
    std::string done;
    if (::setresgid(kOther, kOther, kOther) != 0 || ::setresuid(kOther, kOther, kOther) != 0)
      done += "no change of user";
    if (::kill(process, 0) == 0) done += "signal ";
    if (::open(("/proc/" + std::to_string(process) + "/mem").c_str(), O_RDWR | O_CLOEXEC) >= 0) done += "memory ";
    static_cast<void>(!::write(ends[1], done.data(), done.size()));
    ::_exit(0);
  }
  ::waitpid(attacker, nullptr, 0);
  ::close(ends[1]);
  char text[64];
  const ssize_t size = ::read(ends[0], text, sizeof text);
  ::close(ends[0]);
  return {text, static_cast<std::size_t>(size < 0 ? 0 : size)};
}

TEST(AskEach, ProtectsEachProcessFromItsUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  const auto answers = ask_each({{"/somewhere", kOther}}, 30, [](const UserDirectory&) {
    {
      const RootAgain root;
      if (::geteuid() != 0) return std::string("not root again");
    }
    return ::geteuid() == kOther ? "<" + attack(::getpid()) + ">" : "not the user";
  });
  EXPECT_EQ(answers[0].text, "<>") << answers[0].trouble;
}

}  // namespace
}  // namespace holdfast::inspect
