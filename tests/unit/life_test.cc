// Tests how long dictionaries live. A dictionary that is opened without options is kept after its last user. While no
// process uses it, a process that requests other options replaces it. This program never enters a world itself, so each
// child begins a new world.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <string>

#include "support/dict.h"
#include "support/started.h"

namespace holdfast::test {
namespace {

constexpr std::uint64_t kSmall = 65536;
constexpr std::uint64_t kLarge = 131072;

Options kept(std::uint64_t size = kSmall) { return {.size = size, .kept = true}; }

/// Opens the dictionary and stores a value. Reports the value that was there before, "new" if there was none, or the
/// error.
int visit(Channel& parent, const Options& options) {
  Dict dict("dict", options);
  if (dict.status == HOLDFAST_OK) {
    const Got found = dict.get("visited");
    dict.set("visited", std::to_string(options.size));
    parent.say(found.code == HOLDFAST_OK ? found.text : "new");
  } else {
    parent.say(holdfast_code_text(dict.status));
  }
  parent.hear();
  return 0;
}

std::string report_of_visitor(const Options& options) {
  Child visitor([options](Channel& parent) { return visit(parent, options); });
  const std::string said = visitor.hear();
  visitor.say("go");
  EXPECT_EQ(visitor.wait(), 0);
  return said;
}

TEST(Life, an_unused_kept_dictionary_is_recreated_for_another_size_or_mutex) {
  const ScratchDirectory world;
  EXPECT_EQ("new", report_of_visitor(kept(kSmall)));
  EXPECT_EQ("new", report_of_visitor(kept(kLarge)));
  EXPECT_EQ("131072", report_of_visitor(kept(kLarge)));
  EXPECT_EQ("new", report_of_visitor({.size = kLarge, .mutex = HOLDFAST_MUTEX_SPIN, .kept = true}));
}

TEST(Life, a_persistent_dictionary_is_not_recreated) {
  const ScratchDirectory world;
  EXPECT_EQ("new", report_of_visitor({.persist = true}));
  EXPECT_EQ("mismatch", report_of_visitor(kept(kLarge)));
  EXPECT_EQ("65536", report_of_visitor(kept()));
}

TEST(Life, a_persistent_dictionary_keeps_its_versions) {
  const ScratchDirectory world;
  const Options options{.persist = true, .versions = true};
  in_process([&] { EXPECT_EQ(Dict("d", options).set("k", "v"), HOLDFAST_OK); });
  in_process([&] {
    Dict dict("d", options);
    ASSERT_EQ(dict.status, HOLDFAST_OK) << holdfast_error();
    holdfast_version_of_key known{};
    EXPECT_EQ(dict.get_changed("k", &known), text("v"));
    EXPECT_TRUE(dict.is_current(known));
    EXPECT_EQ(dict.set("k", "w"), HOLDFAST_OK);
    EXPECT_FALSE(dict.is_current(known));
  });
}

TEST(Life, a_dictionary_in_use_by_another_process_is_not_recreated) {
  const ScratchDirectory world;
  Started user("new", [](Channel& parent) { return visit(parent, kept()); });
  EXPECT_EQ("mismatch", report_of_visitor(kept(kLarge)));
  EXPECT_EQ("65536", report_of_visitor(kept()));
  user.kill_and_wait();
  EXPECT_EQ("new", report_of_visitor(kept(kLarge)));
}

TEST(Life, a_dictionary_in_use_by_this_process_is_not_recreated) {
  in_a_world([] {
    const Dict first("dict", kept());
    ASSERT_EQ(HOLDFAST_OK, first.status);
    EXPECT_EQ(HOLDFAST_MISMATCH, Dict("dict", kept(kLarge)).status);
  });
}

// The user is like a command under `holdfast lock`: it uses the dictionary through descriptors, without a mapping.
TEST(Life, a_dictionary_in_use_over_exec_is_not_recreated) {
  const ScratchDirectory world;
  Started command("new", [](Channel& parent) {
    const Dict dict("dict", kept());
    int fds[2] = {-1, -1};
    if (holdfast_use_over_exec(dict.handle, fds) != HOLDFAST_OK) return 1;
    for (const int fd : fds) ::fcntl(fd, F_SETFD, 0);
    parent.say("new");
    parent.hear();
    ::execl("/bin/sleep", "sleep", "600", nullptr);
    return 2;
  });
  command.say("go");
  const std::string exe = "/proc/" + std::to_string(command.pid()) + "/comm";
  const auto is_sleep = [&] {
    std::string name;
    std::getline(std::ifstream(exe), name);
    return name == "sleep";
  };
  for (int look = 0; look < 5000 && !is_sleep(); ++look) ::usleep(1000);
  ASSERT_TRUE(is_sleep());
  EXPECT_EQ("mismatch", report_of_visitor(kept(kLarge)));
  command.kill_and_wait();
  EXPECT_EQ("new", report_of_visitor(kept(kLarge)));
}

TEST(Life, one_of_two_sizes_requested_concurrently_is_created_and_the_other_is_refused) {
  for (int round = 0; round < 10; ++round) {
    const ScratchDirectory world;
    EXPECT_EQ("new", report_of_visitor(kept(12288)));
    Child one([](Channel& parent) { return visit(parent, kept(kSmall)); });
    Child other([](Channel& parent) { return visit(parent, kept(kLarge)); });
    const std::string first = one.hear();
    const std::string second = other.hear();
    // Each process may briefly find the other process's dictionary in use. But the two never open different
    // dictionaries.
    EXPECT_TRUE(first == "new" || first == "mismatch") << first;
    EXPECT_TRUE(second == "new" || second == "mismatch") << second;
    EXPECT_NE(first == "new", second == "new") << first << ", " << second;
    one.say("go");
    other.say("go");
    EXPECT_EQ(0, one.wait() + other.wait());
  }
}

TEST(Life, a_temporary_dictionary_ends_with_its_last_process_and_not_earlier) {
  const ScratchDirectory world;
  EXPECT_EQ("new", report_of_visitor({}));
  Started user("new", [](Channel& parent) { return visit(parent, {}); });
  EXPECT_EQ("65536", report_of_visitor({}));
  user.kill_and_wait();
  EXPECT_EQ("new", report_of_visitor({}));
}

}  // namespace
}  // namespace holdfast::test
