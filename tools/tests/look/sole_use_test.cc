// Tests how the command makes sure that no process uses a dictionary, and keeps other processes out until the command
// has finished.
#include "inspect/sole_use.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "holdfast.h"
#include "support/process.h"

namespace holdfast::inspect {
namespace {

/// A child that tries to open the dictionary, reports the result, and stays alive until it is killed.
class User : public test::Child {
 public:
  User() : Child(open_and_stay) {}

  bool has_answered(int milliseconds) {
    pollfd waits{.fd = channel().read_fd(), .events = POLLIN, .revents = 0};
    return ::poll(&waits, 1, milliseconds) == 1;
  }
  bool opened() { return hear() == "opened"; }

 private:
  static int open_and_stay(test::Channel& parent) {
    // The forked child must not keep the descriptors through which its parent has sole use.
    const auto [first, last] = std::minmax({parent.read_fd(), parent.write_fd()});
    close_between(STDERR_FILENO + 1, static_cast<unsigned>(first) - 1);
    close_between(static_cast<unsigned>(first) + 1, static_cast<unsigned>(last) - 1);
    close_between(static_cast<unsigned>(last) + 1, ~0U);
    holdfast_dict* dict = nullptr;
    const holdfast_options options{1U << 16, HOLDFAST_MUTEX_FUTEX, 1, 0, nullptr};
    parent.say(holdfast_open("a", 1, &options, &dict) == HOLDFAST_OK ? "opened" : "refused");
    parent.hear();
    return 0;
  }
};

/// This process never enters the world itself.
class SoleUseOfADictionary : public ::testing::Test {
 protected:
  SoleUse take() const { return take_sole_use(folder_.path(), "a"); }

  test::ScratchDirectory folder_;
};

TEST_F(SoleUseOfADictionary, IsRefusedWhileAProcessHasItOpen) {
  {
    User user;
    ASSERT_TRUE(user.opened());
    const SoleUse use = take();
    EXPECT_TRUE(use.is_used);
    EXPECT_LT(use.held.get(), 0);
  }
  const SoleUse use = take();
  EXPECT_FALSE(use.is_used);
  EXPECT_EQ("", use.trouble);
  EXPECT_GE(use.held.get(), 0);
}

TEST_F(SoleUseOfADictionary, KeepsOthersOutUntilItEnds) {
  ASSERT_TRUE(User().opened());
  SoleUse use = take();
  ASSERT_GE(use.held.get(), 0);
  User user;
  // The child gives up after 5 s. If this process is stopped for so long, the child reports a failure.
  const bool has_answered = user.has_answered(100);
  use.held.reset();
  const bool opened = user.opened();
  EXPECT_FALSE(has_answered && opened);
}

TEST_F(SoleUseOfADictionary, IsUnknownOrNoneWithoutARegularFile) {
  SoleUse use = take();
  EXPECT_EQ("", use.trouble);
  EXPECT_FALSE(use.is_used);
  EXPECT_LT(use.held.get(), 0);
  std::filesystem::create_directory(folder_ / "a.dict");
  use = take();
  EXPECT_EQ(folder_ / "a.dict is not a regular file", use.trouble);
}

}  // namespace
}  // namespace holdfast::inspect
