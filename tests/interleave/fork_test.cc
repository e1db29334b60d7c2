// Tests a thread that is in the middle of a step of a wait when its process, or a child that is forked at this moment,
// removes the dictionary.
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

/// Returns the number of mappings of dictionary files, including removed files.
int mapped_dictionaries() {
  int count = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find("forked.dict") != std::string::npos) ++count;
  return count;
}

enum class Step { lock, permits, watch };

using WaitOnce = int (*)(const Dict& dict, holdfast_wait& wait, holdfast_lease& lease);

/// A thread that is held in a step of a wait, after its attempt to get the lock and before the end of the step.
class StoppedWaiter {
 public:
  StoppedWaiter(const Dict& dict, WaitOnce wait_once) {
    at_failpoint("wait.settle", [this] {
      inside_.set_value();
      go_on_.get_future().wait_for(kPatience);
    });
    thread_ = std::thread([this, &dict, wait_once] {
      holdfast_parker* const parker = holdfast_parker_new();
      holdfast_wait wait{};
      wait.parker = parker;
      wait.waiter = holdfast_waiter_open(parker);
      holdfast_lease lease{};
      code_ = wait_once(dict, wait, lease);
      holdfast_parker_free(parker);
    });
    EXPECT_EQ(inside_.get_future().wait_for(kPatience), std::future_status::ready);
  }
  ~StoppedWaiter() { goes_on(); }
  StoppedWaiter(const StoppedWaiter&) = delete;
  StoppedWaiter& operator=(const StoppedWaiter&) = delete;

  /// Lets the thread continue, and returns the result of the step.
  int goes_on() {
    if (thread_.joinable()) {
      go_on_.set_value();
      thread_.join();
    }
    return code_;
  }

 private:
  std::promise<void> inside_;
  std::promise<void> go_on_;
  std::thread thread_;
  int code_ = -1;
};

class InterleaveFork : public testing::TestWithParam<Step> {
 protected:
  /// Returns a process that creates the dictionary, so that other processes map it by its name.
  static Started hold_both() {
    return {"holds them", [](Channel& parent) {
              Dict dict("forked");
              holdfast_lease lease{};
              if (dict.try_lock("lock", 0, &lease) != HOLDFAST_OK ||
                  dict.try_permits("permits", HOLDFAST_SEMAPHORE, 1, 1, 0, &lease) != HOLDFAST_OK)
                return 1;
              parent.say("holds them");
              parent.hear();
              return 0;
            }};
  }
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
  Started holder = hold_both();
  in_process([] {
    Dict dict("forked");
    StoppedWaiter waiter(dict, wait_once);
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
    EXPECT_EQ(waiter.goes_on(), HOLDFAST_LOCKED);
  });
}

TEST_P(InterleaveFork, the_process_keeps_the_dictionary_until_the_wait_is_over) {
  Started holder = hold_both();
  in_process([] {
    Dict dict("forked");
    {
      StoppedWaiter waiter(dict, wait_once);
      EXPECT_EQ(holdfast_remove("forked", 6), HOLDFAST_OK);
      EXPECT_EQ(mapped_dictionaries(), 1);
      EXPECT_EQ(waiter.goes_on(), HOLDFAST_LOCKED);
    }
    EXPECT_EQ(mapped_dictionaries(), 0);
  });
}

}  // namespace
}  // namespace holdfast::test
