// Tests the file of the agent's socket (service/question_server.h) in a directory to which other users may write.
#include "service/question_server.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <exception>
#include <fstream>
#include <functional>
#include <string>

#include "gate/question.h"
#include "support/process.h"

namespace {

/// Called with the path of each new socket, at the first moment at which other processes can see the socket.
std::function<void(const std::string&)> on_bind;

}  // namespace

// Replaces the C library's function.
extern "C" int bind(int fd, const sockaddr* address, socklen_t size) noexcept {
  const long result = ::syscall(SYS_bind, fd, address, size);
  const int error = errno;
  if (result == 0 && on_bind) on_bind(reinterpret_cast<const sockaddr_un*>(address)->sun_path);
  errno = error;
  return static_cast<int>(result);
}

namespace holdfast::test {
namespace {

using agent::QuestionServer;

constexpr gid_t kGroup = 54321;
constexpr uid_t kMember = 20001;
constexpr const char* kCluster = "main";

class SharedSocketTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can act as two users";
    ASSERT_EQ(::chown(scratch_.path().c_str(), 0, kGroup), 0);
    ASSERT_EQ(::chmod(scratch_.path().c_str(), 0770), 0);
  }
  void TearDown() override { on_bind = {}; }

  RuntimeDirectory directory() const {
    return *RuntimeDirectory::at(scratch_.path(), RuntimeDirectory::Sharing::group);
  }
  /// Returns "the server listens", or why it does not.
  std::string serve() const {
    const RuntimeDirectory shared = directory();
    try {
      return QuestionServer(shared, kCluster).has_name() ? "the server listens" : "the server listens elsewhere";
    } catch (const std::exception& error) {
      return error.what();
    }
  }
  /// Runs `what` as a different user in the group, and returns its report.
  std::string as_member(const std::function<std::string()>& what) const {
    Child child([&](Channel& parent) {
      if (::setgid(kGroup) != 0 || ::setuid(kMember) != 0) return 1;
      parent.say(what());
      return 0;
    });
    return child.hear();
  }

  ScratchDirectory scratch_;
};

TEST_F(SharedSocketTest, a_group_member_that_swaps_the_new_socket_for_a_link_gains_nothing) {
  const ScratchDirectory of_root;
  const std::string target = of_root / "secret";
  std::ofstream(target) << "secret";
  ASSERT_EQ(::chmod(target.c_str(), 0600), 0);
  on_bind = [&](const std::string& path) {
    EXPECT_EQ(as_member([&] {
                return ::unlink(path.c_str()) == 0 && ::symlink(target.c_str(), path.c_str()) == 0 ? "swapped" : "not";
              }),
              "swapped");
  };
  EXPECT_EQ(serve(), "cannot listen on " + (scratch_ / ".agent-main") + ": File exists");
  struct stat info {};
  ASSERT_EQ(::stat(target.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600U);
  EXPECT_EQ(info.st_uid, 0U);
  EXPECT_EQ(info.st_gid, 0U);
}

TEST_F(SharedSocketTest, a_swapped_socket_is_not_mistaken_for_the_agents) {
  on_bind = [&](const std::string& path) {
    on_bind = {};
    EXPECT_EQ(as_member([&] {
                sockaddr_un address{};
                address.sun_family = AF_UNIX;
                path.copy(static_cast<char*>(address.sun_path), sizeof address.sun_path - 1);
                const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
                const auto* const where = reinterpret_cast<const sockaddr*>(&address);
                return ::unlink(path.c_str()) == 0 && ::bind(fd, where, sizeof address) == 0 ? "swapped" : "not";
              }),
              "swapped");
  };
  EXPECT_EQ(serve(), "cannot listen on " + (scratch_ / ".agent-main") + ": File exists");
}

TEST_F(SharedSocketTest, members_of_the_group_reach_the_agent_whatever_its_umask) {
  const RuntimeDirectory shared = directory();
  const mode_t before = ::umask(0277);
  const QuestionServer server(shared, kCluster);
  EXPECT_EQ(::umask(before), 0277U);
  EXPECT_EQ(as_member([&] {
              const auto connected = connect_agent(directory(), kCluster);
              return connected ? std::string("connected") : connected.status().message;
            }),
            "connected");
}

TEST(SocketTest, of_a_private_directory_admits_only_its_user_whatever_the_umask) {
  const ScratchDirectory scratch;
  const RuntimeDirectory directory = *RuntimeDirectory::at(scratch.path());
  const mode_t before = ::umask(0277);
  const QuestionServer server(directory, kCluster);
  ::umask(before);
  struct stat info {};
  ASSERT_EQ(::stat((scratch / ".agent-main").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600U);
}

}  // namespace
}  // namespace holdfast::test
