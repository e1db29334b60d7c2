// Tests the removal of a dictionary while another process has checked for a removal but does not have its grant yet.
#include <gtest/gtest.h>

#include <string>

#include "dict/guard.h"
#include "interleave/failpoint.h"
#include "support/dict.h"
#include "support/started.h"

namespace holdfast::test {
namespace {

class TheDict : public Dict {
 public:
  TheDict() : Dict("locks", {.size = 32768}) {}  // one shard
  Shard& shard() { return segment().shards()[0]; }
};

enum class Kind { quiet, lock, permits };

class InterleaveRemoval : public testing::TestWithParam<Kind> {
 protected:
  static int take(Dict& dict, holdfast_lease& lease) {
    if (GetParam() == Kind::permits) return dict.try_permits("key", HOLDFAST_SEMAPHORE, 1, 1, 0, &lease);
    return dict.try_lock("key", 0, &lease);
  }
  /// Returns the failpoint between the check for a removal and the grant.
  static const char* place() { return GetParam() == Kind::quiet ? "fast_path.found" : "shmtx.waiters_bit"; }

  static Started taker() {
    return {"ready", [](Channel& parent) {
              TheDict dict;
              holdfast_lease lease{};
              if (GetParam() == Kind::quiet &&
                  (dict.try_lock("key", 0, &lease) != HOLDFAST_OK || dict.unlock("key", &lease) != HOLDFAST_OK))
                return 1;
              parent.say("ready");
              parent.hear();
              pause_at(place(), parent);
              parent.say(holdfast_code_text(take(dict, lease)));
              parent.hear();
              return 0;
            }};
  }
  /// Returns a process that holds the mutex until it gets a line, and then reports the release.
  static Started holder() {
    return {"has the mutex", [](Channel& parent) {
              TheDict dict;
              {
                const ShardGuard guard(dict.shard());
                parent.say("has the mutex");
                parent.hear();
              }
              parent.say("gave it back");
              parent.hear();
              return 0;
            }};
  }
  static void remove_it(bool make_it_again) {
    in_process([&] {
      EXPECT_EQ(holdfast_remove("locks", 5), HOLDFAST_OK);
      if (make_it_again) {
        EXPECT_EQ(TheDict().status, HOLDFAST_OK);
      }
    });
  }
  /// Removes the dictionary that the taker uses. Returns the taker's report.
  static std::string report_after_removal(Started& taker, bool make_it_again) {
    if (GetParam() == Kind::quiet) {
      EXPECT_EQ(taker.ask("go"), "at fast_path.found");
      remove_it(make_it_again);
      return taker.ask("go on");
    }
    Started other = holder();
    EXPECT_EQ(taker.ask("go"), "at shmtx.waiters_bit");
    EXPECT_EQ(other.ask("go on"), "gave it back");
    remove_it(make_it_again);
    return taker.ask("go on");
  }

  const ScratchDirectory directory_;
};

INSTANTIATE_TEST_SUITE_P(grants, InterleaveRemoval, testing::Values(Kind::quiet, Kind::lock, Kind::permits));

TEST_P(InterleaveRemoval, a_grant_is_refused_if_the_dictionary_was_removed_before) {
  Started one = taker();
  EXPECT_EQ(report_after_removal(one, false), "removed");
}

TEST_P(InterleaveRemoval, the_dictionary_that_replaced_it_grants_instead) {
  Started one = taker();
  ASSERT_EQ(report_after_removal(one, true), "ok");
  in_process([] {
    TheDict dict;
    holdfast_lease lease{};
    EXPECT_EQ(take(dict, lease), HOLDFAST_LOCKED);
  });
}

}  // namespace
}  // namespace holdfast::test
