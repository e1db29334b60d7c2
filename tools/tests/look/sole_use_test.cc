// That no process uses a dictionary, and that none begins to while that is proved.
#include "inspect/sole_use.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "holdfast.h"

namespace holdfast::inspect {
namespace {

/// A child that opens the dictionary, says whether it could, and stays until it is ended.
class User {
 public:
  User() {
    std::array<int, 2> ends{};
    if (::pipe(ends.data()) != 0) return;
    reading_ = Descriptor(ends[0]);
    Descriptor writing(ends[1]);
    pid_ = ::fork();
    if (pid_ != 0) return;
    // A sole use that the parent holds would be held here, too.
    close_between(STDERR_FILENO + 1, static_cast<unsigned>(writing.get()) - 1);
    close_between(static_cast<unsigned>(writing.get()) + 1, ~0U);
    holdfast_dict* dict = nullptr;
    const holdfast_options options{1U << 16, HOLDFAST_MUTEX_FUTEX, 1, 0, nullptr};
    const bool opened = holdfast_open("a", 1, &options, &dict) == HOLDFAST_OK;
    if (::write(writing.get(), opened ? "y" : "n", 1) == 1) ::pause();
    ::_exit(1);
  }
  User(const User&) = delete;
  User& operator=(const User&) = delete;
  ~User() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  bool has_answered(int milliseconds) const {
    pollfd waits{.fd = reading_.get(), .events = POLLIN, .revents = 0};
    return ::poll(&waits, 1, milliseconds) == 1;
  }
  bool opened() const {
    char said = 'n';
    return ::read(reading_.get(), &said, 1) == 1 && said == 'y';
  }

 private:
  pid_t pid_ = 0;
  Descriptor reading_;
};

/// This process itself never enters the world.
class SoleUseOfADictionary : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(nullptr, ::mkdtemp(folder_.data()));
    ::setenv("HOLDFAST_DIR", folder_.c_str(), 1);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string folder_ = "/dev/shm/holdfast-test.XXXXXX";
};

TEST_F(SoleUseOfADictionary, IsRefusedWhileAProcessHasItOpen) {
  {
    const User user;
    ASSERT_TRUE(user.opened());
    const SoleUse use = take_sole_use(folder_, "a");
    EXPECT_TRUE(use.is_used);
    EXPECT_LT(use.held.get(), 0);
  }
  const SoleUse use = take_sole_use(folder_, "a");
  EXPECT_FALSE(use.is_used);
  EXPECT_EQ("", use.trouble);
  EXPECT_GE(use.held.get(), 0);
}

TEST_F(SoleUseOfADictionary, KeepsOthersOutUntilItEnds) {
  ASSERT_TRUE(User().opened());
  SoleUse use = take_sole_use(folder_, "a");
  ASSERT_GE(use.held.get(), 0);
  const User user;
  // It waits for 5 s, then gives up: where this process is stopped for so long, it has answered that it could not.
  const bool has_answered = user.has_answered(100);
  use.held.reset();
  const bool opened = user.opened();
  EXPECT_FALSE(has_answered && opened);
}

TEST_F(SoleUseOfADictionary, OfWhatIsNoFileIsNoneOrCannotBeTold) {
  SoleUse use = take_sole_use(folder_, "a");
  EXPECT_EQ("", use.trouble);
  EXPECT_FALSE(use.is_used);
  EXPECT_LT(use.held.get(), 0);
  std::filesystem::create_directory(folder_ + "/a.dict");
  use = take_sole_use(folder_, "a");
  EXPECT_EQ(folder_ + "/a.dict is not a regular file", use.trouble);
}

}  // namespace
}  // namespace holdfast::inspect
