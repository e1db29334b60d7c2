// Contenders for a key: one waiter with its own parker, and processes that consist of one.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "death/way.h"
#include "support/process.h"
#include "support/waiting.h"

namespace holdfast::test {

using OwnedParker = std::unique_ptr<holdfast_parker, CloseParker>;

/// Make it in the process that uses it.
class Contender {
 public:
  Contender(const Way& way, Dict& dict, std::string key = "k");
  Contender(const Contender&) = delete;
  Contender& operator=(const Contender&) = delete;

  int take(double exptime = 0) {
    return unless_held_up([&] { return way_.take(dict_, key_, exptime, &lease_); });
  }
  /// One call of a wait: queues if the key is held.
  int queue(double exptime = 0);
  /// A whole wait, as include/holdfast.h describes it. LOCKED: the time is over, and the waiter has left the queue.
  int wait(double timeout, double exptime = 0);
  int leave() {
    return unless_held_up([&] { return way_.leave(dict_, key_, parker_.get(), waiter_); });
  }
  int release() { return way_.release(dict_, key_, &lease_); }
  int renew(double exptime) { return way_.renew(dict_, key_, lease_, exptime); }
  /// Whether the waiter was woken within that time.
  bool sleep(double seconds);

  const holdfast_lease& lease() const { return lease_; }

 private:
  const Way& way_;
  Dict& dict_;
  std::string key_;
  OwnedParker parker_;
  std::uint32_t waiter_;
  holdfast_lease lease_{};
  double sleep_time_ = 0;
};

/// Longer than any wait of these tests takes, shorter than kPatience.
inline constexpr double kLong = 40;

/// Takes the key and says "ok", or the error. Releases it when it gets a line, reports the result, and ends.
std::unique_ptr<Child> start_holder(const Way& way, Dict& dict, double exptime = 0);
/// Queues and says "locked", or the error; waits and reports the result; then acts as a holder.
std::unique_ptr<Child> start_waiter(const Way& way, Dict& dict, double timeout = kLong);
/// The same, but after it has queued it does not sleep until it gets a line: it is chosen, and does not come.
std::unique_ptr<Child> start_sluggish_waiter(const Way& way, Dict& dict);

/// Returns the first child that has a line to say, or the end if none has one within kPatience.
std::vector<Child*>::iterator first_to_speak(std::vector<Child*>& children);
std::vector<Child*> pointers(const std::vector<std::unique_ptr<Child>>& children);

/// The result of a call, as a child reports it.
inline std::string outcome(int code) { return holdfast_code_text(code); }
inline const std::string kOk = outcome(HOLDFAST_OK);
inline const std::string kLocked = outcome(HOLDFAST_LOCKED);
inline const std::string kNotOwner = outcome(HOLDFAST_NOT_OWNER);

/// Each test gets a new dictionary. At its end nobody waits and nothing is damaged.
class DeathTest : public ::testing::TestWithParam<Way> {
 protected:
  DeathTest();
  void SetUp() override;
  void TearDown() override;

  std::unique_ptr<Child> holder(double exptime = 0) { return start_holder(GetParam(), dict, exptime); }
  std::unique_ptr<Child> waiter(double timeout = kLong) { return start_waiter(GetParam(), dict, timeout); }
  /// Stops it (SIGSTOP) outside the dictionary: inside a mutex it would keep everybody out, which other tests cover.
  void stop(const Child& child);
  /// Each gets it, one after the other, and ends, in any order: what a dead process held goes to the first that polls.
  static void expect_served(std::vector<Child*> waiting);
  /// Returns the waiter blocks in all queues of the dictionary.
  std::uint32_t waiters();

  const std::string name;
  Dict dict;
};

std::string name_of_way(const ::testing::TestParamInfo<Way>& info);

/// Whether the process has ended and its parent has not reaped it.
bool is_zombie(pid_t pid);

}  // namespace holdfast::test
