// Tests, through the C ABI, an event loop that can wait only for connections that it has opened itself.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>

#include "platform/platform.h"
#include "support/event_loop.h"
#include "support/refused_call.h"
#include "support/started.h"

namespace holdfast::test {
namespace {

using platform::FileDescriptor;
using Waiting = LoopWaiting;

/// Returns the path on which the parker listens, or "" if it does not listen.
std::string listen_at(Waiting& waiting) {
  std::array<char, HOLDFAST_PATH_MAX> path{};
  return holdfast_parker_listen(waiting.parker(), path.data(), path.size()) == HOLDFAST_OK ? path.data() : "";
}

FileDescriptor connect_to(const std::string& path) {
  FileDescriptor end(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::copy(path.begin(), path.end(), static_cast<char*>(address.sun_path));
  const int result = ::connect(end.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  return result == 0 ? std::move(end) : FileDescriptor();
}

/// Returns the loop's end of the connection.
FileDescriptor connected(Waiting& waiting) {
  FileDescriptor end = connect_to(listen_at(waiting));
  EXPECT_TRUE(end);
  EXPECT_EQ(holdfast_parker_accept(waiting.parker()), HOLDFAST_OK) << holdfast_error();
  return end;
}

/// Returns the number of bytes that can be read now, or -1 at the end of the connection.
int bytes(const FileDescriptor& end) {
  std::array<char, 64> some{};
  const ssize_t count = ::recv(end.get(), some.data(), some.size(), MSG_DONTWAIT);
  if (count == 0) return -1;
  return count < 0 ? 0 : static_cast<int>(count);
}

std::size_t names_in(const std::string& path) {
  const auto all = std::filesystem::directory_iterator(path);
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

class WakeThreadConnectionTest : public WakeThreadTest {};

TEST_F(WakeThreadConnectionTest, a_byte_arrives_for_each_uncollected_wake_up) {
  in_loop([this](Dict& dict, Waiting& waiting) {
    const FileDescriptor end = connected(waiting);
    for (int round = 0; round < 3; ++round) {
      take("k");
      ASSERT_EQ(waiting.once(dict, "k"), HOLDFAST_LOCKED);
      EXPECT_GT(waiting.sleep_time(), 0.1) << "the waiter polls";
      EXPECT_FALSE(readable(end.get(), 30));
      release("k");
      EXPECT_TRUE(readable(end.get(), kLongMs));
      EXPECT_EQ(bytes(end), 1);
      EXPECT_EQ(waiting.collect(), 1);
      ASSERT_EQ(waiting.once(dict, "k"), HOLDFAST_OK);
      EXPECT_EQ(waiting.unlock(dict, "k"), HOLDFAST_OK);
    }
    EXPECT_FALSE(readable(end.get(), 0));
  });
}

TEST_F(WakeThreadConnectionTest, a_byte_arrives_even_if_the_wait_begins_after_the_thread_has_ended) {
  in_loop([this](Dict& dict, Waiting& waiting) {
    take("k");
    const FileDescriptor end = connected(waiting);
    ASSERT_TRUE(eventually([] { return threads() == 1; }));
    ASSERT_EQ(waiting.once(dict, "k"), HOLDFAST_LOCKED);
    expect_heard_at(end.get(), waiting);
  });
}

TEST_F(WakeThreadConnectionTest, a_byte_arrives_again_for_wake_ups_that_were_not_collected_immediately) {
  in_loop([this](Dict& dict, Waiting& waiting) {
    const FileDescriptor end = connected(waiting);
    wait_for_three_of_dead_holder(dict, waiting.parker());
    for (int collected = 0; collected < 3;) {
      ASSERT_TRUE(readable(end.get(), kLongMs)) << collected;
      ASSERT_EQ(bytes(end), 1);
      std::uint32_t woken = 0;
      collected += holdfast_parker_sleep(waiting.parker(), 0, &woken, 1);
    }
    EXPECT_FALSE(readable(end.get(), 20));
  });
}

TEST_F(WakeThreadConnectionTest, a_byte_arrives_when_the_timer_is_due_without_a_new_descriptor) {
  in_process([] {
    Waiting waiting;
    const FileDescriptor end = connected(waiting);
    const std::size_t before = descriptors();
    const double start = now();
    ASSERT_EQ(waiting.timer(0.05), HOLDFAST_OK);
    EXPECT_TRUE(readable(end.get(), kLongMs));
    EXPECT_GE(now() - start, 0.05);
    EXPECT_EQ(bytes(end), 1);
    EXPECT_EQ(waiting.collect(), 0);
    while (!waiting.set_and_unset_timer(0.02)) {
      waiting.collect();
      bytes(end);
    }
    EXPECT_FALSE(readable(end.get(), 60)) << "a byte arrived although the timer was unset";
    ASSERT_EQ(waiting.timer(0), HOLDFAST_OK);
    EXPECT_TRUE(readable(end.get(), 0)) << "no byte arrived for a timer that is already due";
    EXPECT_EQ(descriptors(), before);
  });
}

TEST_F(WakeThreadConnectionTest, a_wake_up_from_before_the_connection_sends_a_byte_over_it) {
  in_loop([this](Dict& dict, Waiting& waiting) {
    Waiting other;
    take("k");
    ASSERT_EQ(waiting.once(dict, "k"), HOLDFAST_LOCKED);
    release("k");
    EXPECT_EQ(other.collect(), 0) << "the other parker has no mail";
    const FileDescriptor end = connected(waiting);
    EXPECT_TRUE(readable(end.get(), 0));
    EXPECT_EQ(waiting.collect(), 1);
  });
}

TEST_F(WakeThreadConnectionTest, unread_bytes_block_nothing) {
  in_process([] {
    Waiting waiting;
    const FileDescriptor end = connected(waiting);
    for (int round = 0; round < 20'000; ++round) {
      ASSERT_EQ(waiting.timer(0), HOLDFAST_OK);
      ASSERT_EQ(waiting.collect(), 0);
    }
    EXPECT_GE(bytes(end), 1);
    while (bytes(end) > 0) {
    }
    ASSERT_EQ(waiting.timer(0), HOLDFAST_OK);
    EXPECT_EQ(bytes(end), 1);
  });
}

// --- the path ---

TEST_F(WakeThreadConnectionTest,
       the_path_is_this_users_socket_in_the_runtime_directory_until_the_connection_is_accepted) {
  in_process([this] {
    Waiting waiting;
    const std::size_t before = names_in(directory.path());
    const std::string path = listen_at(waiting);
    struct stat info {};
    ASSERT_EQ(::lstat(path.c_str(), &info), 0) << path;
    EXPECT_TRUE(path.starts_with(directory.path() + "/"));
    EXPECT_TRUE(S_ISSOCK(info.st_mode));
    EXPECT_EQ(info.st_mode & 077, 0U);
    const FileDescriptor end = connect_to(path);
    ASSERT_TRUE(end);
    EXPECT_TRUE(exists(path));
    ASSERT_EQ(holdfast_parker_accept(waiting.parker()), HOLDFAST_OK);
    EXPECT_EQ(names_in(directory.path()), before);
    EXPECT_FALSE(connect_to(path));
  });
}

TEST_F(WakeThreadConnectionTest, listening_again_replaces_the_old_path_and_disconnect_and_free_leave_nothing) {
  in_process([this] {
    Waiting waiting;
    const std::size_t names = names_in(directory.path());
    const std::size_t before = descriptors();
    const std::string first = listen_at(waiting);
    const std::string second = listen_at(waiting);
    EXPECT_NE(first, second);
    EXPECT_FALSE(exists(first));
    EXPECT_TRUE(exists(second));
    holdfast_parker_disconnect(waiting.parker());
    EXPECT_FALSE(exists(second));
    holdfast_parker_disconnect(waiting.parker());
    EXPECT_EQ(descriptors(), before);
    for (int round = 0; round < 50; ++round) {
      const FileDescriptor end = connected(waiting);
      const FileDescriptor next = connected(waiting);
      EXPECT_EQ(bytes(end), -1);
      if (round % 2 == 0) holdfast_parker_disconnect(waiting.parker());
      EXPECT_EQ(bytes(next), round % 2 == 0 ? -1 : 0);
    }
    holdfast_parker_disconnect(waiting.parker());
    EXPECT_EQ(descriptors(), before);
    ASSERT_NE(listen_at(waiting), "");
    waiting.free();
    EXPECT_EQ(names_in(directory.path()), names);
    EXPECT_EQ(descriptors(), before);
  });
}

TEST_F(WakeThreadConnectionTest, a_path_that_a_killed_process_left_is_removed_when_the_next_world_begins) {
  Child killed([](Channel& parent) {
    Waiting waiting;
    parent.say(listen_at(waiting));
    parent.hear();
    return 0;
  });
  const std::string path = killed.hear();
  ASSERT_TRUE(exists(path));
  for (Child* const child : {&killed, &holder}) {
    child->kill_and_wait();
  }
  EXPECT_TRUE(exists(path));
  in_process([] { Dict dict("wake"); });
  EXPECT_FALSE(exists(path));
}

TEST_F(WakeThreadConnectionTest, a_path_that_does_not_fit_is_refused_with_the_reason) {
  in_process([this] {
    Waiting waiting;
    const std::size_t names = names_in(directory.path());
    std::array<char, 16> small{};
    EXPECT_EQ(holdfast_parker_listen(waiting.parker(), small.data(), small.size()), HOLDFAST_INVALID);
    EXPECT_NE(std::string(holdfast_error()).find("HOLDFAST_PATH_MAX"), std::string::npos);
    EXPECT_EQ(names_in(directory.path()), names);
  });
  const std::string deep = directory / std::string(100, 'd');
  in_process([&deep] {
    ::setenv("HOLDFAST_DIR", deep.c_str(), 1);
    Waiting waiting;
    EXPECT_EQ(listen_at(waiting), "");
    const std::string error = holdfast_error();
    EXPECT_NE(error.find("cannot listen on " + deep), std::string::npos) << error;
    EXPECT_NE(error.find("File name too long"), std::string::npos) << error;
  });
}

// --- which loops connect ---

TEST_F(WakeThreadConnectionTest, a_missing_connection_is_reported_and_the_parker_still_listens) {
  in_process([] {
    Waiting waiting;
    EXPECT_EQ(holdfast_parker_accept(waiting.parker()), HOLDFAST_SYSTEM);
    const std::string path = listen_at(waiting);
    EXPECT_EQ(holdfast_parker_accept(waiting.parker()), HOLDFAST_SYSTEM);
    EXPECT_EQ(std::string(holdfast_error()), "cannot accept the connection for wake-ups: nobody has connected");
    const FileDescriptor end = connect_to(path);
    ASSERT_TRUE(end);
    EXPECT_EQ(holdfast_parker_accept(waiting.parker()), HOLDFAST_OK);
    EXPECT_EQ(holdfast_parker_accept(waiting.parker()), HOLDFAST_SYSTEM) << "a second connection was accepted";
    ASSERT_EQ(waiting.timer(0), HOLDFAST_OK);
    EXPECT_EQ(bytes(end), 1) << "the first connection no longer works";
  });
}

TEST_F(WakeThreadConnectionTest, other_processes_are_refused_and_block_nobody) {
  in_process([] {
    Waiting waiting;
    const std::string path = listen_at(waiting);
    Started stranger("connected", [&path](Channel& parent) {
      const FileDescriptor end = connect_to(path);
      parent.say(end ? "connected" : "not");
      return readable(end.get(), kLongMs) && bytes(end) == -1 ? 0 : 1;
    });
    EXPECT_EQ(holdfast_parker_accept(waiting.parker()), HOLDFAST_SYSTEM);
    EXPECT_EQ(std::string(holdfast_error()),
              "cannot accept the connection for wake-ups: another process has connected");
    EXPECT_EQ(stranger.wait(), 0) << "the stranger's connection was not closed";

    Started faster("connected", [&path](Channel& parent) {
      const FileDescriptor end = connect_to(path);
      parent.say("connected");
      return readable(end.get(), kLongMs) && bytes(end) == -1 ? 0 : 1;
    });
    const FileDescriptor own = connect_to(path);
    EXPECT_EQ(holdfast_parker_accept(waiting.parker()), HOLDFAST_OK) << holdfast_error();
    EXPECT_EQ(faster.wait(), 0);
    ASSERT_EQ(waiting.timer(0), HOLDFAST_OK);
    EXPECT_EQ(bytes(own), 1);
  });
}

TEST_F(WakeThreadConnectionTest,
       a_forked_child_has_neither_connection_nor_listener_and_leaves_those_of_its_parent_alone) {
  in_loop([this](Dict& dict, Waiting& waiting) {
    Waiting second;
    take("k");
    const FileDescriptor end = connected(waiting);
    const std::string path = listen_at(second);
    ASSERT_EQ(waiting.once(dict, "k"), HOLDFAST_LOCKED);
    const std::size_t before = descriptors();
    in_process([&] {
      EXPECT_EQ(descriptors(), before + 2 - 2)
          << "the child must close two descriptors; it has two new descriptors for its channel";
      EXPECT_TRUE(exists(path));
      EXPECT_EQ(holdfast_parker_accept(second.parker()), HOLDFAST_SYSTEM);
      second.free();
      waiting.free();
      EXPECT_TRUE(exists(path)) << "the child removed its parent's path";
      Waiting own;
      const FileDescriptor own_end = connected(own);
      EXPECT_EQ(own.timer(0.001), HOLDFAST_OK);
      EXPECT_TRUE(readable(own_end.get(), kLongMs));
      EXPECT_FALSE(readable(end.get(), 0));
    });
    const FileDescriptor other = connect_to(path);
    EXPECT_EQ(holdfast_parker_accept(second.parker()), HOLDFAST_OK) << holdfast_error();
    expect_heard_at(end.get(), waiting);
  });
}

// --- actions of the host ---

TEST_F(WakeThreadConnectionTest, a_loop_that_closed_its_end_gets_missed_wake_ups_over_the_next_connection) {
  in_loop([this](Dict& dict, Waiting& waiting) {
    take("k");
    FileDescriptor end = connected(waiting);
    ASSERT_EQ(waiting.once(dict, "k"), HOLDFAST_LOCKED);
    const std::size_t before = descriptors();
    end.reset();
    release("k");
    EXPECT_TRUE(eventually([&] { return descriptors() == before - 2; }))
        << "the library must close its end when it next needs the connection";
    end = connected(waiting);
    EXPECT_TRUE(readable(end.get(), 0));
    EXPECT_EQ(waiting.collect(), 1);
    EXPECT_EQ(waiting.once(dict, "k"), HOLDFAST_OK);
  });
}

TEST_F(WakeThreadConnectionTest, a_host_that_closed_our_end_gets_no_byte_in_the_file_that_it_opened_instead) {
  in_process([] {
    Waiting waiting;
    const FileDescriptor end = connected(waiting);
    int ours = -1;
    for (int number = 3; number < 64; ++number) {
      sockaddr_un name{};
      socklen_t size = sizeof name;
      const bool named = ::getsockname(number, reinterpret_cast<sockaddr*>(&name), &size) == 0 &&
                         name.sun_family == AF_UNIX && std::strncmp(name.sun_path, "/dev/shm", 8) == 0;
      if (named && number != end.get()) ours = number;
    }
    ASSERT_GE(ours, 0);
    int strangers[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, strangers), 0);
    ASSERT_EQ(::dup2(strangers[0], ours), ours);
    EXPECT_EQ(bytes(end), -1) << "the loop must see the end of the connection";
    ASSERT_EQ(waiting.timer(0.001), HOLDFAST_OK);
    sleep_ms(50);
    char byte = 0;
    for (const int stranger : strangers)
      EXPECT_EQ(::recv(stranger, &byte, 1, 0), -1) << "a byte was sent to the host's socket";
    waiting.free();
    EXPECT_EQ(::fcntl(ours, F_GETFD), 0) << "the host's descriptor was closed";
  });
}

// --- failures ---

TEST_F(WakeThreadConnectionTest, without_threads_nothing_is_accepted_and_nothing_is_left) {
  in_process([this] {
    Waiting waiting;
    const std::size_t names = names_in(directory.path());
    const std::size_t before = descriptors();
    const FileDescriptor end = connect_to(listen_at(waiting));
    ASSERT_TRUE(end);
    // The directory must belong to the user that root becomes for a while.
    if (::geteuid() == 0) {
      ASSERT_EQ(::chown(directory.path().c_str(), 65534, 0), 0);
    }
    {
      const NoThreads none;
      ASSERT_TRUE(none.is_refused());
      EXPECT_EQ(holdfast_parker_accept(waiting.parker()), HOLDFAST_SYSTEM);
      EXPECT_STREQ(holdfast_error(), "cannot start the wake thread: Resource temporarily unavailable");
    }
    if (::geteuid() == 0) {
      ASSERT_EQ(::chown(directory.path().c_str(), 0, 0), 0);
    }
    EXPECT_EQ(bytes(end), -1);
    holdfast_parker_disconnect(waiting.parker());
    EXPECT_EQ(names_in(directory.path()), names);
    EXPECT_EQ(descriptors(), before + 1);
  });
}

TEST_F(WakeThreadConnectionTest, without_descriptors_the_next_call_tries_again) {
  in_process([this] {
    Waiting waiting;
    const std::size_t names = names_in(directory.path());
    {
      const NoDescriptors none;
      EXPECT_EQ(listen_at(waiting), "");
      EXPECT_NE(std::string(holdfast_error()).find("Too many open files"), std::string::npos) << holdfast_error();
    }
    EXPECT_EQ(names_in(directory.path()), names);
    const FileDescriptor end = connect_to(listen_at(waiting));
    ASSERT_TRUE(end);
    {
      const NoDescriptors none;
      EXPECT_EQ(holdfast_parker_accept(waiting.parker()), HOLDFAST_SYSTEM);
      EXPECT_STREQ(holdfast_error(), "cannot accept the connection for wake-ups: Too many open files");
    }
    EXPECT_EQ(holdfast_parker_accept(waiting.parker()), HOLDFAST_OK) << holdfast_error();
    ASSERT_EQ(waiting.timer(0), HOLDFAST_OK);
    EXPECT_EQ(bytes(end), 1);
  });
}

}  // namespace
}  // namespace holdfast::test
