// Tests versions of keys while processes die or stop between the steps of a change, and while other processes wait for
// the change.
#include <gtest/gtest.h>

#include <string>

#include "interleave/failpoint.h"
#include "support/dict.h"
#include "support/started.h"
#include "support/waiting.h"

namespace holdfast::test {
namespace {

constexpr double kLong = 30;

class KeyVersions : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(dict.status, HOLDFAST_OK) << holdfast_error();
    ASSERT_EQ(dict.set("k", "old"), HOLDFAST_OK);
    ASSERT_EQ(dict.get_changed("k", &copy), text("old"));
  }
  void TearDown() override { holdfast_remove("d", 1); }

  /// A process that changes a key and is held at a failpoint of the change.
  class Changing : public Started {
   public:
    Changing(Dict& dict, const std::string& failpoint)
        : Started("at " + failpoint, [&dict, failpoint](Channel& parent) {
            pause_at(failpoint, parent);
            return dict.set("k", "new");
          }) {}
  };

  const ScratchDirectory directory;
  Dict dict{"d", {.versions = true}};
  holdfast_version_of_key copy{};
};

TEST_F(KeyVersions, no_copy_is_current_from_the_first_step_of_a_change) {
  for (const char* failpoint : {"version.odd", "version.committed"}) {
    SCOPED_TRACE(failpoint);
    holdfast_version_of_key before{};
    dict.get_changed("k", &before);
    ASSERT_TRUE(dict.is_current(before));
    Changing writer(dict, failpoint);
    EXPECT_FALSE(dict.is_current(before));
    holdfast_version_of_key during{};
    const Got seen = dict.get_changed("k", &during);
    EXPECT_FALSE(dict.is_current(during));
    EXPECT_EQ(dict.get_changed("k", &during), seen) << "a key with an odd version counts as unchanged";
    writer.say("go on");
    EXPECT_EQ(writer.wait(), HOLDFAST_OK);
    EXPECT_FALSE(dict.is_current(during));
    EXPECT_EQ(dict.get_changed("k", &during), text("new"));
    EXPECT_TRUE(dict.is_current(during));
  }
}

// The waiter has read the old value with the odd version. The writer commits and dies, and no other process uses the
// dictionary. Fails if the parker's check mistakes the odd version for the version that the waiter knows.
TEST_F(KeyVersions, a_waiter_notices_the_change_of_a_writer_that_died_before_it_was_complete) {
  Changing writer(dict, "version.odd");
  holdfast_version_of_key known{};
  ASSERT_EQ(dict.get_changed("k", &known), text("old"));
  ASSERT_EQ(known.number % 2, 1);
  Parked waiter;
  waiter.sleep(0);
  ASSERT_EQ(waiter.wait_for_change(dict, "k", &known), HOLDFAST_UNCHANGED);
  writer.kill_and_wait();
  EXPECT_TRUE(waiter.sleep(kLong));
  EXPECT_EQ(waiter.wait_for_change(dict, "k", &known), HOLDFAST_OK);
  EXPECT_EQ(dict.version("k").number % 2, 0);
  EXPECT_EQ(dict.get_changed("k", &copy), text("old"));
  EXPECT_TRUE(dict.is_current(copy));
}

TEST_F(KeyVersions, a_waiter_notices_the_change_of_a_writer_that_died_before_it_posted) {
  Parked waiter;
  waiter.sleep(0);
  ASSERT_EQ(waiter.wait_for_change(dict, "k", &copy), HOLDFAST_UNCHANGED);
  Changing writer(dict, "watchers.taken");
  writer.kill_and_wait();
  EXPECT_TRUE(waiter.sleep(kLong));
  EXPECT_EQ(waiter.wait_for_change(dict, "k", &copy), HOLDFAST_OK);
  EXPECT_EQ(dict.get("k"), text("new"));
}

// Fails if the returned version is read after the value.
TEST_F(KeyVersions, a_value_that_changes_while_it_is_read_is_not_current) {
  at_failpoint("get_changed.version", [&] { in_process([&] { EXPECT_EQ(dict.set("k", "new"), HOLDFAST_OK); }); });
  copy.number = 0;
  const Got seen = dict.get_changed("k", &copy);
  EXPECT_TRUE(seen == text("new") || !dict.is_current(copy)) << seen;
}

// Fails if the version that the store returns was loaded after the flush.
TEST_F(KeyVersions, a_store_that_is_flushed_before_it_returns_gives_no_current_version) {
  ASSERT_GT(dict.push("list", HOLDFAST_LEFT, "element"), 0);
  holdfast_version_of_key version = dict.version("list");
  at_failpoint("arena.release", [&] { EXPECT_EQ(dict.flush_all(), HOLDFAST_OK); });
  const Got value = text("v");
  ASSERT_EQ(dict.store_unless_changed("list", &version, &value), HOLDFAST_OK);
  EXPECT_EQ(dict.get("list"), nothing());
  EXPECT_FALSE(dict.is_current(version));
}

// Fails if the waiter compares the version before it announces that it waits.
TEST_F(KeyVersions, a_change_before_the_announcement_ends_the_wait_at_once) {
  Parked waiter;
  waiter.sleep(0);
  at_failpoint("watch.kept", [&] { in_process([&] { EXPECT_EQ(dict.set("k", "new"), HOLDFAST_OK); }); });
  EXPECT_EQ(waiter.wait_for_change(dict, "k", &copy), HOLDFAST_OK);
}

// Another thread of the waiter's process receives the post before the waiter sleeps. Fails if the waiter registers its
// watch only after the comparison.
TEST_F(KeyVersions, a_post_that_another_thread_receives_is_not_lost) {
  Parked waiter;
  Parked other;
  for (Parked* const each : {&waiter, &other}) each->sleep(0);
  at_failpoint("wait.settle", [&] {
    in_process([&] { EXPECT_EQ(dict.set("k", "new"), HOLDFAST_OK); });
    other.sleep(0);
  });
  ASSERT_EQ(waiter.wait_for_change(dict, "k", &copy), HOLDFAST_UNCHANGED);
  EXPECT_TRUE(waiter.sleep(0));
  EXPECT_EQ(waiter.wait_for_change(dict, "k", &copy), HOLDFAST_OK);
}

}  // namespace
}  // namespace holdfast::test
