// Tests which processes may use a dictionary's file. This depends on the file's world, and on who holds the file's
// lock.
#include "world/file_use.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "support/directory_test.h"
#include "world/boot.h"

namespace holdfast::test {
namespace {

using platform::FileDescriptor;
using platform::Mapping;

constexpr WorldId kOurs{.high = 1, .low = 2};
constexpr WorldId kOther{.high = 1, .low = 3};

NewFile plain_file(bool persist = false) {
  return {.kind = FileKind::dictionary, .size = kHeaderBytes + 8192, .persist = persist, .mode = 0600, .world = kOurs};
}

class FileUse : public DirectoryTest {
 protected:
  Expected<Mapping> create(bool persist = false) {
    return create_world_file(directory_, kName, plain_file(persist), nothing);
  }
  Expected<UsedFile> use(const WorldId& world) { return use_dictionary_file(directory_, kName, world); }
  /// Joins the file's users as a process does: maps the file, and keeps no descriptor.
  Mapping join(const WorldId& world) {
    const platform::ForkGuard no_fork;
    auto used = use(world);
    if (!used || used->adopting) return {};
    auto mapping = map_world_file(used->file);
    return mapping ? std::move(*mapping) : Mapping();
  }
  void expect_refusal(const WorldId& world) {
    auto used = use(world);
    ASSERT_FALSE(used);
    EXPECT_EQ(Code::mismatch, used.status().code) << used.status().message;
    EXPECT_NE(std::string::npos,
              used.status().message.find("used by processes that the file \"processes\" does not list"))
        << used.status().message;
    EXPECT_TRUE(exists(path()));
  }
};

TEST_F(FileUse, processes_of_its_world_join_and_a_mapping_shows_that_it_is_in_use) {
  auto created = create();
  ASSERT_TRUE(created);
  expect_refusal(kOther);  // its creator still has it mapped
  Mapping second = join(kOurs);
  ASSERT_TRUE(second);
  created->reset();
  expect_refusal(kOther);
  second.reset();
  EXPECT_EQ(Code::not_found, use(kOther).status().code);
}

TEST_F(FileUse, a_forked_child_uses_its_parents_file) {
  Child parent_process([this](Channel& parent) {
    const auto created = create();
    const pid_t child = ::fork();
    if (child == 0) {
      parent.hear();
      ::_exit(0);
    }
    parent.say(std::to_string(child));
    return 0;
  });
  const pid_t child = std::stoi(parent_process.hear());
  EXPECT_EQ(0, parent_process.wait());
  expect_refusal(kOther);
  ::kill(child, SIGKILL);
  EXPECT_TRUE(eventually([&] { return use(kOther).status().code == Code::not_found; }));
}

TEST_F(FileUse, another_world_retires_an_unused_file_unless_it_is_persistent) {
  Mapping mapping;
  {
    auto created = create();
    ASSERT_TRUE(created);
  }
  EXPECT_EQ(Code::not_found, use(kOther).status().code);
  EXPECT_FALSE(exists(path()));

  { ASSERT_TRUE(create(true)); }
  auto adopted = use(kOther);
  ASSERT_TRUE(adopted) << adopted.status().message;
  EXPECT_NE(nullptr, adopted->adopting);
}

TEST_F(FileUse, an_adopter_has_the_file_exclusively_and_others_join_afterwards) {
  { ASSERT_TRUE(create(true)); }
  auto adopted = use(kOther);
  ASSERT_TRUE(adopted && adopted->adopting);
  {
    // During the adoption, neither processes of the file's old world nor other processes of the new world can join.
    const FileDescriptor fd(::open(path().c_str(), O_RDWR));
    EXPECT_EQ(EAGAIN, platform::try_shared_record_lock(fd.get(), kUseLock));
  }
  auto mapping = map_world_file(adopted->file);
  ASSERT_TRUE(mapping);
  ASSERT_TRUE(finish_adoption(adopted->file, kOther).ok());
  adopted->file.fd.reset();
  EXPECT_TRUE(join(kOther));
  expect_refusal(kOurs);
}

TEST_F(FileUse, a_file_with_a_killed_adopter_is_adopted_by_the_next) {
  { ASSERT_TRUE(create(true)); }
  Started adopter("adopting", [this](Channel& parent) {
    auto adopted = use(kOther);
    parent.say(adopted && adopted->adopting ? "adopting" : "not so");
    parent.hear();
    return 0;
  });
  adopter.kill_and_wait();
  auto next = use(kOther);
  ASSERT_TRUE(next) << next.status().message;
  EXPECT_NE(nullptr, next->adopting);
}

TEST_F(FileUse, a_file_with_another_boot_id_is_adopted_and_one_of_another_time_namespace_is_refused) {
  { ASSERT_TRUE(create(true)); }
  overwrite(offsetof(FileHeader, time_namespace), std::uint64_t{1});
  EXPECT_EQ(Code::mismatch, use(kOther).status().code);
  EXPECT_TRUE(exists(path())) << "the file was removed, but its data may still be needed";
  overwrite(offsetof(FileHeader, time_namespace), time_namespace_now());
  overwrite(offsetof(FileHeader, boot), 'X');
  auto used = use(kOther);
  ASSERT_TRUE(used) << used.status().message;
  EXPECT_NE(nullptr, used->adopting) << "a container has its own boot id, but shares the host's memory";
}

TEST_F(FileUse, the_boot_id_of_this_worlds_file_does_not_matter) {
  const auto created = create();
  ASSERT_TRUE(created);
  overwrite(offsetof(FileHeader, boot), 'X');
  EXPECT_TRUE(join(kOurs));
}

TEST_F(FileUse, a_copy_does_not_count_as_the_original_file) {
  auto created = create(true);
  ASSERT_TRUE(created);
  const std::string copy = scratch_ / "copy";
  ASSERT_TRUE(std::filesystem::copy_file(path(), copy));
  ASSERT_EQ(0, ::rename(copy.c_str(), path().c_str()));
  auto used = use(kOurs);
  ASSERT_TRUE(used) << used.status().message;
  EXPECT_NE(nullptr, used->adopting) << "the processes that the copy lists use the original";
}

TEST_F(FileUse, a_sweep_removes_temporary_and_unfinished_files_and_nothing_else) {
  { ASSERT_TRUE(create()); }
  NewFile others = plain_file();
  others.world = kOther;
  const auto used_elsewhere = create_world_file(directory_, "used.dict", others, nothing);
  ASSERT_TRUE(used_elsewhere);
  NewFile kept = plain_file();
  kept.persist = true;
  ASSERT_TRUE(create_world_file(directory_, "kept.dict", kept, nothing));
  ASSERT_TRUE(create_world_file(directory_, "other", plain_file(), nothing));
  // A dictionary's file never has one of these names.
  const std::vector<std::string> strangers{"a:b.dict", "%61.dict", "%3a.dict", ".x.dict", ".dict"};
  for (const std::string& name : strangers) ASSERT_TRUE(create_world_file(directory_, name, plain_file(), nothing));
  ASSERT_TRUE(create_world_file(directory_, "%3A.dict", plain_file(), nothing));
  for (const char* name : {"rubbish.dict", ".new-0123"}) {
    FileDescriptor(::open((scratch_ / name).c_str(), O_CREAT | O_WRONLY, 0600));
  }
  EXPECT_TRUE(retire_unpersistent_files(directory_, kOurs).ok());
  EXPECT_FALSE(exists(path()));
  EXPECT_FALSE(exists(scratch_ / "%3A.dict"));
  for (const std::string& name : strangers) EXPECT_TRUE(exists(scratch_ / name)) << name;
  EXPECT_FALSE(exists(scratch_ / ".new-0123"));
  EXPECT_TRUE(exists(scratch_ / "kept.dict"));
  EXPECT_TRUE(exists(scratch_ / "used.dict")) << "processes of another world use this file";
  EXPECT_TRUE(exists(scratch_ / "other"));
  EXPECT_TRUE(exists(scratch_ / "rubbish.dict")) << "opening this file must report what is wrong with it";
}

}  // namespace
}  // namespace holdfast::test
