// Tests that calls succeed at any time in the life of a thread or process, and do not overwrite the host's memory.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <string>

#include "support/process.h"

namespace holdfast::test {

namespace {

std::string times(int count, const std::string& line) {
  std::string text;
  for (int i = 0; i < count; ++i) text += line + "\n";
  return text;
}

/// Expects that the program, in a new runtime directory, succeeds and prints this output.
void expect_calls(const std::string& place, const std::string& output) {
  const ScratchDirectory scratch;
  FILE* const pipe = ::popen(("exec timeout --foreground 60 " LATE_CALLS " " + place + " 2>&1").c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string said;
  std::array<char, 256> line{};
  while (std::fgets(line.data(), line.size(), pipe) != nullptr) said += line.data();
  EXPECT_EQ(::pclose(pipe), 0);
  EXPECT_EQ(said, output);
}

}  // namespace

// Each of two threads has three keys, and the destructor of the first key runs three more times.
TEST(late_calls, succeed_in_destructors_of_pthread_keys) { expect_calls("key", times(12, "key")); }

TEST(late_calls, succeed_in_destructors_of_thread_local_objects) {
  expect_calls("thread_local", times(4, "thread_local"));
}

TEST(late_calls, succeed_in_destructors_of_static_objects) { expect_calls("static", times(2, "static")); }

TEST(late_calls, succeed_in_functions_of_atexit) {
  expect_calls("atexit", times(1, "atexit") + times(1, "atexit, set before the library was used"));
}

TEST(late_calls, succeed_in_functions_of_on_exit) { expect_calls("on_exit", times(1, "on_exit")); }

TEST(late_calls, succeed_in_functions_of_quick_exit) { expect_calls("quick_exit", times(1, "at_quick_exit")); }

TEST(late_calls, succeed_in_a_thread_that_outlives_main) { expect_calls("outlive", times(1, "after main has ended")); }

TEST(late_calls, succeed_in_a_forked_child_until_its_end) {
  expect_calls("fork", times(1, "child") + times(1, "exit of the child"));
}

// Two static destructors check the locks. One of them runs after the functions of atexit.
TEST(late_calls, see_that_an_exiting_process_still_holds_its_locks) { expect_calls("holds", times(2, "held")); }

// The wait must last for at most 8 s.
TEST(late_calls, detect_in_functions_of_atexit_that_a_holder_was_killed) {
  expect_calls("death", times(1, "inherited"));
}

}  // namespace holdfast::test
