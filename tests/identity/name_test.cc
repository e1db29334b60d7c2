// Tests dictionaries whose files are deleted, moved or replaced by hand while processes use them. Until these processes
// have ended, new processes are refused, so that a lock never has two holders. A dictionary that was removed with
// holdfast_remove blocks no new process.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "identity/participant.h"
#include "support/started.h"
#include "world/name_file.h"

namespace holdfast::test {
namespace {

constexpr const char* kRefusal = "was deleted, moved or replaced, but processes still use it";

class IdentityName : public testing::TestWithParam<bool> {
 protected:
  static int take_part(Channel& parent) { return obey(parent, {.persist = GetParam()}); }
  static int remove_and_take_part(Channel& parent) {
    holdfast_remove("dict", 4);
    return take_part(parent);
  }
  void SetUp() override {
    ASSERT_EQ(holder_.hear(), "ready");
    ASSERT_EQ(holder_.ask("lock"), "ok");
  }
  /// Expects that another process gets the lock only after the holder has ended.
  void expect_one_holder() {
    expect_refused(take_part, kRefusal);
    EXPECT_EQ(holder_.ask("held"), "yes");
    holder_.kill_and_wait();
    Started next("ready", take_part);
    EXPECT_EQ(next.ask("lock"), "ok");
  }

  std::vector<std::string> files_of_names() const {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(directory_.path()))
      if (is_name_file(entry.path().filename().string())) files.push_back(entry.path());
    return files;
  }
  /// Returns the file of names. There is only one, because there is one dictionary.
  std::string file_of_names() const { return files_of_names().at(0); }

  const ScratchDirectory directory_;
  const std::string file_ = directory_ / "dict.dict";
  Child holder_{take_part};
};

/// Tests the name of a persistent dictionary, which outlives its processes.
class IdentityPersistentName : public IdentityName {};

TEST_P(IdentityName, is_kept_for_the_users_of_a_deleted_file) {
  ASSERT_EQ(::unlink(file_.c_str()), 0);
  expect_one_holder();
}

TEST_P(IdentityName, is_kept_for_the_users_of_a_file_that_was_replaced_by_its_copy) {
  replace_by_copy(file_);
  expect_one_holder();
}

TEST_P(IdentityName, is_kept_for_the_users_of_a_file_that_was_replaced_by_another_dictionarys_file) {
  Started other("ok", [](Channel& parent) {
    Dict dict("other", {.persist = GetParam()});
    parent.say(in_words(dict.status));
    parent.hear();
    return 0;
  });
  ASSERT_EQ(::rename((directory_ / "other.dict").c_str(), file_.c_str()), 0);
  expect_one_holder();
}

TEST_P(IdentityName, is_kept_for_a_forked_child_that_inherited_the_file) {
  Child parent_process([](Channel& parent) {
    const Dict dict("dict", {.persist = GetParam()});
    const pid_t child = ::fork();
    while (child == 0) ::pause();
    parent.say(std::to_string(child));
    parent.hear();
    return 0;
  });
  const auto child = static_cast<pid_t>(std::stoi(parent_process.hear()));
  parent_process.kill_and_wait();
  holder_.kill_and_wait();
  ASSERT_EQ(::unlink(file_.c_str()), 0);
  expect_refused(take_part, kRefusal);
  ::kill(child, SIGKILL);
}

TEST_P(IdentityName, comes_back_with_the_file) {
  ASSERT_EQ(::rename(file_.c_str(), (directory_ / "away").c_str()), 0);
  expect_refused(take_part, kRefusal);
  ASSERT_EQ(::rename((directory_ / "away").c_str(), file_.c_str()), 0);
  Started newcomer("ready", take_part);
  EXPECT_EQ(newcomer.ask("lock"), "locked");
}

// The users' record locks are on the deleted file of names, where no other process can see them.
TEST_P(IdentityName, is_kept_for_the_users_of_a_deleted_file_even_without_the_file_of_names) {
  ASSERT_EQ(::unlink(file_.c_str()), 0);
  ASSERT_EQ(::unlink(file_of_names().c_str()), 0);
  expect_refused(take_part, "was deleted, moved or replaced, but processes still use this directory");
  EXPECT_EQ(holder_.ask("held"), "yes");
  holder_.kill_and_wait();
  Started next("ready", take_part);
  EXPECT_EQ(next.ask("lock"), "ok");
}

TEST_P(IdentityPersistentName, may_look_like_the_name_of_a_file_of_names) {
  const auto store = [](Channel& parent) {
    Dict dict("names-07", {.persist = true});
    const std::string before = dict.get("value").text;
    parent.say(in_words(dict.set("value", before + "x")) + " " + before);
    parent.hear();
    return 0;
  };
  holder_.kill_and_wait();
  Started("ok ", store).kill_and_wait();
  Started("ok x", store).kill_and_wait();
}

// A user may remove a dictionary to free memory, so the removal must not need memory itself.
TEST_P(IdentityPersistentName, can_be_removed_without_a_file_of_names) {
  const std::string names = file_of_names();
  holder_.kill_and_wait();
  ::unlink(names.c_str());
  Started remover("ok", [this](Channel& parent) {
    const std::string said = in_words(holdfast_remove("dict", 4));
    parent.say(files_of_names().empty() ? said : "made " + file_of_names());
    parent.hear();
    return 0;
  });
}

TEST_P(IdentityName, is_kept_although_the_file_of_names_was_replaced) {
  replace_by_copy(file_of_names());
  expect_refused(take_part, "names-");
  EXPECT_EQ(holder_.ask("held"), "yes");
}

TEST_P(IdentityName, is_kept_although_another_file_of_names_was_moved_there) {
  const std::string names = file_of_names();
  Started other("ready", [](Channel& parent) {
    std::vector<std::unique_ptr<Dict>> many;  // one of these names uses a different file of names
    for (int i = 0; i < 20; ++i) many.push_back(std::make_unique<Dict>("other" + std::to_string(i)));
    parent.say(in_words(many.back()->status) == "ok" ? "ready" : in_words(many.back()->status));
    parent.hear();
    return 0;
  });
  std::vector<std::string> others = files_of_names();
  std::erase(others, names);
  ASSERT_EQ(::rename(others.at(0).c_str(), names.c_str()), 0) << others[0];
  ASSERT_EQ(::unlink(file_.c_str()), 0);
  expect_refused(take_part, "names-");
  EXPECT_EQ(holder_.ask("held"), "yes");
}

TEST_P(IdentityName, is_free_after_a_removal_that_users_have_not_noticed) {
  for (int i = 0; i < 3; ++i) {
    Started remover("ok", [](Channel& parent) {
      parent.say(in_words(holdfast_remove("dict", 4)));
      return 0;
    });
    Started newcomer("ready", take_part);
    EXPECT_EQ(newcomer.ask("lock"), "ok");
  }
  EXPECT_EQ(holder_.ask("held"), "no");
}

TEST_P(IdentityName, is_free_however_many_users_of_removed_files_remain) {
  std::vector<std::unique_ptr<Child>> idle;
  for (int i = 0; i < 100; ++i) {
    idle.push_back(std::make_unique<Child>(remove_and_take_part));
    ASSERT_EQ(idle.back()->hear(), "ready") << i;
  }
}

// The mark that a removal leaves must not apply to the next file.
TEST_P(IdentityName, is_kept_for_the_users_of_a_deleted_file_that_followed_a_removed_one) {
  Started second("ready", remove_and_take_part);
  ASSERT_EQ(second.ask("lock"), "ok");
  ASSERT_EQ(::unlink(file_.c_str()), 0);
  expect_refused(take_part, kRefusal);
  EXPECT_EQ(second.ask("held"), "yes");
}

TEST_P(IdentityName, is_refused_to_a_process_with_the_removed_file_that_opens_its_successor_late) {
  // The holder's file is removed, and then its successor is deleted while it is in use. From now on, the holder counts
  // as a new process.
  Started second("ready", remove_and_take_part);
  ASSERT_EQ(second.ask("lock"), "ok");
  ASSERT_EQ(::unlink(file_.c_str()), 0);
  EXPECT_EQ(holder_.ask("held"), "no");
  EXPECT_NE(holder_.ask("lock"), "ok");
  EXPECT_EQ(second.ask("held"), "yes");
}

INSTANTIATE_TEST_SUITE_P(, IdentityPersistentName, testing::Values(true));
INSTANTIATE_TEST_SUITE_P(, IdentityName, testing::Bool(),
                         [](const auto& persist) { return std::string(persist.param ? "persistent" : "plain"); });

}  // namespace
}  // namespace holdfast::test
