#include "world/runtime_directory.h"
#include "world/world_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "platform/platform.h"
#include "support/started.h"

namespace holdfast::test {
namespace {

using testing::Test;
using Sharing = RuntimeDirectory::Sharing;

bool has(const Status& status, const std::string& words) { return status.message.find(words) != std::string::npos; }

mode_t mode_of(const std::string& path) {
  struct stat info;
  return ::lstat(path.c_str(), &info) == 0 ? info.st_mode & 07777 : 0;
}

class Directory : public Test {
 protected:
  Status refusal(const std::string& path, Sharing sharing = Sharing::none, std::optional<uid_t> owner = std::nullopt) {
    auto directory = RuntimeDirectory::at(path, sharing, owner);
    EXPECT_FALSE(directory) << path << " was accepted";
    return directory ? Status{} : directory.status();
  }
  static Status refusal_to_open(const RuntimeDirectory& directory) {
    const auto opened = directory.open();
    EXPECT_FALSE(opened);
    return opened ? Status{} : opened.status();
  }
  /// Runs `what` in a process of this user and group, and returns the report of `what`.
  static std::string report_as(uid_t user, gid_t group, const std::function<std::string()>& what) {
    Child child([&](Channel& parent) {
      if (::setgid(group) != 0 || ::setuid(user) != 0) return 1;
      parent.say(what());
      return 0;
    });
    return child.hear();
  }
  static std::string accepted_or_why(const Expected<RuntimeDirectory>& directory) {
    return directory ? "accepted" : directory.status().message;
  }
  static void expect_refused_with(const char* variable, const std::string& value, const std::string& words) {
    ::setenv(variable, value.c_str(), 1);
    auto directory = RuntimeDirectory::from_environment();
    ::unsetenv(variable);
    ASSERT_FALSE(directory) << value;
    EXPECT_TRUE(has(directory.status(), words)) << directory.status().message;
  }

  ScratchDirectory scratch_;
};

TEST_F(Directory, a_valid_directory_is_accepted_with_its_absolute_path) {
  auto directory = RuntimeDirectory::from_environment();
  ASSERT_TRUE(directory) << directory.status().message;
  EXPECT_EQ(scratch_.path(), directory->path());
  EXPECT_TRUE(directory->open());
}

TEST_F(Directory, a_missing_directory_is_made_private_whatever_the_umask) {
  for (const mode_t mask : {0, 077, 0277, 0777}) {
    const std::string path = scratch_ / ("new" + std::to_string(mask));
    const mode_t before = ::umask(mask);
    auto directory = RuntimeDirectory::at(path);
    ::umask(before);
    ASSERT_TRUE(directory) << directory.status().message;
    EXPECT_EQ(0700U, mode_of(path));
  }
}

// Immediately after the directory is created, a process that may write to its parent directory replaces it with a link
// to another of our directories.
TEST_F(Directory, while_it_is_created_no_other_directory_gets_its_mode) {
  const std::string other = scratch_ / "other";
  const std::string path = scratch_ / "new";
  const std::string link = scratch_ / "link";
  ASSERT_EQ(0, ::mkdir(other.c_str(), 0700));
  ASSERT_EQ(0, ::chmod(other.c_str(), 0500));
  ASSERT_EQ(0, ::symlink(other.c_str(), link.c_str()));
  std::atomic<bool> done = false;
  std::thread attacker([&] {
    while (!done) {
      if (::renameat2(AT_FDCWD, link.c_str(), AT_FDCWD, path.c_str(), RENAME_EXCHANGE) != 0) continue;
      while (!done && exists(path)) std::this_thread::yield();
    }
  });
  const mode_t before = ::umask(0277);
  const std::uint64_t end = platform::monotonic_ns() + 300 * kNsPerMs;
  while (platform::monotonic_ns() < end && mode_of(other) == 0500) {
    static_cast<void>(RuntimeDirectory::at(path));
    for (const std::string& name : {path, link}) {
      if (::rmdir(name.c_str()) != 0) ::unlink(name.c_str());
    }
    ::symlink(other.c_str(), link.c_str());
  }
  done = true;
  attacker.join();
  ::umask(before);
  EXPECT_EQ(0500U, mode_of(other));
}

TEST_F(Directory, its_name_may_contain_the_number_of_the_layout) {
  const std::string number = std::to_string(kLayoutVersion);
  ::setenv("HOLDFAST_DIR", (scratch_ / "of-@layout@-@layout@@").c_str(), 1);
  auto directory = RuntimeDirectory::from_environment();
  ::setenv("HOLDFAST_DIR", scratch_.path().c_str(), 1);
  ASSERT_TRUE(directory) << directory.status().message;
  EXPECT_EQ(scratch_ / ("of-" + number + "-" + number + "@"), directory->path());
  EXPECT_TRUE(exists(directory->path()));
}

TEST_F(Directory, the_default_is_named_after_the_user) {
  const std::string expected = "/dev/shm/holdfast-" + std::to_string(::geteuid());
  const bool was_there = exists(expected);
  in_process([&expected] {
    ::unsetenv("HOLDFAST_DIR");
    auto directory = RuntimeDirectory::from_environment();
    ASSERT_TRUE(directory) << directory.status().message;
    EXPECT_EQ(directory->path(), expected);
  });
  if (!was_there) ::rmdir(expected.c_str());
}

TEST_F(Directory, a_relative_path_and_slashes_at_the_end_mean_the_same_directory) {
  in_process([this] {
    for (const char* path : {"w", "w/", "w/.", "./w//"}) {
      ASSERT_EQ(::chdir(scratch_.path().c_str()), 0);
      auto directory = RuntimeDirectory::at(path);
      ASSERT_EQ(::chdir("/"), 0);
      ASSERT_TRUE(directory && directory->open()) << path;
    }
    ASSERT_EQ(::chdir(scratch_.path().c_str()), 0);
    EXPECT_EQ(RuntimeDirectory::at("w//")->path(), scratch_ / "w");
  });
}

TEST_F(Directory, anything_but_a_directory_on_tmpfs_is_refused) {
  ASSERT_EQ(0, ::mkdir((scratch_ / "real").c_str(), 0700));
  ASSERT_EQ(0, ::symlink((scratch_ / "real").c_str(), (scratch_ / "link").c_str()));
  ASSERT_EQ(0, ::symlink((scratch_ / "nowhere").c_str(), (scratch_ / "dangling").c_str()));
  std::ofstream(scratch_ / "file").put('x');
  const struct {
    std::string path;
    const char* reason;
  } cases[] = {{scratch_ / "link", "symbolic link"},
               {scratch_ / "link/", "symbolic link"},
               {scratch_ / "link//", "symbolic link"},
               {scratch_ / "link/.", "symbolic link"},
               {scratch_ / "dangling", "symbolic link"},
               {scratch_ / "file", "is not a directory"},
               {scratch_ / "no/such", "parent directory does not exist"},
               {"/proc/x", "is not on tmpfs"}};
  for (const auto& [path, reason] : cases) {
    const Status status = refusal(path);
    EXPECT_TRUE(has(status, reason)) << status.message;
    if (has(status, "link")) {
      EXPECT_EQ(Code::permission, status.code);
    }
  }
  EXPECT_FALSE(exists(scratch_ / "nowhere"));
}

TEST_F(Directory, a_directory_that_others_may_enter_is_refused_with_its_mode) {
  for (const mode_t mode : {0770, 0720, 0701, 0777, 01777}) {
    ASSERT_EQ(0, ::chmod(scratch_.path().c_str(), mode));
    const Status status = refusal(scratch_.path());
    EXPECT_EQ(Code::permission, status.code);
    EXPECT_TRUE(has(status, "expected 0700")) << status.message;
    // A sticky directory is meant for all users, and a directory that a group may enter is meant for that group.
    const bool is_of_group = (mode & 07) == 0;
    const bool may_close = (mode & S_ISVTX) == 0 && !is_of_group;
    EXPECT_EQ(is_of_group, has(status, "set HOLDFAST_SHARE=group")) << status.message;
    EXPECT_EQ(may_close, has(status, "chmod 700 " + scratch_.path() + ", or choose another")) << status.message;
  }
  ::chmod(scratch_.path().c_str(), 0700);
}

TEST_F(Directory, no_message_advises_changing_the_mode_of_a_directory_with_other_files) {
  ASSERT_EQ(0, ::chmod(scratch_.path().c_str(), 0755));
  for (const char* const ours : {"processes", "jobs.dict", "names-07", ".new-1", "hold-0000000000000001",
                                 "use-4000000000000001-0000000000000002", ".agent-main", ".store-main"})
    std::ofstream(scratch_ / ours).put('x');
  EXPECT_TRUE(has(refusal(scratch_.path()), "chmod 700 " + scratch_.path()));
  std::ofstream(scratch_ / "notes").put('x');
  const Status status = refusal(scratch_.path());
  EXPECT_FALSE(has(status, "chmod")) << status.message;
  EXPECT_TRUE(has(status, "; choose another one: export HOLDFAST_DIR=")) << status.message;
  const Status shared = RuntimeDirectory::at(scratch_.path(), RuntimeDirectory::Sharing::group).status();
  EXPECT_FALSE(has(shared, "chmod")) << shared.message;
  EXPECT_TRUE(has(shared, "HOLDFAST_SHARE=group; choose another one")) << shared.message;
  ::chmod(scratch_.path().c_str(), 0700);
}

TEST_F(Directory, a_directory_on_a_disk_is_refused_with_a_hint) {
  std::string path = std::filesystem::temp_directory_path() / "hf-test-XXXXXX";
  ASSERT_NE(nullptr, ::mkdtemp(path.data()));
  auto directory = RuntimeDirectory::at(path);
  const auto made_in_vain = RuntimeDirectory::at(path + "/new");
  EXPECT_FALSE(std::filesystem::exists(path + "/new") && !made_in_vain) << "the unused directory was not removed";
  std::filesystem::remove_all(path);
  if (directory) GTEST_SKIP() << "the directory for temporary files is on tmpfs here";
  EXPECT_TRUE(has(directory.status(), "not on tmpfs")) << directory.status().message;
  EXPECT_TRUE(has(directory.status(), "/dev/shm")) << directory.status().message;
}

TEST_F(Directory, a_directory_of_another_user_is_refused_with_both_numbers) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a directory away";
  ASSERT_EQ(0, ::chown(scratch_.path().c_str(), 12345, 12345));
  const Status status = refusal(scratch_.path());
  EXPECT_EQ(Code::permission, status.code);
  EXPECT_TRUE(has(status, "owned by uid 12345, expected 0")) << status.message;
  EXPECT_FALSE(has(status, "HOLDFAST_SHARE")) << status.message;
  EXPECT_FALSE(has(status, "remove")) << "root would remove it: " << status.message;
  EXPECT_TRUE(has(status, "holdfast lock --user 12345")) << status.message;
  EXPECT_TRUE(has(status, "export HOLDFAST_DIR=/")) << status.message;
}

// Another user's directory has this user's default name. A rootless container may cause this situation by accident.
TEST_F(Directory, a_user_whose_default_directory_is_taken_is_told_its_owner_and_gets_no_other_world) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can act as two users";
  constexpr uid_t kUser = 54001;
  constexpr uid_t kSquatter = 54002;
  const std::string taken = "/dev/shm/holdfast-" + std::to_string(kUser);
  ASSERT_EQ(0, ::mkdir(taken.c_str(), 0700));
  ASSERT_EQ(0, ::chown(taken.c_str(), kSquatter, kSquatter));
  const std::string session = scratch_ / "session";
  ASSERT_EQ(0, ::mkdir(session.c_str(), 0700));
  ASSERT_EQ(0, ::chown(session.c_str(), kUser, kUser));
  ASSERT_EQ(0, ::chmod(scratch_.path().c_str(), 0711));
  for (const bool has_session : {true, false}) {
    const std::string said = report_as(kUser, kUser, [&] {
      ::unsetenv("HOLDFAST_DIR");
      has_session ? ::setenv("XDG_RUNTIME_DIR", session.c_str(), 1) : ::unsetenv("XDG_RUNTIME_DIR");
      return accepted_or_why(RuntimeDirectory::from_environment());
    });
    EXPECT_NE(std::string::npos, said.find(taken + " is owned by uid 54002, expected 54001")) << said;
    EXPECT_NE(std::string::npos, said.find("ask that user to remove it")) << said;
    const std::string place = has_session ? session + "/holdfast" : "/dev/shm/ANOTHER_NAME";
    EXPECT_NE(std::string::npos, said.find("export HOLDFAST_DIR=" + place)) << said;
    EXPECT_FALSE(exists(session + "/holdfast"));
  }
  ::rmdir(taken.c_str());
}

TEST_F(Directory, no_message_advises_removing_a_directory_without_a_default_name) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  for (const char* const path : {"/", "/tmp", "/dev/shm", "/dev/null"}) {
    const std::string said = report_as(54001, 54001, [&] { return refusal(path).message; });
    EXPECT_NE(std::string::npos, said.find("choose another one")) << said;
    EXPECT_EQ(std::string::npos, said.find("remove")) << said;
  }
}

TEST_F(Directory, sharing_accepts_directories_of_root_of_this_user_and_of_a_named_owner) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a directory away";
  constexpr gid_t kGroup = 54321;
  const auto as_member = [&](uid_t user, std::optional<uid_t> named) {
    return report_as(user, kGroup,
                     [&] { return accepted_or_why(RuntimeDirectory::at(scratch_.path(), Sharing::group, named)); });
  };
  ASSERT_EQ(0, ::chmod(scratch_.path().c_str(), 0770));
  ASSERT_EQ(0, ::chown(scratch_.path().c_str(), 0, kGroup));
  EXPECT_EQ("accepted", as_member(12345, std::nullopt));
  ASSERT_EQ(0, ::chown(scratch_.path().c_str(), 12345, kGroup));
  EXPECT_EQ("accepted", as_member(12345, std::nullopt));
  EXPECT_EQ("accepted", as_member(20001, 12345));
  const std::string nobody_named = as_member(20001, std::nullopt);
  EXPECT_NE(std::string::npos, nobody_named.find("is owned by uid 12345; with HOLDFAST_SHARE=group its owner must be"));
  const std::string another_named = as_member(20001, 20002);
  EXPECT_NE(std::string::npos, another_named.find("or uid 20002 (HOLDFAST_OWNER)")) << another_named;
}

// The user follows the documented steps, but an outsider created the directory first. Its mode and group are right, but
// its owner is wrong.
TEST_F(Directory, sharing_refuses_a_directory_that_an_outsider_made_first_even_to_root) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a directory away";
  ASSERT_EQ(0, ::chown(scratch_.path().c_str(), 12345, ::getegid()));
  ASSERT_EQ(0, ::chmod(scratch_.path().c_str(), 0770));
  const Status status = refusal(scratch_.path(), Sharing::group);
  EXPECT_EQ(Code::permission, status.code);
  EXPECT_TRUE(has(status, "is owned by uid 12345;")) << status.message;
  EXPECT_TRUE(has(status, "HOLDFAST_OWNER")) << status.message;
}

TEST_F(Directory, sharing_refuses_a_foreign_group_and_writers_from_outside) {
  ASSERT_EQ(0, ::chmod(scratch_.path().c_str(), 0772));
  EXPECT_TRUE(has(refusal(scratch_.path(), Sharing::group), "at most 0770"));
  ASSERT_EQ(0, ::chmod(scratch_.path().c_str(), 01770));
  EXPECT_TRUE(has(refusal(scratch_.path(), Sharing::group), "at most 0770"))
      << "everybody could remove the group's files";
  ASSERT_EQ(0, ::chmod(scratch_.path().c_str(), 0770));
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a directory to a foreign group";
  ASSERT_EQ(0, ::chown(scratch_.path().c_str(), 12345, 54321));
  const std::string said =
      report_as(12345, 12345, [&] { return accepted_or_why(RuntimeDirectory::at(scratch_.path(), Sharing::group)); });
  EXPECT_NE(std::string::npos, said.find("belongs to group 54321")) << said;
}

TEST_F(Directory, sharing_admits_root_to_the_group_that_a_trusted_owner_has_chosen) {
  if (::geteuid() != 0) GTEST_SKIP() << "this user is not root";
  ASSERT_EQ(0, ::chmod(scratch_.path().c_str(), 0770));
  for (const uid_t owner : {0U, 12345U}) {
    ASSERT_EQ(0, ::chown(scratch_.path().c_str(), owner, 54321));
    auto directory = RuntimeDirectory::at(scratch_.path(), Sharing::group, 12345);
    ASSERT_TRUE(directory) << directory.status().message;
    EXPECT_EQ(54321U, directory->group());
  }
}

TEST_F(Directory, invalid_settings_in_the_environment_are_refused) {
  for (const std::string name : {"root", "-1", "1x", "4294967295", "4294967296", " 1"})
    expect_refused_with("HOLDFAST_OWNER", name, "bad HOLDFAST_OWNER \"" + name + "\": expected a user id");
  expect_refused_with("HOLDFAST_OWNER", "12345", "is set without HOLDFAST_SHARE=group");
  expect_refused_with("HOLDFAST_SHARE", "everybody", "bad HOLDFAST_SHARE \"everybody\"");
}

TEST_F(Directory, a_directory_that_is_to_be_shared_is_not_created_for_this_user_alone) {
  const std::string path = scratch_ / "shared";
  const Status status = refusal(path, Sharing::group);
  EXPECT_EQ(Code::not_found, status.code);
  EXPECT_TRUE(has(status, "create it first: mkdir -m 0700 " + path)) << status.message;
  EXPECT_FALSE(exists(path));
}

TEST_F(Directory, the_named_owner_is_taken_from_the_environment) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a directory away";
  ASSERT_EQ(0, ::chown(scratch_.path().c_str(), 12345, 12345));
  ::setenv("HOLDFAST_SHARE", "group", 1);
  ::setenv("HOLDFAST_OWNER", "12345", 1);
  auto directory = RuntimeDirectory::from_environment();
  ::unsetenv("HOLDFAST_SHARE");
  ::unsetenv("HOLDFAST_OWNER");
  EXPECT_TRUE(directory) << directory.status().message;
}

TEST_F(Directory, a_process_that_has_become_another_user_is_told_what_to_do) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  auto directory = RuntimeDirectory::at(scratch_.path());
  ASSERT_TRUE(directory) << directory.status().message;
  const std::string said = report_as(12345, 12345, [&] { return refusal_to_open(*directory).message; });
  EXPECT_NE(std::string::npos, said.find("as uid 0, but uid 12345")) << said;
  EXPECT_NE(std::string::npos, said.find("init_worker_by_lua")) << said;
}

TEST_F(Directory, a_directory_that_was_removed_and_recreated_is_detected) {
  const std::string path = scratch_ / "w";
  auto directory = RuntimeDirectory::at(path);
  ASSERT_TRUE(directory);
  // The old directory still exists under a different name, so that the file system cannot reuse its inode.
  ASSERT_EQ(0, ::rename(path.c_str(), (scratch_ / "old").c_str()));
  ASSERT_EQ(0, ::mkdir(path.c_str(), 0700));
  const Status status = refusal_to_open(*directory);
  EXPECT_TRUE(has(status, "removed and created again")) << status.message;
}

TEST_F(Directory, a_visit_opens_the_directory_once_and_notices_that_the_host_closed_the_descriptor) {
  auto directory = RuntimeDirectory::at(scratch_.path());
  ASSERT_TRUE(directory) << directory.status().message;
  platform::FileId expected;
  ASSERT_EQ(0, platform::file_id(directory->open()->get(), expected));
  const platform::FileDescriptor anchor(::open((scratch_ / "a").c_str(), O_CREAT | O_WRONLY, 0600));
  platform::FileId id;
  ASSERT_EQ(0, platform::file_id(anchor.get(), id));
  for (const bool is_anchored : {false, true}) {
    if (is_anchored) directory->anchor("a", id, WorldId{}, nullptr, nullptr);
    const RuntimeDirectory::Visit visit(*directory);
    const RuntimeDirectory::Visit within(*directory);
    const int fd = directory->open()->get();
    EXPECT_EQ(fd, directory->open()->get());
    const int root = ::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ASSERT_EQ(fd, ::dup3(root, fd, O_CLOEXEC));
    ::close(root);
    EXPECT_TRUE(platform::is_file(directory->open()->get(), expected));
    EXPECT_TRUE(platform::is_file(directory->open_as_it_is()->get(), expected));
  }
  EXPECT_TRUE(directory->open());
}

TEST_F(Directory, a_directory_that_lost_its_anchor_is_detected) {
  auto directory = RuntimeDirectory::at(scratch_.path());
  ASSERT_TRUE(directory);
  platform::FileDescriptor file(::open((scratch_ / "a").c_str(), O_CREAT | O_WRONLY, 0600));
  platform::FileId id;
  ASSERT_EQ(0, platform::file_id(file.get(), id));
  directory->anchor("a", id, WorldId{}, nullptr, nullptr);
  EXPECT_TRUE(directory->open());
  const RuntimeDirectory::Visit visit(*directory);
  EXPECT_TRUE(directory->open());
  ASSERT_EQ(0, ::unlink((scratch_ / "a").c_str()));
  const Status status = refusal_to_open(*directory);
  EXPECT_TRUE(has(status, "removed or replaced")) << status.message;
}

TEST_F(Directory, it_is_found_again_after_all_descriptors_were_closed) {
  Child child([](Channel& parent) {
    auto directory = RuntimeDirectory::from_environment();
    for (int fd = 3; fd < 64; ++fd) {
      if (fd != parent.read_fd() && fd != parent.write_fd()) ::close(fd);
    }
    parent.say(directory && directory->open() ? "found" : "lost");
    return 0;
  });
  EXPECT_EQ(child.hear(), "found");
}

}  // namespace
}  // namespace holdfast::test
