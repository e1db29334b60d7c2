// A child that is forked while another thread of its parent is in the middle of a call has no part in that call.
#include <gtest/gtest.h>

#include <fstream>
#include <future>
#include <string>
#include <thread>

#include "interleave/failpoint.h"
#include "support/dict.h"
#include "support/started.h"
#include "support/waiting.h"

namespace holdfast::test {
namespace {

/// Mappings of files of dictionaries, removed or not.
int mapped_dictionaries() {
  int count = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find("forked.dict") != std::string::npos) ++count;
  return count;
}

enum class Step { lock, permits, watch };

class InterleaveFork : public testing::TestWithParam<Step> {
 protected:
  static int wait_once(const Dict& dict, holdfast_wait& wait, holdfast_lease& lease) {
    switch (GetParam()) {
      case Step::lock:
        return holdfast_lock_wait(dict.handle, "lock", 4, 0, &wait, &lease);
      case Step::permits:
        return holdfast_permits_wait(dict.handle, "permits", 7, HOLDFAST_SEMAPHORE, 1, 1, 0, &wait, &lease);
      case Step::watch:
        return holdfast_lock_watch(dict.handle, "lock", 4, &wait, &lease.sequence);
    }
    return -1;
  }

  const ScratchDirectory directory_;
};

std::string name_of(const testing::TestParamInfo<Step>& step) {
  return step.param == Step::lock ? "lock" : step.param == Step::permits ? "permits" : "watch";
}
INSTANTIATE_TEST_SUITE_P(steps, InterleaveFork, testing::Values(Step::lock, Step::permits, Step::watch), name_of);

TEST_P(InterleaveFork, a_child_keeps_no_dictionary_for_a_waiter_of_its_parent) {
  // It makes the dictionary, so that the others have it mapped by its name.
  Started holder("holds them", [](Channel& parent) {
    Dict dict("forked");
    holdfast_lease lease{};
    if (dict.try_lock("lock", 0, &lease) != HOLDFAST_OK ||
        dict.try_permits("permits", HOLDFAST_SEMAPHORE, 1, 1, 0, &lease) != HOLDFAST_OK)
      return 1;
    parent.say("holds them");
    parent.hear();
    return 0;
  });
  in_process([] {
    Dict dict("forked");
    std::promise<void> inside;
    std::promise<void> go_on;
    at_failpoint("wait.settle", [&] {
      inside.set_value();
      go_on.get_future().wait();
    });
    std::thread waiter([&dict] {
      holdfast_parker* const parker = holdfast_parker_new();
      holdfast_wait wait{};
      wait.parker = parker;
      wait.waiter = holdfast_waiter_open(parker);
      holdfast_lease lease{};
      EXPECT_EQ(wait_once(dict, wait, lease), HOLDFAST_LOCKED);
      holdfast_parker_free(parker);
    });
    inside.get_future().wait();
    {
      Child child([&dict](Channel& parent) {
        parent.say(std::to_string(mapped_dictionaries()) + " before");
        parent.say(holdfast_code_text(holdfast_remove("forked", 6)));
        parent.say(holdfast_code_text(dict.get("key").code));
        parent.say(std::to_string(mapped_dictionaries()) + " after");
        return 0;
      });
      EXPECT_EQ(child.hear(), "1 before");
      EXPECT_EQ(child.hear(), "ok");
      EXPECT_EQ(child.hear(), "removed");
      EXPECT_EQ(child.hear(), "0 after");
      EXPECT_EQ(child.wait(), 0);
    }
    go_on.set_value();
    waiter.join();
  });
}

}  // namespace
}  // namespace holdfast::test
