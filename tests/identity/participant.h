// Processes that do what they are told with a lock of the dictionary "dict".
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

/// Answers of a code: its text, or the sentence where there is one.
inline std::string in_words(int code) {
  const std::string sentence = holdfast_error();
  return sentence.empty() || code == HOLDFAST_OK ? holdfast_code_text(code) : sentence;
}

/// Says "ready" after it has opened the dictionary, or why it could not. Then obeys: lock, unlock, held, get, set,
/// remake (remove the dictionary and open it anew), end. "lock" answers "ok" and keeps the lease.
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

/// A newcomer does not get in, and says why.
inline void expect_refused(const std::function<int(Channel&)>& newcomer, const std::string& why) {
  Child child(newcomer);
  EXPECT_THAT(child.hear(), testing::HasSubstr(why));
}

/// Puts a copy in the place of the file.
inline void replace_by_copy(const std::string& file) {
  std::filesystem::copy_file(file, file + ".copy");
  std::filesystem::rename(file + ".copy", file);
}

/// The lock that `holder` has is not to be had by `other` until it is given back; then `other` has it.
inline void expect_passed_on(Child& holder, Child& other) {
  EXPECT_EQ(other.ask("lock"), "locked");
  EXPECT_EQ(holder.ask("held"), "yes");
  EXPECT_EQ(holder.ask("unlock"), "ok");
  EXPECT_EQ(other.ask("lock"), "ok");
}

}  // namespace holdfast::test
