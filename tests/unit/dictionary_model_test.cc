// Performs random operations on a dictionary and on a std::map. After each operation, both must have the same content,
// except for evicted entries, whose number must match the dictionary's count of evictions. From time to time, the test
// checks the whole shard. The test prints its seed; HOLDFAST_TEST_SEED=n repeats a run.
#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "support/dict_test.h"

namespace holdfast::test {
namespace {

constexpr double kLong = 1000;    // an exptime that ends after every run
constexpr double kAtOnce = 1e-9;  // an exptime that ends before one of the next two calls

/// The expected content of the dictionary.
struct Expected {
  Got value;
  bool has_end = false;
  bool is_lock = false;
  holdfast_lease lease{};
  std::deque<Got> list{};  // if it is not empty, the key is a list, and `value` has no meaning
};

class Model {
 public:
  Model(Dict& dict, std::uint64_t seed, int keys, std::size_t longest) : dict_(dict), random_(seed), longest_(longest) {
    for (int i = 0; i < keys; ++i) keys_.push_back(make_key(i));
  }

  void step() {
    const std::string& key = keys_[below(keys_.size())];
    change(key);
    forget_evicted();
    compare(key);
  }

  void compare_all() {
    std::multiset<std::string> live;
    for (const auto& [key, expected] : held_) live.insert(key);
    ASSERT_EQ(dict_.keys(), live);
    ASSERT_EQ(dict_.scan_all(1 + static_cast<std::uint32_t>(below(100))), live);
    for (const std::string& key : keys_) compare(key);
    ASSERT_EQ(check_segment(dict_.segment()), "");
    for (const Shard& shard : dict_.segment().shards())
      ASSERT_EQ(shard.header().repairs.load(), 0U) << "a shard was repaired although no process died";
  }

  /// Removes everything, including expired values and locks that nobody holds.
  void remove_all() {
    for (const std::string& key : keys_) remove(key);
    compare_all();
  }

  int refusals() const { return refusals_; }
  std::uint64_t evicted() const { return evicted_; }

 private:
  void change(const std::string& key) {
    static constexpr std::array kSteps{
        &Model::store,  &Model::store,  &Model::store,  &Model::store,     &Model::store,     &Model::swap,
        &Model::swap,   &Model::remove, &Model::remove, &Model::increment, &Model::increment, &Model::increment_from,
        &Model::expire, &Model::lock,   &Model::unlock, &Model::push,      &Model::pop};
    const std::size_t step = below(kSteps.size() + 1);
    if (step < kSteps.size()) return (this->*kSteps[step])(key);
    const std::size_t rare = below(2000);
    if (rare == 0) flush();
    if (rare < 20) {
      ASSERT_GE(dict_.flush_expired(static_cast<std::uint32_t>(below(5))), 0);
    }
  }

  std::uint64_t evictions() {
    std::uint64_t sum = 0;
    for (Shard& shard : dict_.segment().shards()) sum += shard.header().evictions.load();
    return sum;
  }

  bool is_there(const std::string& key, const Expected& expected) {
    return expected.list.empty() ? dict_.get(key).code != HOLDFAST_NOT_FOUND : dict_.llen(key) > 0;
  }

  /// Forgets entries that were evicted. Locks are never evicted.
  void forget_evicted() {
    const std::uint64_t now = evictions();
    const std::uint64_t gone_at_most = now - evicted_;
    if (gone_at_most == 0) return;
    evicted_ = now;
    std::uint64_t gone = 0;
    for (auto entry = held_.begin(); entry != held_.end();) {
      if (is_there(entry->first, entry->second)) {
        ++entry;
        continue;
      }
      ASSERT_FALSE(entry->second.is_lock) << "a lock that is held was evicted";
      ++gone;
      entry = held_.erase(entry);
    }
    ASSERT_EQ(gone, gone_at_most);
  }

  std::size_t below(std::size_t limit) { return std::uniform_int_distribution<std::size_t>(0, limit - 1)(random_); }

  std::string make_key(int number) {
    std::string key = std::to_string(number);
    return key + std::string(below(4) == 0 ? below(90) : below(9), static_cast<char>(below(256)));
  }

  Got make_value(std::uint32_t flags) {
    const std::size_t kind = below(8);
    if (kind < 2) return number(static_cast<double>(below(1000)), flags);
    if (kind == 2) return boolean(below(2) == 0, flags);
    return text(std::string(below(8) == 0 ? below(longest_) : below(40), static_cast<char>(random_())), flags);
  }

  int call_store(int op, const std::string& key, const Got& value, double exptime) {
    return holdfast_store(dict_.handle, op, key.data(), key.size(), value.type, value.text.data(), value.text.size(),
                          value.number, exptime, value.flags, nullptr);
  }

  void compare(const std::string& key) {
    bool stale = false;
    const Got found = dict_.get_stale(key, &stale);
    const auto entry = held_.find(key);
    if (entry == held_.end()) {
      ASSERT_EQ(dict_.get(key), nothing());
      ASSERT_LE(dict_.ttl(key), 0);
      ASSERT_TRUE(found == nothing() || (stale && found == over_[key])) << found;
      return;
    }
    const bool is_list = !entry->second.list.empty();
    ASSERT_FALSE(stale);
    if (is_list) {
      ASSERT_EQ(found.code, HOLDFAST_IS_A_LIST);
      ASSERT_EQ(dict_.get(key).code, HOLDFAST_IS_A_LIST);
      ASSERT_EQ(dict_.llen(key), static_cast<int>(entry->second.list.size()));
    } else {
      ASSERT_EQ(dict_.get(key), entry->second.value);
      ASSERT_EQ(found, entry->second.value);
      ASSERT_EQ(dict_.llen(key), -HOLDFAST_NOT_A_LIST);
    }
    const double ttl = dict_.ttl(key);
    ASSERT_TRUE(entry->second.has_end ? ttl > 0 && ttl <= kLong : ttl == 0) << ttl;
  }

  void no_memory(int code) {
    ASSERT_EQ(code, HOLDFAST_NO_MEMORY);
    ++refusals_;
  }

  void store(const std::string& key) {
    constexpr std::array kOps{HOLDFAST_SET,      HOLDFAST_SET, HOLDFAST_SET,    HOLDFAST_SAFE_SET,
                              HOLDFAST_SAFE_ADD, HOLDFAST_ADD, HOLDFAST_REPLACE};
    const int op = kOps[below(kOps.size())];
    const bool exists = held_.count(key) != 0;
    const bool has_end = below(5) == 0;
    const Got value = make_value(static_cast<std::uint32_t>(below(3)));
    const int code = call_store(op, key, value, has_end ? kLong : 0);
    if (op == HOLDFAST_SAFE_SET || op == HOLDFAST_SAFE_ADD) {
      ASSERT_EQ(evictions(), evicted_);
    }
    if ((op == HOLDFAST_ADD || op == HOLDFAST_SAFE_ADD) && exists) {
      ASSERT_EQ(code, HOLDFAST_EXISTS);
    } else if (op == HOLDFAST_REPLACE && !exists) {
      ASSERT_EQ(code, HOLDFAST_NOT_FOUND);
    } else if (code != HOLDFAST_OK) {
      no_memory(code);
    } else {
      held_[key] = {value, has_end};
    }
  }

  void swap(const std::string& key) {
    const auto found = held_.find(key);
    const bool exists = found != held_.end();
    const bool is_value = exists && !found->second.is_lock && found->second.list.empty();
    const Got old = is_value && below(3) != 0 ? found->second.value : make_value(0);
    const Got next = make_value(static_cast<std::uint32_t>(below(3)));
    const bool from_nothing = below(4) == 0;
    const bool to_nothing = below(4) == 0;
    const int code = dict_.cas(key, from_nothing ? nullptr : &old, to_nothing ? nullptr : &next);
    const bool equal = is_value && old.type == found->second.value.type && old.text == found->second.value.text &&
                       old.number == found->second.value.number;
    if (from_nothing && exists) {
      ASSERT_EQ(code, HOLDFAST_EXISTS);
    } else if (!from_nothing && !exists) {
      ASSERT_EQ(code, HOLDFAST_NOT_FOUND);
    } else if (!from_nothing && !equal) {
      ASSERT_EQ(code, HOLDFAST_DIFFERS);
    } else if (code != HOLDFAST_OK) {
      no_memory(code);
    } else if (to_nothing) {
      held_.erase(key);
    } else {
      held_[key] = {next};
    }
  }

  void remove(const std::string& key) {
    ASSERT_EQ(dict_.remove(key), HOLDFAST_OK);
    held_.erase(key);
    over_.erase(key);
  }

  void increment(const std::string& key) {
    double sum = 0;
    const int code = dict_.incr(key, 3, &sum);
    const auto found = held_.find(key);
    if (found == held_.end()) {
      ASSERT_EQ(code, HOLDFAST_NOT_FOUND);
    } else if (!found->second.list.empty() || found->second.value.type != HOLDFAST_NUMBER) {
      ASSERT_EQ(code, HOLDFAST_NOT_A_NUMBER);
    } else {
      ASSERT_EQ(code, HOLDFAST_OK);
      found->second.value.number += 3;
      ASSERT_EQ(sum, found->second.value.number);
    }
  }

  void increment_from(const std::string& key) {
    if (held_.count(key) != 0) return increment(key);
    double sum = 0;
    const bool has_end = below(2) == 0;
    const int code = dict_.incr_from(key, 1, 100, has_end ? kLong : 0, &sum);
    if (code != HOLDFAST_OK) return no_memory(code);
    ASSERT_EQ(sum, 101);
    held_[key] = {number(101), has_end};
  }

  void expire(const std::string& key) {
    const auto found = held_.find(key);
    const bool exists = found != held_.end();
    const bool at_once = below(4) == 0;
    ASSERT_EQ(dict_.expire(key, at_once ? kAtOnce : kLong), exists ? HOLDFAST_OK : HOLDFAST_NOT_FOUND);
    if (!exists) return;
    found->second.has_end = true;
    if (!at_once) return;
    ASSERT_TRUE(eventually([&] { return dict_.get(key).code == HOLDFAST_NOT_FOUND; }));
    end(found->first, found->second);
    held_.erase(found);
  }

  void lock(const std::string& key) {
    holdfast_lease lease{};
    const int code = dict_.try_lock(key, 0, &lease);
    if (held_.count(key) != 0) {
      ASSERT_EQ(code, HOLDFAST_LOCKED);
    } else if (code != HOLDFAST_OK) {
      no_memory(code);
    } else {
      held_[key] = {boolean(true), false, true, lease};
    }
  }

  void unlock(const std::string& key) {
    const auto found = held_.find(key);
    const bool is_lock = found != held_.end() && found->second.is_lock;
    holdfast_lease lease = is_lock ? found->second.lease : holdfast_lease{12345, 1};
    ASSERT_EQ(dict_.unlock(key, &lease), is_lock ? HOLDFAST_OK : HOLDFAST_NOT_OWNER);
    if (is_lock) held_.erase(found);
  }

  // Pushes several elements at a time, so that lists become long.
  void push(const std::string& key) {
    for (std::size_t count = 1 + below(12); count != 0; --count) push_one(key);
  }

  void push_one(const std::string& key) {
    const auto found = held_.find(key);
    const int end = below(2) == 0 ? HOLDFAST_LEFT : HOLDFAST_RIGHT;
    const std::size_t size = below(30) == 0 ? below(longest_) : below(60);
    const Got element = below(3) == 0 ? number(static_cast<double>(below(1000)))
                                      : text(std::string(size, static_cast<char>(random_())));
    const int length = element.type == HOLDFAST_NUMBER ? dict_.push_number(key, end, element.number)
                                                       : dict_.push(key, end, element.text);
    ASSERT_EQ(evictions(), evicted_) << "an entry was evicted to make room for a list";
    if (found != held_.end() && found->second.list.empty()) {
      ASSERT_EQ(length, -HOLDFAST_NOT_A_LIST);
    } else if (length < 0) {
      no_memory(-length);
    } else {
      std::deque<Got>& list = held_[key].list;
      end == HOLDFAST_LEFT ? list.push_front(element) : list.push_back(element);
      ASSERT_EQ(length, static_cast<int>(list.size()));
    }
  }

  void pop(const std::string& key) {
    for (std::size_t count = 1 + below(8); count != 0; --count) pop_one(key);
  }

  void pop_one(const std::string& key) {
    const auto found = held_.find(key);
    const int end = below(2) == 0 ? HOLDFAST_LEFT : HOLDFAST_RIGHT;
    const Got got = dict_.pop(key, end);
    if (found == held_.end()) {
      ASSERT_EQ(got.code, HOLDFAST_NOT_FOUND);
    } else if (found->second.list.empty()) {
      ASSERT_EQ(got.code, HOLDFAST_NOT_A_LIST);
    } else {
      std::deque<Got>& list = found->second.list;
      ASSERT_EQ(got, end == HOLDFAST_LEFT ? list.front() : list.back());
      end == HOLDFAST_LEFT ? list.pop_front() : list.pop_back();
      if (list.empty()) held_.erase(found);
    }
  }

  void flush() {
    ASSERT_EQ(dict_.flush_all(), HOLDFAST_OK);
    for (const auto& [key, expected] : held_) end(key, expected);
    held_.clear();
  }

  /// Records the expired value, which get_stale may find from now on.
  void end(const std::string& key, const Expected& expected) {
    over_[key] = expected.is_lock         ? nothing()
                 : !expected.list.empty() ? Got{HOLDFAST_IS_A_LIST, HOLDFAST_NIL, "", 0, 0}
                                          : expected.value;
  }

  Dict& dict_;
  std::mt19937_64 random_;
  std::size_t longest_;
  std::vector<std::string> keys_;
  std::map<std::string, Expected> held_;
  std::map<std::string, Got> over_;  // the last value of each key that expired
  int refusals_ = 0;
  std::uint64_t evicted_ = 0;
};

struct Shape {
  friend std::ostream& operator<<(std::ostream& out, const Shape& shape) { return out << shape.name; }
  const char* name;
  std::uint64_t size;
  int keys;
  std::size_t longest;
  int steps;
  std::uint64_t largest = 0;
};

class DictionaryModelTest : public ::testing::TestWithParam<Shape> {};

TEST_P(DictionaryModelTest, a_dictionary_agrees_with_a_map) {
  const Shape& shape = GetParam();
  const std::uint64_t seed = seed_of_run();
  SCOPED_TRACE("HOLDFAST_TEST_SEED=" + std::to_string(seed));
  Dict dict(shape.name, {.size = shape.size, .largest = shape.largest});
  ASSERT_EQ(dict.status, HOLDFAST_OK) << holdfast_error();
  const std::uint64_t all_free = dict.free_space();
  Model model(dict, seed, shape.keys, shape.longest);
  for (int i = 0; i < shape.steps && !HasFatalFailure(); ++i) {
    model.step();
    if (i % 500 == 0) model.compare_all();
  }
  ASSERT_FALSE(HasFatalFailure());
  model.compare_all();
  std::printf("%d steps, %d refused for lack of memory, %llu evicted\n", shape.steps, model.refusals(),
              static_cast<unsigned long long>(model.evicted()));
  model.remove_all();
  EXPECT_EQ(dict.free_space(), all_free);
}

INSTANTIATE_TEST_SUITE_P(shapes, DictionaryModelTest,
                         ::testing::Values(Shape{"tight", 12288, 150, 500, 60000},
                                           Shape{"wide", 131072, 800, 3000, 60000},
                                           Shape{"shards", 9U << 20, 2000, 6000, 20000},
                                           Shape{"large", 9U << 20, 2000, 60000, 20000, 4U << 20}),
                         [](const auto& shape) { return shape.param.name; });

}  // namespace
}  // namespace holdfast::test
