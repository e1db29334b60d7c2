// Tests how the command reads dictionaries that are removed or damaged during the read.
#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "inspect/dictionaries.h"
#include "inspect/health.h"
#include "inspect/locks.h"
#include "inspect/world.h"
#include "support/process.h"

namespace holdfast::inspect {
namespace {

class Gone : public ::testing::Test {
 protected:
  // All tests share one world, because a process can enter only one world.
  static void SetUpTestSuite() {
    folder_.emplace();
    ASSERT_EQ(HOLDFAST_OK, holdfast_guard_sigbus());
  }
  static void TearDownTestSuite() { folder_.reset(); }
  void SetUp() override {
    open("a");
    open("b");
    snapshot_.directory = folder_->path();
  }
  void TearDown() override {
    for (const char* const name : {"a", "b"}) holdfast_remove(name, 1);
  }

  /// Creates the dictionary and takes a lock in it.
  static void open(const std::string& name) {
    const holdfast_options options{1U << 16, HOLDFAST_MUTEX_FUTEX, HOLDFAST_TEMPORARY, 0, nullptr};
    holdfast_dict* dict = nullptr;
    holdfast_lease lease{};
    ASSERT_EQ(HOLDFAST_OK, holdfast_open(name.data(), name.size(), &options, &dict)) << holdfast_error();
    ASSERT_EQ(HOLDFAST_OK, holdfast_lock_try(dict, "key", 3, 0, 0, 0, &lease));
  }
  static Dictionary look(const std::string& name) { return look_at(folder_->path(), name, Read::header); }
  static void remove(const std::string& name) {
    ASSERT_EQ(HOLDFAST_OK, holdfast_remove(name.data(), name.size())) << holdfast_error();
  }

  static inline std::optional<test::ScratchDirectory> folder_;
  WorldSnapshot snapshot_;
  Findings findings_;
};

TEST_F(Gone, IsNotReportedIfItWasRemovedDuringTheCheck) {
  const Dictionary dictionary = look("a");
  ASSERT_EQ("", dictionary.trouble);
  EXPECT_FALSE(was_removed_since(folder_->path(), dictionary));
  remove("a");
  EXPECT_TRUE(was_removed_since(folder_->path(), dictionary));
  check_dictionary(dictionary, snapshot_, findings_);
  EXPECT_TRUE(findings_.empty()) << findings_.front().sentence;
  EXPECT_FALSE(needs_repair(dictionary, snapshot_));
}

TEST_F(Gone, LosesItsLocks) {
  std::vector<Lock> locks;
  const Dictionary first = look("a");
  const Dictionary second = look("b");
  ASSERT_TRUE(gather_locks(first.handle, "a", "", Which::all, 10, locks).ok());
  ASSERT_EQ(1U, locks.size());
  remove("b");
  const Status status = gather_locks(second.handle, "b", "", Which::all, 10, locks);
  EXPECT_EQ(Code::removed, status.code);
  EXPECT_TRUE(is_gone(folder_->path(), "b", static_cast<int>(status.code)));
  EXPECT_EQ(1U, locks.size());
}

TEST_F(Gone, IsNotReportedForATruncatedDictionary) {
  const Dictionary dictionary = look("a");
  std::filesystem::resize_file(*folder_ / "a.dict", 4096);
  check_dictionary(dictionary, snapshot_, findings_);
  ASSERT_FALSE(findings_.empty());
  EXPECT_EQ(Severity::error, findings_.front().severity);
  EXPECT_FALSE(was_removed_since(folder_->path(), dictionary));
}

TEST_F(Gone, IsNotListedAmongTheExistingDictionaries) {
  EXPECT_TRUE(no_such_dictionary("c").message.ends_with(": it contains \"a\", \"b\""));
  EXPECT_TRUE(no_such_dictionary("a").message.ends_with(": it contains \"b\""));
  remove("b");
  EXPECT_TRUE(no_such_dictionary("a").message.ends_with(": it contains no dictionaries"));
}

}  // namespace
}  // namespace holdfast::inspect
