// Tests which values and options a dictionary accepts or refuses through the C ABI, and which processes may use the
// dictionary. dictionary_model_test.cc tests its operations.
#include "dict/dictionary.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <string>
#include <thread>

#include "platform/platform.h"
#include "support/dict_test.h"
#include "world/world.h"

namespace holdfast::test {
namespace {

class DictionaryTest : public DictTest {
 protected:
  double sum = 0;
};

// --- values ---

TEST_F(DictionaryTest, a_value_that_can_never_fit_is_refused_whatever_the_key_holds) {
  const std::string huge(2 << 20, 'x');
  ASSERT_EQ(dict.set("k", "v"), HOLDFAST_OK);
  const Got value = text("v");
  const Got desired = text(huge);
  EXPECT_EQ(dict.add("k", huge), HOLDFAST_TOO_LARGE);
  EXPECT_EQ(dict.replace("none", huge), HOLDFAST_TOO_LARGE);
  EXPECT_EQ(dict.cas("none", &value, &desired), HOLDFAST_TOO_LARGE);
  EXPECT_EQ(dict.cas("k", &value, &desired), HOLDFAST_TOO_LARGE);
  EXPECT_EQ(dict.cas("k", &desired, &value), HOLDFAST_DIFFERS)
      << "a value of this size is allowed as the expected value";
  EXPECT_EQ(dict.get("k"), text("v"));
}

// Sizes near 2^64 wrap around when they are rounded up or added.
TEST_F(DictionaryTest, any_size_that_is_too_large_is_refused) {
  ASSERT_EQ(dict.set("k", "v"), HOLDFAST_OK);
  for (const std::uint64_t size : {std::uint64_t{1} << 32, std::uint64_t{1} << 63, ~std::uint64_t{0} - 40,
                                   ~std::uint64_t{0} - 8, ~std::uint64_t{0} - 1, ~std::uint64_t{0}}) {
    for (const int op : {HOLDFAST_SET, HOLDFAST_ADD, HOLDFAST_REPLACE, HOLDFAST_SAFE_SET, HOLDFAST_SAFE_ADD})
      EXPECT_EQ(holdfast_store(dict.handle, op, "k", 1, HOLDFAST_STRING, "v", size, 0, 0, 0, nullptr),
                HOLDFAST_TOO_LARGE)
          << size << " by operation " << op;
    std::uint32_t length = 0;
    EXPECT_EQ(holdfast_push(dict.handle, "list", 4, HOLDFAST_RIGHT, HOLDFAST_STRING, "v", size, 0, &length),
              HOLDFAST_TOO_LARGE)
        << size;
  }
  EXPECT_EQ(dict.get("k"), text("v"));
}

TEST_F(DictionaryTest, setting_nil_deletes_and_adding_nil_is_refused) {
  const auto store_nil = [this](int op) {
    return holdfast_store(dict.handle, op, "k", 1, HOLDFAST_NIL, nullptr, 0, 0, 0, 0, nullptr);
  };
  for (const int op : {HOLDFAST_SET, HOLDFAST_SAFE_SET}) {
    dict.set("k", "v");
    EXPECT_EQ(store_nil(op), HOLDFAST_OK);
    EXPECT_EQ(dict.get("k"), nothing());
  }
  for (const int op : {HOLDFAST_ADD, HOLDFAST_SAFE_ADD}) EXPECT_EQ(store_nil(op), HOLDFAST_INVALID);
}

TEST_F(DictionaryTest, padding_is_not_part_of_the_key) {
  for (std::size_t length = 1; length < 70; ++length)
    ASSERT_EQ(dict.set(std::string(length, '\0'), std::string(length * 3 % 37, '\0')), HOLDFAST_OK);
  for (std::size_t length = 1; length < 70; ++length)
    ASSERT_EQ(dict.get(std::string(length, '\0')), text(std::string(length * 3 % 37, '\0')));
}

TEST_F(DictionaryTest, a_key_of_65535_bytes_works_and_a_longer_key_is_refused) {
  Dict big(new_name(), {.size = 1 << 20});
  ASSERT_EQ(big.status, HOLDFAST_OK);
  std::string longest(HOLDFAST_KEY_MAX, 'k');
  longest.back() = '\0';
  EXPECT_EQ(big.set(longest, "value"), HOLDFAST_OK);
  EXPECT_EQ(big.get(longest), text("value"));
  EXPECT_EQ(big.incr_from(longest + "x", 1, 0, 0, &sum), HOLDFAST_INVALID);
  EXPECT_EQ(big.keys().count(longest), 1U);
  EXPECT_EQ(big.set(longest + "x", "value"), HOLDFAST_INVALID);
  EXPECT_STREQ(holdfast_error(), "key too long");
  EXPECT_EQ(big.get(longest + "x").code, HOLDFAST_INVALID);
  EXPECT_EQ(big.set("", "value"), HOLDFAST_INVALID);
  EXPECT_STREQ(holdfast_error(), "empty key");
  EXPECT_EQ(big.remove(longest), HOLDFAST_OK);
  EXPECT_EQ(big.get(longest), nothing());
}

TEST_F(DictionaryTest, a_get_into_too_small_a_buffer_returns_the_needed_size) {
  dict.set("k", "twelve bytes");
  char buffer[11];
  holdfast_value value{};
  value.data = buffer;
  value.capacity = sizeof buffer;
  EXPECT_EQ(holdfast_get(dict.handle, "k", 1, &value), HOLDFAST_BUFFER);
  EXPECT_EQ(value.type, HOLDFAST_STRING);
  EXPECT_EQ(value.size, 12U);
  value.data = nullptr;
  value.capacity = 0;
  EXPECT_EQ(holdfast_get(dict.handle, "k", 1, &value), HOLDFAST_BUFFER);
  EXPECT_EQ(value.size, 12U);
}

// --- memory ---

TEST_F(DictionaryTest, a_value_that_can_never_fit_is_refused_with_the_limit) {
  const std::uint64_t most = dict.dictionary().room_for_one();
  EXPECT_EQ(dict.set("k", std::string(65000, 'x')), HOLDFAST_TOO_LARGE);
  EXPECT_NE(std::string(holdfast_error()).find(std::to_string(most)), std::string::npos) << holdfast_error();
  EXPECT_EQ(dict.set("k", std::string(most - 1, 'x')), HOLDFAST_OK) << "a value of the size in the message was refused";
  EXPECT_EQ(dict.get("k"), text(std::string(most - 1, 'x')));
  const std::string long_key(65000, 'k');
  holdfast_lease lease{};
  EXPECT_EQ(dict.try_lock(long_key, 0, &lease), HOLDFAST_TOO_LARGE);
  EXPECT_EQ(dict.incr_from(long_key, 1, 0, 0, &sum), HOLDFAST_TOO_LARGE);
  EXPECT_EQ(lease.owner, 0U);
}

// Without the option `largest`, a shard has about 1 MB.
TEST_F(DictionaryTest, a_value_that_a_dictionary_with_an_option_would_accept_is_refused_with_a_hint_at_that_option) {
  for (const std::uint64_t largest : {0, 10 << 20}) {
    const std::string name = new_name();
    Dict large(name, {.size = 20 << 20, .largest = largest});
    EXPECT_EQ(large.set("k", std::string((largest == 0 ? 10 : 20) << 20, 'x')), HOLDFAST_TOO_LARGE);
    const std::string said = holdfast_error();
    EXPECT_EQ(said.find("the option largest allows values of up to ") != std::string::npos, largest == 0) << said;
    holdfast_remove(name.data(), name.size());
  }
}

// With a wrong number of shards, keys would be looked for in the wrong shards.
TEST_F(DictionaryTest, an_overwritten_number_of_shards_is_detected) {
  const std::string name = new_name();
  Dict large(name, {.size = 20 << 20, .largest = 10 << 20});
  DictionaryHeader& header = large.segment().header();
  World& world = **World::current();
  const std::uint32_t shards = header.shards;
  for (const std::uint32_t other : {2U, 16U, 0U}) {
    header.shards = other;
    EXPECT_EQ(Segment::attach(world, name).status().code, Code::corrupt) << other;
  }
  header.shards = 3;
  header.shards_complement = ~3U;
  EXPECT_EQ(Segment::attach(world, name).status().code, Code::corrupt) << "impossible";
  header.shards = shards;
  header.shards_complement = ~shards;
  const auto attached = Segment::attach(world, name);
  ASSERT_TRUE(attached);
  EXPECT_EQ((*attached)->geometry().shards, shards);
  holdfast_remove(name.data(), name.size());
}

// --- several processes ---

TEST_F(DictionaryTest, a_stopped_writer_delays_writers_until_their_timeout_and_readers_not_at_all) {
  dict.set("k", "v");
  Inside writer(dict);
  writer.stop();
  EXPECT_EQ(dict.get("k"), text("v"));
  EXPECT_EQ(dict.keys().size(), 1U);
  EXPECT_EQ(dict.set("k", "w"), HOLDFAST_TIMEOUT);
  EXPECT_STRNE(holdfast_error(), "");
  EXPECT_EQ(dict.get("k"), text("v")) << "the refused write changed the value";
  writer.signal(SIGCONT);
  EXPECT_EQ(writer.ask("go on"), "outside");
  EXPECT_EQ(dict.set("k", "w"), HOLDFAST_OK);
  EXPECT_EQ(dict.segment().shards()[0].header().repairs.load(), 0U) << "the stopped process lost the mutex";
  EXPECT_EQ(writer.wait(), 0);
}

TEST_F(DictionaryTest, a_call_inside_another_call_of_the_same_thread_returns_busy) {
  dict.set("k", "v");
  Shmtx& mutex = dict.segment().shards()[0].mutex();
  ASSERT_EQ(mutex.lock_for(kNsPerSecond), LockResult::acquired);
  EXPECT_EQ(dict.set("k", "w"), HOLDFAST_BUSY);
  EXPECT_EQ(dict.get("k"), text("v")) << "reads take no lock";
  mutex.unlock();
  EXPECT_EQ(dict.set("k", "w"), HOLDFAST_OK);
}

// --- strategies ---

class DictionaryStrategyTest : public ::testing::TestWithParam<holdfast_mutex> {};

TEST_P(DictionaryStrategyTest, threads_and_processes_can_change_it_concurrently) {
  Dict dict(new_name(), {.mutex = GetParam()});
  ASSERT_EQ(dict.status, HOLDFAST_OK) << holdfast_error();
  constexpr int kEach = 300;
  const auto work = [&](int self) {
    double sum = 0;
    for (int i = 0; i < kEach; ++i) {
      if (dict.incr_from("sum", 1, 0, 0, &sum) != HOLDFAST_OK) return 1;
      const std::string key = "key" + std::to_string(self) + "-" + std::to_string(i % 10);
      if (dict.set(key, std::string(static_cast<std::size_t>(i), 'v')) != HOLDFAST_OK) return 2;
      if (dict.get(key).text.size() != static_cast<std::size_t>(i)) return 3;
      if (i % 3 == 0 && dict.remove(key) != HOLDFAST_OK) return 4;
    }
    return 0;
  };
  Child first([&](Channel&) { return work(1); });
  Child second([&](Channel&) { return work(2); });
  std::thread thread([&] { EXPECT_EQ(work(3), 0); });
  EXPECT_EQ(work(4), 0);
  thread.join();
  EXPECT_EQ(first.wait(), 0);
  EXPECT_EQ(second.wait(), 0);
  EXPECT_EQ(dict.get("sum"), number(4 * kEach));
  EXPECT_EQ(check_segment(dict.segment()), "");
}

INSTANTIATE_TEST_SUITE_P(all, DictionaryStrategyTest,
                         ::testing::Values(HOLDFAST_MUTEX_FUTEX, HOLDFAST_MUTEX_SPIN, HOLDFAST_MUTEX_FILE),
                         [](const auto& strategy) {
                           return strategy_name(static_cast<MutexStrategy>(strategy.param));
                         });

}  // namespace
}  // namespace holdfast::test
