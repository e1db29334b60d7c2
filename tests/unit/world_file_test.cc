#include "world/world_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <filesystem>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "support/directory_test.h"

namespace holdfast::test {
namespace {

using platform::FileDescriptor;
using platform::Mapping;

constexpr std::uint64_t kSize = kHeaderBytes + 8192;

bool has(const Status& status, const std::string& words) { return status.message.find(words) != std::string::npos; }

NewFile plain_file(std::uint32_t mode = 0600) {
  return {.kind = FileKind::dictionary, .size = kSize, .persist = false, .mode = mode};
}

int bind_socket_to(const std::string& path) {
  const FileDescriptor fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  return ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
}

class WorldFile : public DirectoryTest {
 protected:
  Expected<Mapping> create(std::uint32_t mode = 0600) {
    return create_world_file(directory_, kName, plain_file(mode), nothing);
  }
  Expected<OpenedFile> open() { return open_world_file(directory_, kName, FileKind::dictionary); }

  /// Expects that opening the file fails with this code and a message with these words.
  void expect_refusal(Code code, const std::string& words) {
    auto file = open();
    ASSERT_FALSE(file) << "was accepted, expected: " << words;
    EXPECT_EQ(code, file.status().code) << file.status().message;
    EXPECT_TRUE(has(file.status(), words)) << file.status().message;
    EXPECT_TRUE(has(file.status(), scratch_.path())) << "the message does not name the file: " << file.status().message;
  }

  void write_file(const std::string& bytes) {
    const FileDescriptor fd(::open(path().c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600));
    ASSERT_EQ(static_cast<ssize_t>(bytes.size()), ::write(fd.get(), bytes.data(), bytes.size()));
  }
  std::size_t names_in_directory() const {
    const std::filesystem::directory_iterator all(scratch_.path());
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
  }
};

// --- creation ----------------------------------------------------------------------------------------------

TEST_F(WorldFile, a_new_file_is_zero_except_for_its_header_and_its_initial_content) {
  auto created = create_world_file(directory_, kName, plain_file(),
                                   [](std::byte* base) { base[kHeaderBytes + 5] = std::byte{42}; });
  ASSERT_TRUE(created) << created.status().message;
  auto file = open();
  ASSERT_TRUE(file) << file.status().message;
  EXPECT_EQ(kMagic, file->header().magic);
  EXPECT_EQ(kSize, file->header().size);
  EXPECT_EQ(0U, file->header().persist);
  auto mapping = map_world_file(*file);
  ASSERT_TRUE(mapping) << mapping.status().message;
  EXPECT_EQ(kSize, mapping->size());
  EXPECT_EQ(created->file(), mapping->file());
  for (std::size_t i = sizeof(FileHeader); i < kSize; ++i) {
    ASSERT_EQ(i == kHeaderBytes + 5 ? std::byte{42} : std::byte{0}, mapping->data()[i]) << "at byte " << i;
  }
}

TEST_F(WorldFile, its_mode_is_exact_whatever_the_umask) {
  for (const mode_t mask : {0, 077, 0777}) {
    const mode_t before = ::umask(mask);
    auto created = create(0640);
    ::umask(before);
    ASSERT_TRUE(created) << created.status().message;
    struct stat info;
    ASSERT_EQ(0, ::stat(path().c_str(), &info));
    EXPECT_EQ(0640U, info.st_mode & 07777);
    EXPECT_TRUE(open());
    ASSERT_TRUE(retire_world_file(directory_, kName).ok());
  }
}

TEST_F(WorldFile, a_second_file_of_the_same_name_is_refused_and_the_first_stays) {
  for (const Birth birth : {Birth::unnamed, Birth::temporary_name}) {
    auto first = create_world_file_by(birth, directory_, kName, plain_file(), nothing);
    ASSERT_TRUE(first) << first.status().message;
    auto second = create_world_file_by(birth, directory_, kName, plain_file(), nothing);
    ASSERT_FALSE(second);
    EXPECT_EQ(Code::exists, second.status().code);
    EXPECT_TRUE(is_current_file(directory_, kName, first->file()));
    EXPECT_EQ(1U, names_in_directory());
    ASSERT_TRUE(retire_world_file(directory_, kName).ok());
  }
}

TEST_F(WorldFile, of_many_concurrent_creators_one_wins_and_the_others_attach_to_its_file) {
  constexpr int kProcesses = 8;
  for (const Birth birth : {Birth::unnamed, Birth::temporary_name}) {
    std::vector<std::unique_ptr<Child>> children;
    for (int i = 0; i < kProcesses; ++i) {
      children.push_back(std::make_unique<Child>([&](Channel& parent) {
        parent.say("ready");
        parent.hear();
        const auto mark = static_cast<std::byte>(::getpid() & 0x7F);
        auto created = create_world_file_by(birth, directory_, kName, plain_file(),
                                            [&](std::byte* base) { base[kHeaderBytes] = mark; });
        if (!created && created.status().code != Code::exists) return 1;
        auto file = open();
        if (!file) return 2;
        auto mapping = map_world_file(*file);
        parent.say((created ? "won " : "lost ") + std::to_string(static_cast<int>(mapping->data()[kHeaderBytes])));
        return 0;
      }));
    }
    for (auto& child : children) ASSERT_EQ("ready", child->hear());
    for (auto& child : children) child->say("go");
    int winners = 0;
    std::optional<std::string> mark;
    for (auto& child : children) {
      const std::string line = child->hear();
      winners += line.starts_with("won ") ? 1 : 0;
      const std::string seen = line.substr(line.find(' ') + 1);
      EXPECT_EQ(mark.value_or(seen), seen);
      mark = seen;
      EXPECT_EQ(0, child->wait());
    }
    EXPECT_EQ(1, winners);
    EXPECT_EQ(1U, names_in_directory());
    ASSERT_TRUE(retire_world_file(directory_, kName).ok());
  }
}

TEST_F(WorldFile, a_creator_that_is_killed_leaves_no_name) {
  Child child([&](Channel& parent) {
    auto created = create_world_file(directory_, kName, plain_file(), [&](std::byte*) {
      parent.say("initialising");
      parent.hear();
    });
    return created ? 0 : 1;
  });
  EXPECT_EQ(child.hear(), "initialising");
  child.kill_and_wait();
  EXPECT_EQ(0U, names_in_directory());
}

TEST_F(WorldFile, a_size_too_large_for_the_file_system_is_refused_with_the_free_space) {
  NewFile huge = plain_file();
  huge.size = std::uint64_t{1} << 45;
  auto created = create_world_file(directory_, kName, huge, nothing);
  ASSERT_FALSE(created);
  EXPECT_EQ(Code::no_memory, created.status().code);
  EXPECT_TRUE(has(created.status(), "needs 35184372088832 bytes, ")) << created.status().message;
  EXPECT_TRUE(has(created.status(), " bytes are free in ")) << created.status().message;
  EXPECT_EQ(0U, names_in_directory());
}

TEST_F(WorldFile, a_full_tmpfs_is_an_error_at_creation_and_leaves_nothing) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can mount a small tmpfs";
  const std::string small = scratch_ / "small";
  ASSERT_EQ(0, ::mkdir(small.c_str(), 0700));
  if (::mount("tmpfs", small.c_str(), "tmpfs", 0, "size=64k,mode=0700") != 0) GTEST_SKIP() << "mount is not permitted";
  {
    auto directory = RuntimeDirectory::at(small);
    ASSERT_TRUE(directory) << directory.status().message;
    struct statvfs before;
    ::statvfs(small.c_str(), &before);
    NewFile file = plain_file();
    file.size = 128 << 10;
    auto refused = create_world_file(*directory, kName, file, nothing);
    EXPECT_FALSE(refused);
    if (!refused) {
      EXPECT_EQ(Code::no_memory, refused.status().code) << refused.status().message;
    }
    // Two files of 48k do not fit: the second finds 16k free.
    file.size = 48 << 10;
    EXPECT_TRUE(create_world_file(*directory, "fits.dict", file, nothing));
    auto second = create_world_file(*directory, kName, file, nothing);
    EXPECT_FALSE(second);
    if (!second) {
      EXPECT_TRUE(has(second.status(), "needs 49152 bytes, but only 16384 bytes are free")) << second.status().message;
    }
    EXPECT_TRUE(retire_world_file(*directory, "fits.dict").ok());
    struct statvfs after;
    ::statvfs(small.c_str(), &after);
    EXPECT_EQ(before.f_bfree, after.f_bfree) << "the refused file kept its memory";
  }
  ::umount2(small.c_str(), MNT_DETACH);
}

TEST_F(WorldFile, the_processs_file_size_limit_causes_an_error_and_no_signal) {
  in_process([this] {
    const rlimit limit{.rlim_cur = 8192, .rlim_max = 8192};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const auto created = create();
    ASSERT_FALSE(created);
    EXPECT_TRUE(has(created.status(), "at most 8192 bytes (ulimit -f)")) << created.status().message;
  });
}

// --- checks -------------------------------------------------------------------------------------------------

TEST_F(WorldFile, files_that_others_own_or_may_write_are_refused) {
  const std::string other = scratch_ / "other";
  const std::string name = path();
  const char* const at = name.c_str();
  const struct {
    std::function<int()> make;
    const char* words;
  } cases[] = {
      {[&] { return ::rename(at, other.c_str()) + ::symlink("other", at); }, "is a symbolic link"},
      {[&] { return ::unlink(at) + ::mkfifo(at, 0600); }, "is not a regular file"},
      {[&] { return ::unlink(at) + ::mkdir(at, 0700); }, "is not a regular file"},
      {[&] { return ::unlink(at) + bind_socket_to(name); }, "is not a regular file"},
      {[&] { return ::link(at, other.c_str()); }, "has 2 names (hard links), expected 1"},
      {[&] { return ::chmod(at, 0660); }, "has mode 0660, but it was created with 0600"},
      {[&] { return ::chmod(at, 0602); }, "has mode 0602"},
      {[&] { return ::chown(at, 12345, 12345); }, "is owned by uid 12345, expected 0"},
  };
  for (const auto& [make, words] : cases) {
    if (::geteuid() != 0 && std::string(words).starts_with("is owned")) continue;  // only root can give a file away
    ASSERT_TRUE(create());
    ASSERT_EQ(make(), 0) << words;
    expect_refusal(Code::permission, words);
    std::filesystem::remove(at);
    std::filesystem::remove(other);
  }
}

TEST_F(WorldFile, random_bytes_are_refused) {
  const auto seed = static_cast<unsigned>(std::random_device{}());
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 50; ++round) {
    std::string bytes(kSize, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    write_file(bytes);
    struct stat before;
    ASSERT_EQ(0, ::stat(path().c_str(), &before));
    expect_refusal(Code::corrupt, "is not a holdfast file");
    struct stat after;
    ASSERT_EQ(0, ::stat(path().c_str(), &after));
    EXPECT_EQ(before.st_ino, after.st_ino);
    EXPECT_EQ(0, std::memcmp(&before.st_mtim, &after.st_mtim, sizeof before.st_mtim));
  }
}

TEST_F(WorldFile, a_truncated_file_is_refused_with_both_sizes) {
  ASSERT_TRUE(create());
  ASSERT_EQ(0, ::truncate(path().c_str(), kSize - 1));
  expect_refusal(Code::corrupt, "has 12287 bytes, but was created with 12288; stop the processes");
  ASSERT_EQ(0, ::truncate(path().c_str(), 100));
  expect_refusal(Code::corrupt, "it has 100 bytes, but its header alone needs 4096");
  ASSERT_EQ(0, ::truncate(path().c_str(), 0));
  expect_refusal(Code::corrupt, "it has 0 bytes");
}

TEST_F(WorldFile, a_kept_file_of_another_layout_is_replaced_once_no_process_has_it) {
  ASSERT_TRUE(create());
  overwrite(offsetof(FileHeader, persist), std::uint32_t{kKept});
  overwrite(offsetof(FileHeader, layout), kLayoutVersion + 1);
  expect_refusal(Code::not_found, "there is no ");
  EXPECT_FALSE(exists(path()));
}

TEST_F(WorldFile, a_persistent_file_of_an_older_or_newer_layout_is_refused_with_both_numbers) {
  ASSERT_TRUE(create());
  overwrite(offsetof(FileHeader, persist), std::uint32_t{1});
  const std::string ours =
      ", but this library uses " + std::to_string(kLayoutVersion) + "; stop the processes that use it and remove it";
  for (const std::uint32_t other : {kLayoutVersion - 1, kLayoutVersion + 1}) {
    overwrite(offsetof(FileHeader, layout), other);
    expect_refusal(Code::corrupt, "has layout version " + std::to_string(other) + ours);
  }
}

TEST_F(WorldFile, a_file_of_another_layout_is_refused_while_in_use_and_replaced_afterwards) {
  ASSERT_TRUE(create());
  overwrite(offsetof(FileHeader, layout), kLayoutVersion - 1);
  Started user("locked", [this](Channel& channel) {
    const FileDescriptor fd(::open(path().c_str(), O_RDWR));
    channel.say(platform::try_record_lock(fd.get(), 7) == 0 ? "locked" : "failed");
    channel.hear();
    return 0;
  });
  expect_refusal(Code::corrupt, "; stop the processes that use it");
  user.say("leave");
  ASSERT_EQ(0, user.wait());
  expect_refusal(Code::not_found, "there is no ");
  EXPECT_FALSE(exists(path()));
}

TEST_F(WorldFile, a_file_of_another_kind_is_refused) {
  ASSERT_TRUE(create());
  auto file = open_world_file(directory_, kName, FileKind::processes);
  ASSERT_FALSE(file);
  EXPECT_TRUE(has(file.status(), "is a dictionary, expected a process table")) << file.status().message;
  overwrite(offsetof(FileHeader, kind), std::uint32_t{77});
  expect_refusal(Code::corrupt, "is of an unknown kind, expected a dictionary");
}

TEST_F(WorldFile, a_retirement_that_a_dead_process_left_incomplete_is_finished) {
  ASSERT_TRUE(create());
  overwrite(offsetof(FileHeader, retired), std::uint32_t{kRetiredByName});
  EXPECT_EQ(Code::not_found, open().status().code);
  EXPECT_FALSE(exists(path()));
}

// --- end -------------------------------------------------------------------------------------------------

TEST_F(WorldFile, retiring_marks_the_file_for_all_processes_that_have_it_mapped) {
  auto created = create();
  ASSERT_TRUE(created);
  const auto& header = *reinterpret_cast<FileHeader*>(created->data());
  EXPECT_EQ(0U, header.retired.load());
  EXPECT_TRUE(is_current_file(directory_, kName, created->file()));
  ASSERT_TRUE(retire_world_file(directory_, kName).ok());
  EXPECT_EQ(kRetiredByName, header.retired.load());
  EXPECT_FALSE(exists(path()));
  EXPECT_FALSE(is_current_file(directory_, kName, created->file()));
  EXPECT_EQ(Code::not_found, open().status().code);
  EXPECT_EQ(Code::not_found, retire_world_file(directory_, kName).code);
}

TEST_F(WorldFile, an_unreadable_file_is_removed_without_being_written_to) {
  ASSERT_TRUE(create());
  const std::string target = scratch_ / "target";
  ASSERT_EQ(0, ::rename(path().c_str(), target.c_str()));
  ASSERT_EQ(0, ::symlink("target", path().c_str()));
  ASSERT_TRUE(retire_world_file(directory_, kName).ok());
  EXPECT_FALSE(exists(path()));
  auto still_good = open_world_file(directory_, "target", FileKind::dictionary);
  ASSERT_TRUE(still_good) << still_good.status().message;
  EXPECT_EQ(0U, still_good->header().retired.load());

  write_file("rubbish");
  EXPECT_TRUE(retire_world_file(directory_, kName).ok());
  EXPECT_FALSE(exists(path()));
}

TEST_F(WorldFile, concurrent_retiring_and_creating_never_loses_a_new_file) {
  // No process may remove a file that is not marked as retired, however many processes are removing its predecessor.
  const auto work = [&](Channel&) {
    for (int own = 0; own < 50;) {
      auto created = create();
      if (!created) {
        if (created.status().code != Code::exists) return 1;
        static_cast<void>(open());  // finishes the removal of a retired file
        continue;
      }
      ++own;
      // This time is long enough for a process that waited for the directory's lock to continue with the result of an
      // outdated check.
      const std::uint64_t until = platform::monotonic_ns() + 2 * kNsPerMs;
      while (platform::monotonic_ns() < until) {
        if (!is_current_file(directory_, kName, created->file())) return 3;
        platform::yield();
      }
      auto& header = *reinterpret_cast<FileHeader*>(created->data());
      header.retired.store(
          kRetiredByName);  // as if this process died here. Other processes finish the removal when they open the file
      // Another process may have finished the removal and created a new file, which open() finds.
      if (auto opened = open(); !opened && opened.status().code != Code::not_found) return 2;
    }
    return 0;
  };
  std::vector<std::unique_ptr<Child>> children;
  for (int i = 0; i < 4; ++i) children.push_back(std::make_unique<Child>(work));
  for (auto& child : children) EXPECT_EQ(0, child->wait());
}

// --- sharing ---------------------------------------------------------------------------------------------

TEST_F(WorldFile, with_sharing_files_belong_to_the_group_and_any_owner_is_accepted) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can act as two users";
  constexpr gid_t kGroup = 54321;
  ASSERT_EQ(0, ::chown(scratch_.path().c_str(), 0, kGroup));
  ASSERT_EQ(0, ::chmod(scratch_.path().c_str(), 0770));
  const auto as_user = [&](uid_t user, const std::function<std::string(const RuntimeDirectory&)>& what) {
    Child child([&](Channel& parent) {
      if (::setgid(kGroup) != 0 || ::setuid(user) != 0) return 1;
      auto directory = RuntimeDirectory::at(scratch_.path(), RuntimeDirectory::Sharing::group);
      parent.say(directory ? what(*directory) : directory.status().message);
      return 0;
    });
    return child.hear();
  };
  EXPECT_EQ("created", as_user(20001, [](const RuntimeDirectory& directory) {
              auto created = create_world_file(directory, kName, plain_file(), nothing);
              return created ? std::string("created") : created.status().message;
            }));
  struct stat info;
  ASSERT_EQ(0, ::stat(path().c_str(), &info));
  EXPECT_EQ(20001U, info.st_uid);
  EXPECT_EQ(kGroup, info.st_gid);
  EXPECT_EQ(0660U, info.st_mode & 07777);
  EXPECT_EQ("opened", as_user(20002, [](const RuntimeDirectory& directory) {
              auto file = open_world_file(directory, kName, FileKind::dictionary);
              if (!file) return file.status().message;
              return map_world_file(*file) ? std::string("opened") : std::string("not mapped");
            }));
}

}  // namespace
}  // namespace holdfast::test
