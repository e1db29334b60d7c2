// Contenders for a key. A contender is a waiter with its own parker. Each child process that this file starts has one
// contender.
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

/// A contender for a key. Create it in the process that uses it.
class Contender {
 public:
  Contender(const Way& way, Dict& dict, std::string key = "k");
  Contender(const Contender&) = delete;
  Contender& operator=(const Contender&) = delete;

  int take(double exptime = 0) {
    return unless_held_up([&] { return way_.take(dict_, key_, exptime, &lease_); });
  }
  /// Makes the first call of a wait, which queues if the key is held.
  int queue(double exptime = 0);
  /// Waits as include/holdfast.h describes. On a timeout, leaves the queue and returns LOCKED.
  int wait(double timeout, double exptime = 0);
  int leave() {
    return unless_held_up([&] { return way_.leave(dict_, key_, parker_.get(), waiter_); });
  }
  int release() { return way_.release(dict_, key_, &lease_); }
  int renew(double exptime) { return way_.renew(dict_, key_, lease_, exptime); }
  /// Returns whether the waiter was woken within this time.
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

/// Longer than any wait in these tests, but shorter than kPatience.
inline constexpr double kLong = 40;

/// Starts a process that takes the key and reports "ok" or the error. When it gets a line, it releases the key, reports
/// the result, and ends.
std::unique_ptr<Child> start_holder(const Way& way, Dict& dict, double exptime = 0);
/// Starts a process that queues for the key and reports "locked" or the error. It then waits, reports the result, and
/// acts as a holder.
std::unique_ptr<Child> start_waiter(const Way& way, Dict& dict, double timeout = kLong);
/// Starts a waiter that queues, and then does nothing until it gets a line, not even when it becomes the next holder.
std::unique_ptr<Child> start_sluggish_waiter(const Way& way, Dict& dict);

/// Returns the first child that sends a line, or children.end() if no child does within kPatience.
std::vector<Child*>::iterator first_to_speak(std::vector<Child*>& children);
std::vector<Child*> pointers(const std::vector<std::unique_ptr<Child>>& children);

/// Returns the result of a call, as a child reports it.
inline std::string outcome(int code) { return holdfast_code_text(code); }
inline const std::string kOk = outcome(HOLDFAST_OK);
inline const std::string kLocked = outcome(HOLDFAST_LOCKED);
inline const std::string kNotOwner = outcome(HOLDFAST_NOT_OWNER);

/// Gives each test a new dictionary. Checks at the end that no waiter remains and nothing is damaged.
class DeathTest : public ::testing::TestWithParam<Way> {
 protected:
  DeathTest();
  void SetUp() override;
  void TearDown() override;

  std::unique_ptr<Child> holder(double exptime = 0) { return start_holder(GetParam(), dict, exptime); }
  std::unique_ptr<Child> waiter(double timeout = kLong) { return start_waiter(GetParam(), dict, timeout); }
  /// Stops the process (SIGSTOP) while it holds no mutex. A process that held one would block all other processes;
  /// other tests cover this case.
  void stop(const Child& child);
  /// Expects each process to get the key and end. The order does not matter, because the first process that polls gets
  /// a dead process's key.
  static void expect_served(std::vector<Child*> waiting);
  /// Returns the number of waiter blocks in all queues of the dictionary.
  std::uint32_t waiters();

  const std::string name;
  Dict dict;
};

std::string name_of_way(const ::testing::TestParamInfo<Way>& info);

/// Returns whether the process has ended but has not been reaped.
bool is_zombie(pid_t pid);

}  // namespace holdfast::test
