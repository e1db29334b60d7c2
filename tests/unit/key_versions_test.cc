// Tests versions of keys: what changes a version, how long a copy of a value is current, and which waiters a change
// wakes. interleave/key_versions_test.cc kills processes in the middle of a change.
#include "dict/versions.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "dict/repair.h"
#include "support/dict_test.h"
#include "support/waiting.h"

namespace holdfast::test {
namespace {

using KeyVersion = holdfast_version_of_key;

constexpr double kLong = 30;
constexpr std::uint64_t kOneShard = 65536;
constexpr std::uint64_t kManyShards = 16 << 20;

/// A waiter for a change. Its sleep(0) reads mail, but returns before it would check the version.
class Watching : public Parked {
 public:
  Watching(Dict& dict, std::string key) : dict_(dict), key_(std::move(key)), version_(dict.version(key_)) {
    sleep(0);  // clears wake-ups that an earlier test has left
  }
  int step() { return wait_for_change(dict_, key_, &version_); }
  const KeyVersion& version() const { return version_; }

 private:
  Dict& dict_;
  const std::string key_;
  KeyVersion version_;
};

class VersionsTest : public DictTest {
 protected:
  explicit VersionsTest(std::uint64_t size = kOneShard) : DictTest({.size = size, .versions = true}) {}

  std::int64_t number_of(std::string_view key) { return dict.version(key).number; }
  Stripe& stripe_of(std::string_view key) { return shard().stripes().of(Key(key, dict.segment().seed()).short_hash()); }
  /// Returns another key that shares the key's version.
  std::string neighbour_of(std::string_view key) {
    const std::uint32_t stripe = dict.version(key).stripe;
    for (int i = 0;; ++i)
      if (std::string other = "neighbour-" + std::to_string(i); dict.version(other).stripe == stripe) return other;
  }
};

// --- what changes a version ---

struct Change {
  const char* name;
  std::function<int(Dict&)> prepare;
  std::function<int(Dict&)> make;
};

int pushed(int length) { return length > 0 ? HOLDFAST_OK : -length; }

int no_preparation(Dict& /*dict*/) { return HOLDFAST_OK; }

std::vector<Change> all_changes() {
  static const Got old = text("old");
  static const Got then = text("then");
  static double sum;
  static const auto set_text = [](Dict& dict) { return dict.set("k", "old"); };
  static const auto set_five = [](Dict& dict) { return dict.set_number("k", 5); };
  static const auto make_list = [](int length) {
    return [length](Dict& dict) {
      for (int i = 0; i < length; ++i)
        if (const int code = pushed(dict.push("k", HOLDFAST_RIGHT, "element")); code != HOLDFAST_OK) return code;
      return int{HOLDFAST_OK};
    };
  };
  static const auto set_twice = [](Dict& dict) { return dict.set("k", "one") + dict.set("k", "two"); };
  return {
      {"set of a new key", no_preparation, set_text},
      {"set of a longer value", set_text, [](Dict& dict) { return dict.set("k", std::string(300, 'x')); }},
      {"set of a value of the same size", set_text, [](Dict& dict) { return dict.set("k", "new"); }},
      {"set into the spare block", set_twice, [](Dict& dict) { return dict.set("k", "new"); }},
      {"set of a number over a number", set_five, [](Dict& dict) { return dict.set_number("k", 6); }},
      {"set of a boolean over a boolean", [](Dict& dict) { return dict.set_boolean("k", true); },
       [](Dict& dict) { return dict.set_boolean("k", false); }},
      {"set with an exptime", set_text, [](Dict& dict) { return dict.set("k", "old", 300); }},
      {"add", no_preparation, [](Dict& dict) { return dict.add("k", "v"); }},
      {"replace", set_text, [](Dict& dict) { return dict.replace("k", "v"); }},
      {"safe_set", set_text, [](Dict& dict) { return dict.store(HOLDFAST_SAFE_SET, "k", "v", 0, 0); }},
      {"delete", set_text, [](Dict& dict) { return dict.remove("k"); }},
      {"incr", set_five, [](Dict& dict) { return dict.incr("k", 1, &sum); }},
      {"incr of a number that expires", [](Dict& dict) { return dict.set_number("k", 5, 300); },
       [](Dict& dict) { return dict.incr("k", 1, &sum); }},
      {"incr of a new key", no_preparation, [](Dict& dict) { return dict.incr_from("k", 1, 2, 0, &sum); }},
      {"cas", set_text, [](Dict& dict) { return dict.cas("k", &old, &then); }},
      {"cas to nothing", set_text, [](Dict& dict) { return dict.cas("k", &old, nullptr); }},
      {"expire", set_text, [](Dict& dict) { return dict.expire("k", 300); }},
      {"push to a new key", no_preparation,
       [](Dict& dict) { return pushed(dict.push("k", HOLDFAST_LEFT, "element")); }},
      {"push left", make_list(2), [](Dict& dict) { return pushed(dict.push("k", HOLDFAST_LEFT, "element")); }},
      {"push right", make_list(2), [](Dict& dict) { return pushed(dict.push("k", HOLDFAST_RIGHT, "element")); }},
      {"pop", make_list(3), [](Dict& dict) { return dict.pop("k", HOLDFAST_LEFT).code; }},
      {"pop of the last element", make_list(1), [](Dict& dict) { return dict.pop("k", HOLDFAST_LEFT).code; }},
      {"set over a list", make_list(3), [](Dict& dict) { return dict.set("k", "v"); }},
      {"flush_all", set_text, [](Dict& dict) { return dict.flush_all(); }},
      {"store_unless_changed", set_text,
       [](Dict& dict) {
         KeyVersion known = dict.version("k");
         return dict.store_unless_changed("k", &known, &then);
       }},
      {"store_unless_changed to nothing", set_text,
       [](Dict& dict) {
         KeyVersion known = dict.version("k");
         return dict.store_unless_changed("k", &known, nullptr);
       }},
  };
}

void expect_that_all_changes_are_noticed(Dict& dict) {
  for (const Change& change : all_changes()) {
    SCOPED_TRACE(change.name);
    dict.remove("k");
    ASSERT_EQ(change.prepare(dict), HOLDFAST_OK);
    Watching waiter(dict, "k");
    const KeyVersion before = waiter.version();
    EXPECT_TRUE(dict.is_current(before));
    ASSERT_EQ(waiter.step(), HOLDFAST_UNCHANGED);
    ASSERT_EQ(change.make(dict), HOLDFAST_OK);
    EXPECT_FALSE(dict.is_current(before));
    EXPECT_NE(dict.version("k").number, before.number);
    EXPECT_TRUE(waiter.sleep(0)) << "the waiter was not woken";
    EXPECT_EQ(waiter.step(), HOLDFAST_OK);
    EXPECT_EQ(waiter.version().number, dict.version("k").number);
    EXPECT_TRUE(dict.is_current(dict.version("k")));
  }
}

TEST_F(VersionsTest, every_change_of_a_value_changes_its_version_and_wakes_its_waiters) {
  expect_that_all_changes_are_noticed(dict);
}

TEST_F(VersionsTest, every_change_also_changes_the_version_in_a_dictionary_of_many_shards) {
  const std::string name = new_name();
  Dict large(name, {.size = kManyShards, .versions = true});
  ASSERT_GT(large.segment().geometry().shards, 1U);
  expect_that_all_changes_are_noticed(large);
  holdfast_remove(name.data(), name.size());
}

TEST_F(VersionsTest, calls_that_change_no_value_leave_the_version_unchanged) {
  const std::string other = neighbour_of("k");
  ASSERT_EQ(dict.set("k", "v"), HOLDFAST_OK);
  const KeyVersion before = dict.version("k");
  double sum = 0;
  const Got was = text("something else");
  const Got then = text("then");
  EXPECT_EQ(dict.get("k"), text("v"));
  EXPECT_EQ(dict.get(other), nothing());
  EXPECT_EQ(dict.add("k", "w"), HOLDFAST_EXISTS);
  EXPECT_EQ(dict.replace(other, "w"), HOLDFAST_NOT_FOUND);
  EXPECT_EQ(dict.remove(other), HOLDFAST_OK) << "deleting a missing key is not an error";
  EXPECT_EQ(dict.cas("k", &was, &then), HOLDFAST_DIFFERS);
  EXPECT_EQ(dict.incr("k", 1, &sum), HOLDFAST_NOT_A_NUMBER);
  EXPECT_EQ(dict.push("k", HOLDFAST_LEFT, "w"), -HOLDFAST_NOT_A_LIST);
  EXPECT_EQ(dict.pop(other, HOLDFAST_LEFT), nothing());
  EXPECT_EQ(dict.expire(other, 5), HOLDFAST_NOT_FOUND);
  EXPECT_EQ(dict.store(HOLDFAST_SET, "k", std::string(1 << 20, 'x'), 0, 0), HOLDFAST_TOO_LARGE);
  EXPECT_EQ(dict.ttl("k"), 0);
  EXPECT_EQ(dict.flush_expired(), 0);
  holdfast_lease lease{};
  EXPECT_EQ(dict.try_lock(other, 0, &lease), HOLDFAST_OK);
  EXPECT_EQ(dict.unlock(other, &lease), HOLDFAST_OK);
  EXPECT_TRUE(dict.is_current(before));
  EXPECT_EQ(number_of("k"), before.number);
  EXPECT_EQ(dict.set(other, "w"), HOLDFAST_OK);
  EXPECT_FALSE(dict.is_current(before)) << "two keys that share a version must change together";
}

TEST_F(VersionsTest, a_value_that_expires_keeps_its_version_but_its_copy_is_no_longer_current) {
  ASSERT_EQ(dict.set("k", "v", 0.05), HOLDFAST_OK);
  KeyVersion copy{};
  ASSERT_EQ(dict.get_changed("k", &copy), text("v"));
  ASSERT_GT(copy.end, 0);
  EXPECT_TRUE(eventually([&] { return dict.get("k") == nothing(); }));
  EXPECT_FALSE(dict.is_current(copy));
  EXPECT_EQ(number_of("k"), copy.number);
  EXPECT_EQ(dict.flush_expired(), 1);
  EXPECT_EQ(number_of("k"), copy.number) << "freeing an expired value's memory does not change its version";
}

TEST_F(VersionsTest, a_flush_changes_all_versions) {
  std::vector<KeyVersion> before;
  for (int i = 0; i < 100; ++i) before.push_back(dict.version(std::to_string(i)));
  ASSERT_EQ(dict.flush_all(), HOLDFAST_OK);
  for (const KeyVersion& version : before) EXPECT_FALSE(dict.is_current(version));
}

TEST_F(VersionsTest, a_repair_changes_all_versions_of_the_shard) {
  ASSERT_GT(dict.push("list", HOLDFAST_LEFT, "element"), 0);
  std::vector<KeyVersion> before;
  for (int i = 0; i < 100; ++i) before.push_back(dict.version(std::to_string(i)));
  {
    const ShardGuard guard(shard());
    ASSERT_TRUE(guard.held());
    repair(shard());
  }
  for (const KeyVersion& version : before) EXPECT_FALSE(dict.is_current(version));
  for (const Stripe& stripe : shard().stripes()) ASSERT_TRUE(is_settled_version(stripe.version.load()));
}

// --- copies ---

TEST_F(VersionsTest, get_changed_reads_the_value_only_if_its_version_has_changed) {
  KeyVersion known{};
  EXPECT_EQ(dict.get_changed("k", &known), nothing());
  EXPECT_TRUE(dict.is_current(known)) << "the absence of a value must also count as a copy";
  EXPECT_EQ(dict.get_changed("k", &known).code, HOLDFAST_UNCHANGED);
  ASSERT_EQ(dict.set("k", "v"), HOLDFAST_OK);
  EXPECT_FALSE(dict.is_current(known));
  EXPECT_EQ(dict.get_changed("k", &known, 0).code, HOLDFAST_BUFFER);
  EXPECT_EQ(dict.get_changed("k", &known), text("v"))
      << "the failed call with a small buffer must leave the known version unchanged";
  EXPECT_TRUE(dict.is_current(known));
  EXPECT_EQ(known.number, number_of("k"));
  EXPECT_EQ(dict.get_changed("k", &known).code, HOLDFAST_UNCHANGED);
  known.number = 0;
  EXPECT_EQ(dict.get_changed("k", &known), text("v"));
  EXPECT_GT(known.number, 0);
}

TEST_F(VersionsTest, the_words_tell_what_is_current_and_outlive_the_dictionary) {
  const std::unique_ptr<holdfast_versions, decltype(&holdfast_release_versions)> words(
      holdfast_keep_versions(dict.handle), &holdfast_release_versions);
  ASSERT_NE(words, nullptr);
  const auto number = [&](const KeyVersion& version) {
    return words->base + words->words[std::size_t{2} * version.stripe] + 2 * *words->flushes;
  };
  for (int i = 0; i < 100; ++i) {
    const std::string key = std::to_string(i);
    const KeyVersion before = dict.version(key);
    EXPECT_EQ(number(before), before.number);
    ASSERT_EQ(i % 10 == 0 ? dict.flush_all() : dict.set(key, "v"), HOLDFAST_OK);
    EXPECT_NE(number(before), before.number);
    EXPECT_EQ(number(before), number_of(key));
  }
  const KeyVersion last = dict.version("k");
  EXPECT_EQ(*words->retired, 0);
  ASSERT_EQ(holdfast_remove(dict_name.data(), dict_name.size()), HOLDFAST_OK);
  EXPECT_EQ(dict.set("k", "v"), HOLDFAST_REMOVED) << "the removal was not noticed";
  EXPECT_NE(*words->retired, 0);
  EXPECT_EQ(number(last), last.number);
  EXPECT_EQ(holdfast_keep_versions(dict.handle), nullptr);
  EXPECT_EQ(holdfast_error(), "dictionary \"" + dict_name + "\" was removed");
  const Dict next(dict_name, {.size = kOneShard, .versions = true});
  EXPECT_EQ(next.status, HOLDFAST_OK);
}

TEST_F(VersionsTest, a_store_unless_changed_gives_the_version_of_its_value) {
  const Got value = text("v");
  const Got other = text("w");
  KeyVersion first = dict.version("k");
  KeyVersion second = first;
  ASSERT_EQ(dict.store_unless_changed("k", &first, &value, 300), HOLDFAST_OK);
  EXPECT_TRUE(dict.is_current(first));
  EXPECT_GT(first.end, 0);
  EXPECT_EQ(dict.store_unless_changed("k", &second, &other), HOLDFAST_DIFFERS);
  EXPECT_EQ(dict.get("k"), value);
  KeyVersion read{};
  ASSERT_EQ(dict.get_changed("k", &read), value);
  EXPECT_EQ(read.number, first.number);
  EXPECT_EQ(read.stripe, first.stripe);
  EXPECT_EQ(read.end, first.end);
  ASSERT_EQ(dict.store_unless_changed("k", &first, &other), HOLDFAST_OK);
  EXPECT_EQ(first.end, 0) << "the new value has no exptime";
  ASSERT_EQ(dict.store_unless_changed("k", &first, nullptr), HOLDFAST_OK);
  EXPECT_TRUE(dict.is_current(first));
  EXPECT_EQ(dict.get("k"), nothing());
  EXPECT_EQ(dict.store_unless_changed("k", &first, nullptr), HOLDFAST_OK)
      << "there was nothing to delete, so the version must not change";
}

// Some of the evicted keys share the version of the stored key.
TEST_F(VersionsTest, a_store_that_evicts_also_gives_the_version_of_its_value) {
  const Got value = text(std::string(500, 'v'));
  for (int i = 0; i < 30'000; ++i) {
    const std::string key = std::to_string(i);
    KeyVersion version = dict.version(key);
    ASSERT_EQ(dict.store_unless_changed(key, &version, &value), HOLDFAST_OK);
    ASSERT_TRUE(dict.is_current(version)) << i;
    ASSERT_EQ(version.number, number_of(key));
  }
  EXPECT_GT(dict.stats().evictions, 10'000U);
}

TEST_F(VersionsTest, the_versions_of_a_shard_that_was_never_used_are_known_without_opening_it) {
  const std::string name = new_name();
  Dict large(name, {.size = kManyShards, .versions = true});
  const KeyVersion before = large.version("k");
  EXPECT_GT(before.number, 0);
  EXPECT_TRUE(large.is_current(before));
  for (Shard& unused : large.segment().shards()) EXPECT_FALSE(unused.open_if_used());
  in_process([&] { EXPECT_EQ(large.set("k", "v"), HOLDFAST_OK); });
  EXPECT_FALSE(large.is_current(before));
  const KeyVersion after = large.version("k");
  EXPECT_EQ(large.flush_all(), HOLDFAST_OK);
  EXPECT_FALSE(large.is_current(after));
  holdfast_remove(name.data(), name.size());
}

// --- waiting ---

TEST_F(VersionsTest, a_caller_that_knows_an_older_version_does_not_wait) {
  KeyVersion known = dict.version("k");
  KeyVersion same = known;
  EXPECT_EQ(dict.wait_for_change("k", 0, &same), HOLDFAST_UNCHANGED);
  EXPECT_EQ(dict.wait_for_change("k", -1, &same), HOLDFAST_UNCHANGED);
  EXPECT_EQ(dict.wait_for_change("k", 0.02, &same), HOLDFAST_UNCHANGED) << "the value did not change";
  EXPECT_EQ(same.number, known.number);
  ASSERT_EQ(dict.set("k", "v"), HOLDFAST_OK);
  EXPECT_EQ(dict.wait_for_change("k", kLong, &known), HOLDFAST_OK);
  EXPECT_EQ(known.number, number_of("k"));
}

TEST_F(VersionsTest, a_wait_keeps_the_end_of_the_copy_that_it_compares) {
  ASSERT_EQ(dict.set("k", "v", 300), HOLDFAST_OK);
  KeyVersion copy{};
  ASSERT_EQ(dict.get_changed("k", &copy), text("v"));
  const std::int64_t end = copy.end;
  EXPECT_EQ(dict.wait_for_change("k", 0, &copy), HOLDFAST_UNCHANGED);
  EXPECT_EQ(copy.end, end);
}

TEST_F(VersionsTest, an_eviction_wakes_the_waiters_for_the_evicted_key) {
  ASSERT_EQ(dict.set("victim", std::string(500, 'v')), HOLDFAST_OK);
  Watching waiter(dict, "victim");
  ASSERT_EQ(waiter.step(), HOLDFAST_UNCHANGED);
  for (int i = 0; dict.keys().count("victim") != 0; ++i) {  // get() would prevent the eviction
    ASSERT_LT(i, 10'000);
    ASSERT_EQ(dict.set("filler-" + std::to_string(i), std::string(500, 'f')), HOLDFAST_OK);
  }
  EXPECT_TRUE(waiter.sleep(0));
  EXPECT_EQ(waiter.step(), HOLDFAST_OK);
}

TEST_F(VersionsTest, a_removal_wakes_all_waiters_and_no_version_is_current_afterwards) {
  ASSERT_EQ(dict.set("k", "v"), HOLDFAST_OK);
  const KeyVersion before = dict.version("k");
  Watching waiter(dict, "k");
  ASSERT_EQ(waiter.step(), HOLDFAST_UNCHANGED);
  in_process([&] { EXPECT_EQ(holdfast_remove(dict_name.data(), dict_name.size()), HOLDFAST_OK); });
  EXPECT_FALSE(dict.is_current(before));
  EXPECT_TRUE(waiter.sleep(kLong));
  EXPECT_EQ(waiter.step(), HOLDFAST_REMOVED);
  Dict successor(dict_name, {.versions = true});
  ASSERT_EQ(successor.status, HOLDFAST_OK) << holdfast_error();
  EXPECT_FALSE(dict.is_current(before));
  EXPECT_NE(number_of("k"), before.number);
}

TEST_F(VersionsTest, threads_that_wait_in_one_process_are_all_woken) {
  constexpr int kThreads = 4;
  std::vector<int> codes(kThreads, -1);
  std::vector<KeyVersion> known(kThreads);
  for (int i = 0; i < kThreads; ++i) known[static_cast<std::size_t>(i)] = dict.version(std::to_string(i));
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kThreads; ++i)
    threads.emplace_back([&, i] { codes[i] = dict.wait_for_change(std::to_string(i), kLong, &known[i]); });
  for (int i = 0; i < kThreads; ++i) EXPECT_EQ(dict.set(std::to_string(i), "v"), HOLDFAST_OK);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(codes, std::vector<int>(kThreads, HOLDFAST_OK));
}

/// A process that watches the key. When it is told to check its mail, it reports whether it was woken.
class WatchingProcess : public Started {
 public:
  explicit WatchingProcess(Dict& dict)
      : Started("watching", [&dict](Channel& parent) {
          Watching waiter(dict, "k");
          parent.say(waiter.step() == HOLDFAST_UNCHANGED ? "watching" : "it has changed");
          parent.hear();
          parent.say(waiter.sleep(0) && waiter.step() == HOLDFAST_OK ? "woken" : "not woken");
          return 0;
        }) {}
};

TEST_F(VersionsTest, all_processes_that_wait_are_woken_even_if_their_slots_share_a_bit) {
  constexpr std::size_t kProcesses = 70;
  std::vector<std::unique_ptr<WatchingProcess>> processes;
  for (std::size_t i = 0; i < kProcesses; ++i) processes.push_back(std::make_unique<WatchingProcess>(dict));
  ASSERT_EQ(dict.set("k", "v"), HOLDFAST_OK);
  std::size_t woken = 0;
  for (const auto& process : processes) woken += process->ask("look") == "woken" ? 1 : 0;
  EXPECT_EQ(woken, kProcesses);
}

TEST_F(VersionsTest, a_change_by_another_process_ends_a_wait) {
  Child waiter([&](Channel& parent) {
    KeyVersion known = dict.version("k");
    parent.say("waits");
    return dict.wait_for_change("k", kLong, &known);
  });
  ASSERT_EQ(waiter.hear(), "waits");
  EXPECT_TRUE(eventually([&] { return stripe_of("k").watchers.load() != 0; }));
  ASSERT_EQ(dict.set("k", "v"), HOLDFAST_OK);
  EXPECT_EQ(waiter.wait(), HOLDFAST_OK);
}

// --- a process that dies or stops in a change ---

/// A process that is in the middle of a change of the shard.
class Changing : public Inside {
 public:
  Changing(Dict& dict, Stripe& stripe) : Inside(dict) { Stripes::begin_change(stripe); }
};

TEST_F(VersionsTest, the_version_of_a_dead_writer_is_settled_by_the_next_caller_that_asks_for_it) {
  ASSERT_EQ(dict.set("k", "v"), HOLDFAST_OK);
  KeyVersion copy{};
  ASSERT_EQ(dict.get_changed("k", &copy), text("v"));
  Changing writer(dict, stripe_of("k"));
  writer.kill_and_wait();
  EXPECT_FALSE(dict.is_current(copy));
  const std::int64_t number = number_of("k");
  EXPECT_EQ(number % 2, 0);
  EXPECT_NE(number, copy.number);
  EXPECT_EQ(dict.stats().repairs, 1U);
}

TEST_F(VersionsTest, while_a_writer_is_stopped_nothing_is_current_or_unchanged_and_reads_work) {
  ASSERT_EQ(dict.set("k", "v"), HOLDFAST_OK);
  KeyVersion known{};
  ASSERT_EQ(dict.get_changed("k", &known), text("v"));
  const KeyVersion before = known;
  Changing writer(dict, stripe_of("k"));
  EXPECT_EQ(dict.get_changed("k", &known), text("v"));
  EXPECT_EQ(known.number, before.number + 1);
  EXPECT_FALSE(dict.is_current(before));
  EXPECT_FALSE(dict.is_current(known));
  EXPECT_EQ(dict.get_changed("k", &known), text("v"))
      << "the writer may already have committed, so the value must be read again";
  EXPECT_EQ(dict.wait_for_change("k", 0, &known), HOLDFAST_UNCHANGED);
  Child waiter([&](Channel& parent) {
    KeyVersion odd = known;
    parent.say("waits");
    return dict.wait_for_change("k", kLong, &odd);
  });
  ASSERT_EQ(waiter.hear(), "waits");
  EXPECT_TRUE(eventually([&] { return stripe_of("k").watchers.load() != 0; }));
  writer.kill_and_wait();
  EXPECT_EQ(waiter.wait(), HOLDFAST_OK)
      << "the waiter must end its wait although no other process changes the dictionary";
}

// --- opening ---

TEST_F(VersionsTest, a_dictionary_without_versions_is_refused_to_callers_that_need_them) {
  const std::string name = new_name();
  Dict plain(name);
  ASSERT_EQ(plain.status, HOLDFAST_OK);
  EXPECT_EQ(Dict(name, {.versions = true}).status, HOLDFAST_MISMATCH);
  KeyVersion version{};
  EXPECT_EQ(holdfast_key_version(plain.handle, "k", 1, &version), HOLDFAST_UNSUPPORTED);
  EXPECT_EQ(plain.get_changed("k", &version).code, HOLDFAST_UNSUPPORTED);
  EXPECT_EQ(plain.wait_for_change("k", 0, &version), HOLDFAST_UNSUPPORTED);
  EXPECT_EQ(plain.store_unless_changed("k", &version, nullptr), HOLDFAST_UNSUPPORTED);
  EXPECT_FALSE(plain.is_current(version));
  holdfast_remove(name.data(), name.size());
  in_process([&] {
    Dict same(dict_name);
    ASSERT_EQ(same.status, HOLDFAST_OK) << holdfast_error();
    const KeyVersion before = same.version("k");
    EXPECT_EQ(same.set("k", "v"), HOLDFAST_OK);
    EXPECT_FALSE(same.is_current(before)) << "the versions on which other processes rely were ignored";
  });
}

TEST_F(VersionsTest, an_overwritten_number_of_stripes_is_detected) {
  World& world = **World::current();
  DictionaryHeader& header = dict.segment().header();
  const std::uint32_t stripes = header.stripes;
  for (const std::uint32_t other : {0U, 1U, stripes / 2, stripes * 2, ~0U}) {
    header.stripes = other;
    EXPECT_EQ(Segment::attach(world, dict_name).status().code, Code::corrupt) << other;
  }
  header.stripes = stripes;
  EXPECT_TRUE(Segment::attach(world, dict_name));
}

TEST_F(VersionsTest, overwritten_stripes_affect_only_copies) {
  ASSERT_EQ(dict.set("k", "v"), HOLDFAST_OK);
  for (const std::uint64_t word : {~std::uint64_t{0}, std::uint64_t{1} << 53, std::uint64_t{0}}) {
    for (Stripe& stripe : shard().stripes()) stripe.version.store(word), stripe.watchers.store(word);
    const KeyVersion before = dict.version("k");
    EXPECT_LT(before.number, std::int64_t{1} << 53);
    EXPECT_EQ(dict.set("k", "w"), HOLDFAST_OK);
    EXPECT_FALSE(dict.is_current(before));
    EXPECT_TRUE(dict.is_current(dict.version("k")));
  }
  for (const std::uint32_t stripe : {4096U, 1U << 31, ~0U})
    EXPECT_FALSE(dict.is_current({dict.version("k").number, stripe, 0, 0})) << "the stripe does not exist";
}

}  // namespace
}  // namespace holdfast::test
