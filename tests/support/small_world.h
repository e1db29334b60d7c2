// A world on its own small file system, which a test can fill.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>

#include "support/clock.h"
#include "support/process.h"

namespace holdfast::test {

/// Returns the number of bytes that the dictionary's file occupies in the file system.
inline std::uint64_t bytes_taken(const std::string& name = "d") {
  struct stat info {};
  EXPECT_EQ(0, ::stat((std::string(::getenv("HOLDFAST_DIR")) + "/" + name + ".dict").c_str(), &info));
  return static_cast<std::uint64_t>(info.st_blocks) * 512;
}

/// A test in a new world on its own file system. `fill_it()` takes all free pages of the file system, and `empty_it()`
/// frees them again.
class InSmallWorld : public testing::Test {
 protected:
  static void in_a_small_world(const std::function<void()>& body) {
    const ScratchDirectory small;
    Child child([&](Channel& parent) {
      if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
          ::mount("tmpfs", small.path().c_str(), "tmpfs", 0, "size=6m,mode=0700") != 0) {
        parent.say("skipped");
        return 0;
      }
      parent.say("mounted");
      body();
      return ::testing::Test::HasFailure() ? 1 : 0;
    });
    if (child.hear() == "skipped") GTEST_SKIP() << "a small tmpfs cannot be mounted";
    EXPECT_EQ(child.wait(), 0) << "status 135 means SIGBUS";
  }
  static std::string filler() { return std::string(::getenv("HOLDFAST_DIR")) + "/filler"; }
  static void fill_it() {
    const int file = ::open(filler().c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    const std::string page(4096, 'x');
    while (::write(file, page.data(), page.size()) > 0) continue;
    EXPECT_EQ(errno, ENOSPC);
    ::close(file);
  }
  static void empty_it() {
    ::unlink(filler().c_str());
    sleep_ms(120);  // a process that was refused memory tries again after 100 ms
  }
};

}  // namespace holdfast::test
