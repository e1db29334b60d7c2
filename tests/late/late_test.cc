// A call may come at any time of a thread's and of a process's life, and when there is no memory left: it gives a code,
// and a sentence, and leaves the host's memory alone.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <string>

#include "support/process.h"

namespace holdfast::test {

namespace {

struct Outcome {
  int status;
  std::string output;
};

/// Runs a program with one argument in a runtime directory of its own.
Outcome run(const std::string& program, const std::string& argument) {
  const ScratchDirectory scratch;
  FILE* const pipe = ::popen(("exec timeout --foreground 60 " + program + " " + argument + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return {-1, "popen failed"};
  Outcome result{};
  std::array<char, 256> line{};
  while (std::fgets(line.data(), line.size(), pipe) != nullptr) result.output += line.data();
  result.status = ::pclose(pipe);
  return result;
}

std::string times(int count, const std::string& line) {
  std::string text;
  for (int i = 0; i < count; ++i) text += line + "\n";
  return text;
}

void expect_calls(const std::string& place, const std::string& output) {
  const Outcome late = run(LATE_CALLS, place);
  EXPECT_EQ(late.status, 0);
  EXPECT_EQ(late.output, output);
}

}  // namespace

// Two threads; three keys, and the first one three times more.
TEST(late_calls, go_well_in_destructors_of_pthread_keys) { expect_calls("key", times(12, "key")); }

TEST(late_calls, go_well_in_destructors_of_thread_local_objects) {
  expect_calls("thread_local", times(4, "thread_local"));
}

TEST(late_calls, go_well_in_destructors_of_static_objects) { expect_calls("static", times(2, "static")); }

TEST(late_calls, go_well_in_functions_of_atexit) {
  expect_calls("atexit", times(1, "atexit") + times(1, "atexit, set before the library was used"));
}

TEST(late_calls, go_well_in_functions_of_on_exit) { expect_calls("on_exit", times(1, "on_exit")); }

TEST(late_calls, go_well_in_functions_of_quick_exit) { expect_calls("quick_exit", times(1, "at_quick_exit")); }

TEST(late_calls, go_well_in_a_thread_that_outlives_main) { expect_calls("outlive", times(1, "after main has ended")); }

TEST(late_calls, go_well_in_a_forked_child_and_at_its_end) {
  expect_calls("fork", times(1, "child") + times(1, "exit of the child"));
}

// In two static destructors, of which one comes after the functions of atexit.
TEST(late_calls, find_every_lock_held_that_a_process_holds_while_it_exits) { expect_calls("holds", times(2, "held")); }

// The wait lasts for 8 s at most.
TEST(late_calls, find_in_functions_of_atexit_that_a_holder_was_killed) { expect_calls("death", times(1, "inherited")); }

TEST(calls_without_memory, give_a_code_and_a_sentence_in_a_thread_that_has_made_none) {
  const Outcome result = run(NO_MEMORY, "first");
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.output, "done\n");
}

TEST(calls_without_memory, give_a_code_and_a_sentence_whichever_allocation_fails) {
  const Outcome result = run(NO_MEMORY, "120");
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.output, "done\n");
}

}  // namespace holdfast::test
