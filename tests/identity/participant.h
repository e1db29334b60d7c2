// Processes that use a lock of the dictionary "dict" as they are ordered to.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>
#include <functional>
#include <string>

#include "support/dict.h"
#include "support/process.h"

namespace holdfast::test {

#ifdef CLONE_NEWTIME
inline constexpr int kNewTime = CLONE_NEWTIME;
#else
inline constexpr int kNewTime = 0x80;
#endif

/// Returns the answer for a code, which is the error message or, if there is none, the code's text.
inline std::string in_words(int code) {
  const std::string sentence = holdfast_error();
  return sentence.empty() || code == HOLDFAST_OK ? holdfast_code_text(code) : sentence;
}

/// Opens the dictionary and reports "ready" or the error. Then obeys the orders lock, unlock, held, number, get, set,
/// remake (which removes the dictionary and opens it again) and end. After a successful "lock", it answers "ok" and
/// keeps the lease.
inline int obey(Channel& parent, const Options& options = {}) {
  Dict dict("dict", options);
  parent.say(dict.status == HOLDFAST_OK ? "ready" : in_words(dict.status));
  holdfast_lease lease{};
  for (;;) {
    const std::string order = parent.hear();
    if (order == "lock") {
      holdfast_lease next{};
      const int code = unless_held_up([&] { return dict.try_lock("key", 0, &next); });
      if (code == HOLDFAST_OK) lease = next;
      parent.say(in_words(code));
    } else if (order == "unlock") {
      parent.say(in_words(dict.unlock("key", &lease)));
    } else if (order == "held") {
      parent.say(dict.remaining("key", lease) >= 0 ? "yes" : "no");
    } else if (order == "number") {
      parent.say(std::to_string(lease.sequence));
    } else if (order == "get") {
      parent.say(dict.get("value").text);
    } else if (order == "set") {
      parent.say(in_words(dict.set("value", "there")));
    } else {
      return 0;
    }
  }
}

/// Expects that a new process is refused for this reason.
inline void expect_refused(const std::function<int(Channel&)>& newcomer, const std::string& why) {
  Child child(newcomer);
  EXPECT_THAT(child.hear(), testing::HasSubstr(why));
}

/// Replaces the file with a copy of itself.
inline void replace_by_copy(const std::string& file) {
  std::filesystem::copy_file(file, file + ".copy");
  std::filesystem::rename(file + ".copy", file);
}

/// Expects that `other` gets the lock only after `holder` has released it.
inline void expect_passed_on(Child& holder, Child& other) {
  EXPECT_EQ(other.ask("lock"), "locked");
  EXPECT_EQ(holder.ask("held"), "yes");
  EXPECT_EQ(holder.ask("unlock"), "ok");
  EXPECT_EQ(other.ask("lock"), "ok");
}

}  // namespace holdfast::test
