// Tests the histograms of waits and holds, and the keys with the most contention: what is counted, how exact the
// numbers are, what they cost, and that no content of their memory does harm. spec/contention_spec.lua tests a wait and
// a hold of each kind.
#include "dict/statistics.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/hash.h"
#include "support/dict_test.h"
#include "support/small_world.h"
#include "support/waiting.h"

namespace holdfast::test {
namespace {

constexpr std::uint64_t kMs = 1'000'000;

holdfast_histogram histogram_of(Dict& dict, int held, int time) {
  auto histogram = std::make_unique<holdfast_histogram>();
  histogram->struct_size = sizeof *histogram;
  EXPECT_EQ(holdfast_dict_histogram(dict.handle, held, time, histogram.get()), HOLDFAST_OK) << holdfast_error();
  return *histogram;
}
holdfast_histogram waited(Dict& dict, int held = HOLDFAST_HELD_LOCK) {
  return histogram_of(dict, held, HOLDFAST_TIME_WAITED);
}
holdfast_histogram held_for(Dict& dict, int held = HOLDFAST_HELD_LOCK) {
  return histogram_of(dict, held, HOLDFAST_TIME_HELD);
}

std::vector<holdfast_contended> contention(Dict& dict, std::uint32_t max = HOLDFAST_CONTENDED_MAX) {
  std::vector<holdfast_contended> keys(max);
  std::uint32_t count = 0;
  EXPECT_EQ(holdfast_dict_contention(dict.handle, keys.data(), sizeof keys[0], max, &count), HOLDFAST_OK);
  keys.resize(count);
  return keys;
}
std::string key_of(const holdfast_contended& one) {
  return {one.key, std::min<std::size_t>(one.key_length, sizeof one.key)};
}

// --- buckets ---

TEST(Histogram, each_time_is_in_its_bucket_whose_middle_is_at_most_3_percent_off) {
  std::mt19937_64 random(seed_of_run());
  std::vector<std::uint64_t> times;
  for (std::uint64_t ns = 1; ns < 270'000'000'000'000; ns = ns * 9 / 8 + 1) times.insert(times.end(), {ns - 1, ns});
  for (int i = 0; i < 100'000; ++i) times.push_back(random() >> (16 + random() % 48));
  for (const std::uint64_t ns : times) {
    const std::uint32_t bucket = bucket_of(ns);
    ASSERT_LT(bucket, kBuckets);
    const std::uint64_t begin = bucket == 0 ? 0 : end_of_bucket(bucket - 1);
    ASSERT_GE(ns, begin);
    if (bucket == kBuckets - 1) continue;
    ASSERT_LT(ns, end_of_bucket(bucket));
    const double middle = (static_cast<double>(begin) + static_cast<double>(end_of_bucket(bucket))) / 2;
    if (ns >= kExactNs) {
      ASSERT_LE(std::abs(middle - static_cast<double>(ns)), 0.0313 * static_cast<double>(ns)) << ns;
    }
  }
  EXPECT_EQ(bucket_of(~std::uint64_t{0}), kBuckets - 1);
  EXPECT_GT(end_of_bucket(kBuckets - 2), std::uint64_t{3} * 86'400'000 * kMs) << "3 days";
  EXPECT_EQ(holdfast_bucket_end(0), 1e-9);
  EXPECT_TRUE(std::isinf(holdfast_bucket_end(kBuckets - 1)));
  EXPECT_TRUE(std::isinf(holdfast_bucket_end(~0U)));
}

TEST(Histogram, quantiles_match_the_counted_times) {
  auto histogram = std::make_unique<holdfast_histogram>();
  EXPECT_EQ(holdfast_quantile(histogram.get(), 0.5), 0);
  for (const std::uint64_t us : {10, 20, 30, 40, 50, 60, 70, 80, 90, 5000}) ++histogram->buckets[bucket_of(us * 1000)];
  histogram->count = 10;
  histogram->max = 5e-3;
  EXPECT_NEAR(holdfast_quantile(histogram.get(), 0), 10e-6, 0.4e-6);
  EXPECT_NEAR(holdfast_quantile(histogram.get(), 0.5), 50e-6, 2e-6);
  EXPECT_NEAR(holdfast_quantile(histogram.get(), 0.9), 90e-6, 3e-6);
  EXPECT_LE(holdfast_quantile(histogram.get(), 1), 5e-3) << "a quantile must not exceed the longest time";
  EXPECT_NEAR(holdfast_quantile(histogram.get(), 1), 5e-3, 0.2e-3);
  for (const double bad : {-0.1, 1.1, std::nan("")}) EXPECT_EQ(holdfast_quantile(histogram.get(), bad), 0);
}

// --- waits ---

class StatisticsTest : public DictTest {
 protected:
  /// Waits until the next hold is certain to be measured, even by a clock that is far behind.
  static void rest() { sleep_ms(250); }
  /// Takes "key" as `theirs`, and queues the waiter for it.
  void queue(Waiting& waiting, double exptime = 0) {
    ASSERT_EQ(dict.try_lock("key", exptime, &theirs), HOLDFAST_OK);
    ASSERT_EQ(waiting.once(dict, "key", &mine), HOLDFAST_LOCKED);
  }
  /// Holds "key" for this time.
  void hold(int ms, double exptime = 0) {
    ASSERT_EQ(dict.try_lock("key", exptime, &mine), HOLDFAST_OK);
    if (ms != 0) sleep_ms(ms);
    ASSERT_EQ(dict.unlock("key", &mine), HOLDFAST_OK);
  }

  holdfast_lease mine{};
  holdfast_lease theirs{};
};

TEST_F(StatisticsTest, a_caller_that_gets_the_lock_immediately_or_only_watches_counts_no_wait) {
  Waiting waiting;
  ASSERT_EQ(waiting.once(dict, "key", &mine), HOLDFAST_OK);
  std::uint64_t grant = 0;
  ASSERT_EQ(waiting.watch(dict, "key", &grant), HOLDFAST_LOCKED);
  ASSERT_EQ(waiting.leave(dict, "key"), HOLDFAST_OK);
  EXPECT_EQ(waited(dict).count, 0U);
  EXPECT_TRUE(contention(dict).empty());
}

TEST_F(StatisticsTest, a_refused_attempt_counts_unless_it_begins_a_wait) {
  ASSERT_EQ(dict.try_lock("key", 0, &theirs), HOLDFAST_OK);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(dict.try_lock("key", 0, &mine), HOLDFAST_LOCKED);
  for (int i = 0; i < 5; ++i)
    ASSERT_EQ(holdfast_lock_try(dict.handle, "key", 3, 0, 0, HOLDFAST_HOW_FIRST, &mine), HOLDFAST_LOCKED);
  ASSERT_EQ(dict.try_permits("pool", HOLDFAST_SEMAPHORE, 1, 1, 0, &mine), HOLDFAST_OK);
  ASSERT_EQ(dict.try_permits("pool", HOLDFAST_SEMAPHORE, 1, 1, 0, &mine), HOLDFAST_LOCKED);
  const auto keys = contention(dict);
  ASSERT_EQ(keys.size(), 2U);
  EXPECT_EQ(key_of(keys[0]), "key") << "the worst key must come first";
  EXPECT_EQ(keys[0].refused, 3U);
  EXPECT_EQ(keys[0].waits, 0U);
  EXPECT_EQ(keys[0].kind, static_cast<std::uint32_t>(HOLDFAST_HELD_LOCK));
  EXPECT_EQ(keys[1].refused, 1U);
  EXPECT_EQ(keys[1].kind, static_cast<std::uint32_t>(HOLDFAST_HELD_SEMAPHORE));
  EXPECT_EQ(contention(dict, 1).size(), 1U);
  EXPECT_EQ(waited(dict).count, 0U);
}

// Only one in 64 is counted, 64 times.
TEST_F(StatisticsTest, frequent_refusals_of_several_keys_count_about_once_each) {
  constexpr int kKeys = 16;  // divides the number of refusals for each that counts
  constexpr int kEach = 50'000;
  std::array<std::string, kKeys> names;
  for (int i = 0; i < kKeys; ++i) names[static_cast<std::size_t>(i)] = "key " + std::to_string(i);
  for (const std::string& name : names) ASSERT_EQ(dict.try_lock(name, 100, &theirs), HOLDFAST_OK);
  for (int i = 0; i < kEach; ++i)
    for (const std::string& name : names) ASSERT_EQ(dict.try_lock(name, 0, &mine), HOLDFAST_LOCKED);
  const auto keys = contention(dict);
  ASSERT_EQ(keys.size(), std::size_t{kKeys});
  for (const auto& key : keys) EXPECT_NEAR(static_cast<double>(key.refused), kEach, kEach / 10) << key_of(key);
}

// --- holds ---

TEST_F(StatisticsTest, rare_holds_are_counted_one_by_one_however_locks_are_taken_and_released) {
  const std::function<void()> ways[] = {
      [&] { ASSERT_EQ(dict.try_lock("key", 0, &mine), HOLDFAST_OK); },   // creates the lock
      [&] { ASSERT_EQ(dict.try_lock("key", 5, &mine), HOLDFAST_OK); },   // without the mutex
      [&] { ASSERT_EQ(dict.try_lock("key", 60, &mine), HOLDFAST_OK); },  // measured with the coarse clock
      [&] {
        ASSERT_EQ(dict.try_lock("key", 0, &mine), HOLDFAST_OK);
        ASSERT_EQ(dict.explain("key", mine, "why"), HOLDFAST_OK);  // released with the mutex
      },
      [&] {
        Waiting waiting;
        queue(waiting);
        rest();
        ASSERT_EQ(dict.unlock("key", &theirs), HOLDFAST_OK);  // reserves it for the waiter
        ASSERT_EQ(waiting.once(dict, "key", &mine), HOLDFAST_OK);
      },
  };
  std::uint64_t count = 0;
  for (const auto& take : ways) {
    rest();
    const bool both = &take == &ways[4];
    take();
    sleep_ms(10);
    ASSERT_EQ(dict.unlock("key", &mine), HOLDFAST_OK);
    count += both ? 2 : 1;
    EXPECT_EQ(held_for(dict).count, count) << "way " << &take - ways;
    EXPECT_GE(held_for(dict).sum, 0.010 * static_cast<double>(count));
  }
  for (const int kind : {HOLDFAST_RWLOCK, HOLDFAST_SEMAPHORE}) {
    rest();
    ASSERT_EQ(dict.try_permits("permits", kind, 1, 3, 0, &mine), HOLDFAST_OK);
    sleep_ms(10);
    ASSERT_EQ(dict.unlock("permits", &mine), HOLDFAST_OK);
    const int held = kind == HOLDFAST_RWLOCK ? HOLDFAST_HELD_RWLOCK : HOLDFAST_HELD_SEMAPHORE;
    EXPECT_EQ(held_for(dict, held).count, 1U);
    EXPECT_GE(held_for(dict, held).sum, 0.010);
  }
}

TEST_F(StatisticsTest, a_sample_counts_for_all_holds_in_quick_succession) {
  constexpr int kHolds = 200'000;
  for (int i = 0; i < kHolds; ++i) hold(0, 30);
  // The count is 256 times a random number whose standard deviation is 28.
  EXPECT_NEAR(static_cast<double>(held_for(dict).count), kHolds, 6 * 28 * 256);
}

TEST_F(StatisticsTest, each_long_hold_among_many_short_ones_counts_once_with_its_time) {
  constexpr int kLong = 20;
  constexpr double kSeconds = 0.03;
  double least = 0;
  for (const double exptime : {0.0, 5.0, 60.0}) {
    for (int i = 0; i < kLong; ++i) {
      for (int n = 0; n < 1000; ++n) hold(0, exptime);
      hold(30, exptime);
    }
    least += kLong * kSeconds;
  }
  const holdfast_histogram found = held_for(dict);
  std::uint64_t longs = 0;
  for (std::uint32_t i = 0; i < HOLDFAST_BUCKETS; ++i)
    if (holdfast_bucket_end(i) > 0.6 * kSeconds) longs += found.buckets[i];
  // If a process does not get a processor, it also holds its lock for longer.
  EXPECT_GE(longs, 3U * kLong);
  EXPECT_LE(longs, 3U * kLong + 20);
  EXPECT_GE(found.sum, 0.9 * least);
}

TEST_F(StatisticsTest, consecutive_holds_of_50_ms_count_one_by_one) {
  for (int i = 0; i < 20; ++i) hold(50, 60);
  EXPECT_EQ(held_for(dict).count, 20U);
}

TEST_F(StatisticsTest, a_hold_after_a_wait_counts_however_short_it_is) {
  for (std::uint64_t i = 1; i <= 5; ++i) {
    Waiting waiting;
    queue(waiting, 60);
    const std::uint64_t before = held_for(dict).count;
    ASSERT_EQ(dict.unlock("key", &theirs), HOLDFAST_OK);
    const std::uint64_t between = held_for(dict).count;
    ASSERT_EQ(waiting.once(dict, "key", &mine), HOLDFAST_OK);
    ASSERT_EQ(dict.unlock("key", &mine), HOLDFAST_OK);
    EXPECT_EQ(held_for(dict).count, between + 1) << between - before;
  }
}

TEST_F(StatisticsTest, a_hold_that_its_holder_does_not_end_does_not_count) {
  ASSERT_EQ(dict.try_lock("key", 0.02, &theirs), HOLDFAST_OK);
  sleep_ms(150);
  ASSERT_EQ(dict.try_lock("key", 0.02, &mine), HOLDFAST_OK) << "the previous hold has not expired";
  EXPECT_EQ(dict.unlock("key", &theirs), HOLDFAST_NOT_OWNER);
  EXPECT_EQ(held_for(dict).count, 0U);
  ASSERT_EQ(dict.remove("key"), HOLDFAST_OK);
  EXPECT_EQ(dict.unlock("key", &mine), HOLDFAST_NOT_OWNER);
  EXPECT_EQ(held_for(dict).count, 0U);
}

// --- the sample ---

/// Statistics in private memory, followed by an inaccessible page.
class PrivateStatistics : public ::testing::Test {
 protected:
  PrivateStatistics()
      : memory(static_cast<std::byte*>(
            ::mmap(nullptr, kStatisticsBytes + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))),
        statistics(memory, units) {
    ::mprotect(memory + kStatisticsBytes, 4096, PROT_NONE);
  }
  ~PrivateStatistics() override { ::munmap(memory, kStatisticsBytes + 4096); }

  static std::uint64_t hash_of(const std::string& key) { return hash_key(key.data(), key.size(), 7); }
  void wait_for(const std::string& key, std::uint64_t ns) {
    statistics.count_wait(key, hash_of(key), {HeldKind::lock, ns, false});
  }
  std::vector<Contended> worst() {
    std::vector<Contended> keys(64);
    keys.resize(statistics.read(keys));
    return keys;
  }
  static std::string text(const Contended& one) {
    return {one.key.data(), std::min<std::size_t>(one.key_length, one.key.size())};
  }

  std::byte* memory;
  Word32 units{0};
  Statistics statistics;
};

TEST_F(PrivateStatistics, each_grant_counts_once_on_average_whatever_its_position_in_a_pattern) {
  const std::uint64_t now = platform::monotonic_ns();
  EXPECT_EQ(statistics.since(Since::of(now), 1).bits & Since::kMeasured, Since::kOnce)
      << "the first hold must be measured";
  for (const std::uint64_t pattern : {2, 3, 8, 64, 256, 1000}) {
    std::uint64_t counted = 0;
    constexpr std::uint64_t kGrants = 1 << 18;
    for (std::uint64_t i = 1; i <= kGrants; ++i)
      counted += statistics.since(Since::of(now), (std::uint64_t{1} << 16) + i * pattern).is_measured() ? kDrawnOf : 0;
    EXPECT_NEAR(static_cast<double>(counted), kGrants, 0.2 * kGrants) << "every " << pattern << "th";
  }
  EXPECT_EQ(statistics.since(Since::of(now + 5 * kMs), 1).bits & Since::kMeasured, Since::kOnce)
      << "the first hold after a pause must be measured";
  EXPECT_FALSE(statistics.since(Since::of(now - 20 * kMs), 1).is_measured())
      << "a hold was measured although the clock is behind";
}

TEST_F(PrivateStatistics, a_long_hold_counts_once_sampled_or_not_and_a_short_hold_by_its_sample) {
  Histogram histogram;
  const auto counts = [&](std::uint64_t ago_ns, std::uint64_t how) {
    statistics.read(HeldKind::lock, TimeKind::held, histogram);
    const std::uint64_t before = histogram.count;
    statistics.count_hold(HeldKind::lock, Since{Since::of(platform::coarse_monotonic_ns() - ago_ns).bits | how});
    statistics.read(HeldKind::lock, TimeKind::held, histogram);
    return histogram.count - before;
  };
  const std::uint64_t tick = platform::coarse_resolution_ns();
  for (const std::uint64_t drawn : {std::uint64_t{0}, Since::kOnce, Since::kForAll})
    for (const std::uint64_t clock : {std::uint64_t{0}, Since::kExact})
      EXPECT_EQ(counts(2 * tick, drawn | clock | Since::kLong), 1U) << drawn << " " << clock;
  EXPECT_EQ(counts(2 * tick, 0), 0U) << "the end of this grant must not be checked";
  EXPECT_EQ(counts(2 * tick, Since::kForAll), kDrawnOf);
}

TEST_F(PrivateStatistics, the_end_of_each_grant_is_checked_except_in_a_process_with_millions_per_second) {
  const std::uint64_t now = platform::monotonic_ns();
  const auto looked_at = [&](std::uint64_t from, int grants) {
    int count = 0;
    for (int i = 0; i < grants; ++i) {
      const Since since = statistics.since(Since::of(from), static_cast<std::uint64_t>(i));
      count += (since.bits & Since::kLong) != 0 ? 1 : 0;
      statistics.count_hold(HeldKind::lock, since);
    }
    return count;
  };
  EXPECT_EQ(looked_at(now, 5000), 5000);
  const int more = looked_at(now + 1, 100'000);
  EXPECT_GE(more, 8192 - 5000);
  EXPECT_LT(more, 5000);
  EXPECT_EQ(looked_at(now + 5 * kMs, 5000), 5000) << "4 ms later";
}

// --- keys ---

TEST_F(PrivateStatistics, the_worst_of_20000_keys_are_found_with_their_times) {
  std::mt19937_64 random(seed_of_run());
  constexpr int kKeys = 20'000;
  std::vector<double> weights;
  for (int i = 1; i <= kKeys; ++i) weights.push_back(1.0 / i);
  std::discrete_distribution<int> zipf(weights.begin(), weights.end());
  std::map<int, std::uint64_t> times;
  for (int i = 0; i < 400'000; ++i) {
    const int key = zipf(random);
    ++times[key];
    wait_for("key " + std::to_string(key), 100'000);
  }
  const std::vector<Contended> found = worst();
  ASSERT_EQ(found.size(), 64U);
  int of_the_worst = 0;
  for (const Contended& one : found) {
    const int key = std::stoi(text(one).substr(4));
    of_the_worst += key < 64 ? 1 : 0;
    EXPECT_LE(one.waits, times[key]) << key;
    if (key < 16) {
      EXPECT_GE(static_cast<double>(one.waits), 0.95 * static_cast<double>(times[key])) << key;
    }
  }
  EXPECT_GE(of_the_worst, 40) << "only keys with less than a 256th of all waits may be missed";
  for (int i = 0; i < 8; ++i) EXPECT_EQ(text(found[static_cast<std::size_t>(i)]), "key " + std::to_string(i));
}

TEST_F(PrivateStatistics, one_long_wait_is_worse_than_many_refusals) {
  for (int i = 0; i < 1000; ++i) statistics.count_refusal("tried", hash_of("tried"), HeldKind::lock, 1);
  wait_for("waited for", kNsPerSecond);
  ASSERT_EQ(worst().size(), 2U);
  EXPECT_EQ(text(worst()[0]), "waited for");
  EXPECT_EQ(worst()[1].refused, 1000U);
}

TEST_F(PrivateStatistics, long_keys_with_the_same_beginning_are_distinguished) {
  const std::string beginning(100, 'k');
  for (const char* end : {"1", "2"}) wait_for(beginning + end, kMs);
  const std::vector<Contended> found = worst();
  ASSERT_EQ(found.size(), 2U);
  for (const Contended& one : found) {
    EXPECT_EQ(one.waits, 1U);
    EXPECT_EQ(one.key_length, 101U);
    EXPECT_EQ(text(one), beginning.substr(0, kContendedKeyMax));
  }
}

TEST_F(PrivateStatistics, a_record_with_another_keys_text_is_hidden_and_its_key_repairs_it) {
  wait_for("key", kMs);
  auto& fields = *reinterpret_cast<StatisticsFields*>(memory);
  const auto overwrite = [&](auto&& change) {
    for (auto& set : fields.contended)
      for (ContendedFields& record : set)
        if (record.hash.load(kRelaxed) != 0) change(record);
  };
  const std::function<void(ContendedFields&)> changes[] = {
      [](ContendedFields& record) { record.key[0].store(0x6265, kRelaxed); },
      [](ContendedFields& record) { record.shape.store(5, kRelaxed); },
      [](ContendedFields& record) { record.check.store(1, kRelaxed); },
  };
  std::uint64_t waits = 1;
  for (const auto& change : changes) {
    overwrite(change);
    EXPECT_TRUE(worst().empty());
    wait_for("key", kMs);
    ASSERT_EQ(worst().size(), 1U);
    EXPECT_EQ(text(worst()[0]), "key");
    EXPECT_EQ(worst()[0].waits, ++waits);
  }
}

TEST_F(PrivateStatistics, any_content_can_be_read_and_changed) {
  std::mt19937_64 random(seed_of_run());
  auto* const words = reinterpret_cast<Word64*>(memory);
  Histogram histogram;
  for (int round = 0; round < 200; ++round) {
    for (std::size_t i = 0; i < kStatisticsBytes / 8; ++i)
      words[i].store(round % 3 == 0 ? ~std::uint64_t{0} : random() >> random() % 64, kRelaxed);
    units.store(static_cast<std::uint32_t>(random()), kRelaxed);
    for (int i = 0; i < 50; ++i) wait_for("key " + std::to_string(i), random());
    statistics.count_hold(HeldKind::lock, Since{random()});
    for (std::uint32_t kind = 0; kind < kHeldKinds; ++kind)
      for (std::uint32_t time = 0; time < kTimeKinds; ++time)
        statistics.read(static_cast<HeldKind>(kind), static_cast<TimeKind>(time), histogram);
    for (const Contended& one : worst()) ASSERT_LE(static_cast<std::uint32_t>(one.kind), 2U);
  }
}

TEST_F(PrivateStatistics, threads_lose_no_count) {
  std::vector<std::thread> threads;
  constexpr std::uint64_t kWaits = 20'000;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (std::uint64_t n = 0; n < kWaits; ++n) wait_for("key", 1000 + n % 7);
    });
  for (std::thread& thread : threads) thread.join();
  Histogram histogram;
  statistics.read(HeldKind::lock, TimeKind::waited, histogram);
  EXPECT_EQ(histogram.count, 4 * kWaits);
  EXPECT_EQ(histogram.max_ns, 1006U);
  ASSERT_EQ(worst().size(), 1U);
  EXPECT_NEAR(static_cast<double>(worst()[0].waits), 4 * kWaits, 3)
      << "only the wait that created the record may be missing";
}

// --- memory ---

TEST(StatisticsMemory, is_reserved_on_the_first_count_and_never_exceeds_the_free_space) {
  in_a_world([] {
    Dict dict("d", {.size = HOLDFAST_SIZE_MIN});
    ASSERT_EQ(dict.status, HOLDFAST_OK) << holdfast_error();
    EXPECT_EQ(bytes_taken("d"), HOLDFAST_SIZE_MIN);
    EXPECT_EQ(holdfast_capacity(dict.handle), std::uint64_t{HOLDFAST_SIZE_MIN});
    EXPECT_EQ(waited(dict).count + held_for(dict).count, 0U);
    EXPECT_TRUE(contention(dict).empty());
    in_process([] {
      Dict other("d", {.size = HOLDFAST_SIZE_MIN});
      EXPECT_EQ(waited(other).count, 0U);
    });
    EXPECT_EQ(bytes_taken("d"), HOLDFAST_SIZE_MIN) << "a read has reserved memory";
    holdfast_lease lease{};
    ASSERT_EQ(dict.try_lock("key", 0, &lease), HOLDFAST_OK);
    ASSERT_EQ(dict.unlock("key", &lease), HOLDFAST_OK);
    EXPECT_LE(bytes_taken("d"), HOLDFAST_SIZE_MIN + 3 * 4096);
    EXPECT_EQ(held_for(dict).count, 1U);
    in_process([] {
      Dict other("d", {.size = HOLDFAST_SIZE_MIN});
      EXPECT_EQ(held_for(other).count, 1U) << "another process does not see the count";
    });
    std::mt19937_64 random(1);
    Statistics& statistics = dict.segment().statistics();
    for (int i = 0; i < 10'000; ++i) {
      const std::string key = "key " + std::to_string(i);
      const auto kind = static_cast<HeldKind>(i % 3);
      statistics.count_wait(key, hash_key(key.data(), key.size(), 0), {kind, random() >> random() % 64, true});
      statistics.count_hold(kind, {(platform::monotonic_ns() >> random() % 64) | Since::kMeasured});
    }
    EXPECT_LE(bytes_taken("d"), HOLDFAST_SIZE_MIN + 68 * 1024);
  });
}

class FullStatistics : public InSmallWorld {};

TEST_F(FullStatistics, without_memory_nothing_is_counted_and_all_else_works) {
  in_a_small_world([] {
    Dict dict("d", {.size = 100 << 10});
    holdfast_lease mine{};
    holdfast_lease theirs{};
    ASSERT_EQ(dict.try_lock("key", 0, &theirs), HOLDFAST_OK);
    fill_it();
    ASSERT_EQ(dict.try_lock("key", 0, &mine), HOLDFAST_LOCKED);
    ASSERT_EQ(dict.unlock("key", &theirs), HOLDFAST_OK);
    EXPECT_TRUE(contention(dict).empty());
    EXPECT_EQ(held_for(dict).count, 0U);
    dict.segment().header().counted_units.store(~0U, kRelaxed);  // the mark is wrong, because there is no memory
    EXPECT_TRUE(contention(dict).empty());
    EXPECT_EQ(held_for(dict).count, 0U);
    empty_it();
    ASSERT_EQ(dict.try_lock("key", 0, &theirs), HOLDFAST_OK);
    ASSERT_EQ(dict.try_lock("key", 0, &mine), HOLDFAST_LOCKED);
    ASSERT_EQ(dict.unlock("key", &theirs), HOLDFAST_OK);
    EXPECT_EQ(contention(dict).size(), 1U);
    EXPECT_EQ(held_for(dict).count, 1U);
  });
}

// --- calls ---

TEST_F(StatisticsTest, bad_arguments_are_refused_with_a_message) {
  auto histogram = std::make_unique<holdfast_histogram>();
  const auto refuses = [&](std::size_t size, int held, int time, const std::string& sentence) {
    histogram->struct_size = size;
    EXPECT_EQ(holdfast_dict_histogram(dict.handle, held, time, histogram.get()), HOLDFAST_INVALID);
    EXPECT_NE(std::string(holdfast_error()).find(sentence), std::string::npos) << holdfast_error();
  };
  refuses(0, 0, 0, "struct_size");
  refuses(sizeof *histogram - 1, 0, 0, std::to_string(sizeof *histogram));
  refuses(sizeof *histogram, 3, 0, "HOLDFAST_HELD_LOCK");
  refuses(sizeof *histogram, -1, 0, "HOLDFAST_HELD_LOCK");
  refuses(sizeof *histogram, 0, 2, "HOLDFAST_TIME_WAITED");
  std::uint32_t count = 7;
  holdfast_contended key{};
  EXPECT_EQ(holdfast_dict_contention(dict.handle, &key, sizeof key - 8, 1, &count), HOLDFAST_INVALID);
  EXPECT_EQ(count, 0U);
  EXPECT_EQ(holdfast_dict_contention(dict.handle, nullptr, sizeof key, 0, &count), HOLDFAST_OK)
      << "a request for no keys must be allowed";
}

TEST_F(StatisticsTest, a_caller_with_larger_structs_gets_zeros_in_unknown_fields) {
  struct Larger {
    holdfast_contended known;
    std::uint64_t unknown;
  };
  ASSERT_EQ(dict.try_lock("key", 0, &theirs), HOLDFAST_OK);
  ASSERT_EQ(dict.try_lock("key", 0, &mine), HOLDFAST_LOCKED);
  std::array<Larger, 2> keys{};
  for (Larger& one : keys) one.unknown = 5;
  std::uint32_t count = 0;
  ASSERT_EQ(holdfast_dict_contention(dict.handle, &keys[0].known, sizeof keys[0], 2, &count), HOLDFAST_OK);
  EXPECT_EQ(count, 1U);
  EXPECT_EQ(keys[0].known.refused, 1U);
  EXPECT_EQ(keys[0].unknown, 0U);
  EXPECT_EQ(keys[1].unknown, 5U) << "a field beyond the given size was changed";
}

}  // namespace
}  // namespace holdfast::test
