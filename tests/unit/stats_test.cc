// Tests what each of a dictionary's counts includes.
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "dict/guard.h"
#include "support/dict_test.h"

namespace holdfast::test {
namespace {

class StatsTest : public DictTest {
 protected:
  holdfast_lease lease{};
};

TEST_F(StatsTest, entries_counts_all_entries_except_locks_that_nobody_holds) {
  for (int i = 0; i < 40; ++i) dict.set("k" + std::to_string(i), "v");
  dict.set("k0", "another value of the same key");
  dict.push("list", HOLDFAST_LEFT, "one");
  dict.push("list", HOLDFAST_LEFT, "two");
  dict.try_lock("held", 0, &lease);
  EXPECT_EQ(dict.stats().entries, 42U);
  dict.unlock("held", &lease);
  EXPECT_EQ(dict.stats().entries, 41U);
  for (int i = 0; i < 10; ++i) dict.remove("k" + std::to_string(i));
  dict.set("expired", "v", 0.001);
  sleep_ms(20);
  EXPECT_EQ(dict.stats().entries, 32U) << "the expired entry must still count, because its memory was not needed yet";
  EXPECT_EQ(dict.flush_expired(), 1);
  EXPECT_EQ(dict.stats().entries, 31U);
}

TEST_F(StatsTest, bytes_used_and_free_add_up_to_the_arenas) {
  const holdfast_stats before = dict.stats();
  const std::uint64_t all = before.bytes_used + before.bytes_free;
  EXPECT_LE(all, holdfast_capacity(dict.handle));
  dict.set("k", std::string(1000, 'v'));
  const holdfast_stats after = dict.stats();
  EXPECT_EQ(after.bytes_used + after.bytes_free, all);
  EXPECT_GE(after.bytes_used, before.bytes_used + 1000);
  EXPECT_LE(after.bytes_used, before.bytes_used + 1100);
  EXPECT_EQ(after.bytes_free, dict.free_space());
  dict.remove("k");
  EXPECT_EQ(dict.stats().bytes_used, before.bytes_used);
}

TEST_F(StatsTest, a_hit_is_a_get_that_finds_a_value) {
  dict.set("k", "v");
  dict.push("list", HOLDFAST_LEFT, "one");
  dict.set("expired", "v", 0.001);
  sleep_ms(20);
  for (int i = 0; i < 5; ++i) dict.get("k");
  dict.get("list");
  dict.get("missing");
  dict.get("missing");
  dict.get("expired");
  EXPECT_EQ(dict.stats().hits, 6U);
  EXPECT_EQ(dict.stats().misses, 3U);
  bool stale = false;
  dict.get_stale("k", &stale);
  dict.get_stale("expired", &stale);
  dict.get_stale("missing", &stale);
  EXPECT_EQ(dict.stats().hits, 8U);
  EXPECT_EQ(dict.stats().misses, 4U);
  dict.ttl("k");
  dict.llen("list");
  dict.keys();
  dict.add("k", "w");
  double sum = 0;
  dict.incr_from("n", 1, 0, 0, &sum);
  EXPECT_EQ(dict.stats().hits + dict.stats().misses, 12U) << "only gets must count";
}

TEST_F(StatsTest, a_get_that_is_repeated_with_a_larger_buffer_counts_once) {
  dict.set("k", "twelve bytes");
  char buffer[12];
  holdfast_value value{};
  value.data = buffer;
  EXPECT_EQ(holdfast_get(dict.handle, "k", 1, &value), HOLDFAST_BUFFER);
  EXPECT_EQ(dict.stats().hits, 0U);
  value.capacity = sizeof buffer;
  EXPECT_EQ(holdfast_get(dict.handle, "k", 1, &value), HOLDFAST_OK);
  EXPECT_EQ(dict.stats().hits, 1U);
}

TEST_F(StatsTest, the_reads_of_processes_add_up) {
  dict.set("k", "v");
  constexpr int kReads = 20000;
  std::vector<std::unique_ptr<Child>> readers;
  for (int i = 0; i < 3; ++i) {
    readers.push_back(std::make_unique<Child>([this](Channel&) {
      for (int j = 0; j < kReads; ++j) dict.get(j % 4 == 0 ? "missing" : "k");
      return 0;
    }));
  }
  for (auto& reader : readers) EXPECT_EQ(reader->wait(), 0);
  EXPECT_EQ(dict.stats().hits, 3U * kReads * 3 / 4) << "each process has its own count, so no read may be lost";
  EXPECT_EQ(dict.stats().misses, 3U * kReads / 4);
}

TEST_F(StatsTest, expirations_counts_entries_reclaimed_after_their_end) {
  for (int i = 0; i < 10; ++i) dict.set("expired" + std::to_string(i), "v", 0.001);
  for (int i = 0; i < 5; ++i) dict.set("stays" + std::to_string(i), "v");
  sleep_ms(20);
  EXPECT_EQ(dict.stats().expirations, 0U);
  EXPECT_EQ(dict.flush_expired(4), 4);
  EXPECT_EQ(dict.stats().expirations, 4U);
  dict.flush_all();
  EXPECT_EQ(dict.flush_expired(), 11);
  EXPECT_EQ(dict.stats().expirations, 15U);
  dict.set("k", "v");
  dict.remove("k");
  EXPECT_EQ(dict.stats().expirations, 15U) << "a deletion must not count as an expiration";
  EXPECT_EQ(dict.stats().evictions, 0U);
}

TEST_F(StatsTest, a_process_killed_inside_a_change_costs_one_repair) {
  dict.set("k", "v");
  for (std::uint64_t i = 1; i <= 3; ++i) {
    Inside victim(dict);
    EXPECT_EQ(victim.kill_and_wait(), 128 + 9);
    EXPECT_EQ(dict.stats().repairs, i - 1) << "a read takes no mutex, so it must not cause a repair";
    EXPECT_EQ(dict.set("k", "v" + std::to_string(i)), HOLDFAST_OK);
    EXPECT_EQ(dict.stats().repairs, i);
  }
}

/// A change waits while another change is in progress in the shard. The wait must be counted once, with every kind of
/// mutex.
class WaitsTest : public ::testing::TestWithParam<holdfast_mutex> {};

TEST_P(WaitsTest, a_change_that_waited_for_another_is_counted_once) {
  Dict dict(new_name(), {.mutex = GetParam()});
  ASSERT_EQ(dict.status, HOLDFAST_OK) << holdfast_error();
  for (int i = 0; i < 100; ++i) dict.set("k", "v");
  EXPECT_EQ(dict.stats().mutex_waits, 0U) << "a wait was counted although there was no other change";
  Inside other(dict);
  std::thread letting_go([&] {
    eventually([&] { return dict.stats().mutex_waits != 0; });
    sleep_ms(10);
    other.say("go");
  });
  // An attempt gives up after a second, and counts once.
  std::uint64_t waits = 1;
  while (dict.set("k", "w") == HOLDFAST_TIMEOUT) ++waits;
  letting_go.join();
  EXPECT_EQ(dict.get("k"), text("w"));
  EXPECT_EQ(dict.stats().mutex_waits, waits);
}

std::string mutex_name(const ::testing::TestParamInfo<holdfast_mutex>& given) {
  return strategy_name(static_cast<MutexStrategy>(given.param));
}
INSTANTIATE_TEST_SUITE_P(mutexes, WaitsTest,
                         ::testing::Values(HOLDFAST_MUTEX_FUTEX, HOLDFAST_MUTEX_SPIN, HOLDFAST_MUTEX_FILE), mutex_name);

TEST_F(StatsTest, counts_read_in_the_middle_of_a_change_are_plausible) {
  dict.set("k", "v");

  ASSERT_EQ(dict.try_lock("free", 0, &lease), HOLDFAST_OK);
  ASSERT_EQ(dict.unlock("free", &lease), HOLDFAST_OK);
  EXPECT_EQ(dict.stats().entries, 1U) << "a free lock must not count as an entry";
  ShardHeader& header = dict.segment().shards().front().header();
  // A reader may load these values while a lock's entry is created.
  header.entries.store(0);
  EXPECT_EQ(dict.stats().entries, 0U);
  header.free_granules.store(~0U);
  EXPECT_EQ(dict.stats().bytes_used, 0U);
  EXPECT_EQ(repair(dict.segment().shards().front()), 0U);
  EXPECT_EQ(dict.stats().entries, 1U);
}

TEST_F(StatsTest, a_removed_dictionary_has_no_counts) {
  Dict gone(new_name());
  gone.set("k", "v");
  const std::string name = gone.dictionary().name();
  ASSERT_EQ(holdfast_remove(name.data(), name.size()), HOLDFAST_OK);
  holdfast_stats stats{};
  stats.entries = 99;
  EXPECT_EQ(holdfast_dict_stats(gone.handle, &stats), HOLDFAST_REMOVED);
  EXPECT_EQ(stats.entries, 0U);
  EXPECT_EQ(gone.free_space(), 0U);
}

}  // namespace
}  // namespace holdfast::test
