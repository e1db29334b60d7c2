// Makes random calls on permits and locks, and compares each result with the result of a simple model.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "dict/repair.h"
#include "support/dict_test.h"

namespace holdfast::test {
namespace {

constexpr int kKeys = 6;
constexpr int kLock = 2;  // in addition to the two kinds of permits

/// The content of a key.
struct Thing {
  int kind = kLock;
  std::map<std::uint64_t, std::uint32_t> holders;  // fencing token to number of permits
  std::map<std::uint64_t, std::string> why;

  std::uint64_t used() const {
    std::uint64_t sum = 0;
    for (const auto& [sequence, count] : holders) sum += count;
    return sum;
  }
};

class PermitsModel : public ::testing::Test {
 protected:
  struct Had {
    int key;
    holdfast_lease lease;
  };

  static std::string name(int key) { return "key-" + std::to_string(key); }
  std::uint64_t pick(std::uint64_t below) { return random_() % below; }

  void acquire(int key) {
    const int kind = pick(8) < 4 ? int{HOLDFAST_SEMAPHORE} : static_cast<int>(pick(3));
    const std::uint32_t total = kind == HOLDFAST_SEMAPHORE ? 4 + static_cast<std::uint32_t>(pick(4))
                                : kind == kLock            ? 1
                                                           : HOLDFAST_ALL_PERMITS;
    std::uint32_t want = 1;
    if (kind == HOLDFAST_SEMAPHORE) want += static_cast<std::uint32_t>(pick(3));
    if (kind == HOLDFAST_RWLOCK && pick(3) == 0) want = HOLDFAST_ALL_PERMITS;
    Thing& thing = things_[key];
    const bool value = values_.count(key) != 0;
    const bool may =
        !value && (thing.holders.empty() || (thing.kind == kind && kind != kLock && thing.used() + want <= total));
    holdfast_lease lease{};
    const double exptime = pick(2) == 0 ? 0 : 1000;
    const int code = kind == kLock ? dict_.try_lock(name(key), exptime, &lease)
                                   : dict_.try_permits(name(key), kind, want, total, exptime, &lease);
    ASSERT_EQ(code, may ? HOLDFAST_OK : HOLDFAST_LOCKED) << name(key) << " kind " << kind << " want " << want;
    if (!may) return;
    if (thing.holders.empty()) thing = {kind, {}, {}};
    thing.holders[lease.sequence] = want;
    leases_.push_back({key, lease});
  }

  bool is_held(const Had& had) { return things_[had.key].holders.count(had.lease.sequence) != 0; }

  void give_back(std::size_t number) {
    Had had = leases_[number];
    ASSERT_EQ(dict_.unlock(name(had.key), &had.lease), is_held(leases_[number]) ? HOLDFAST_OK : HOLDFAST_NOT_OWNER);
    Thing& thing = things_[had.key];
    thing.holders.erase(leases_[number].lease.sequence);
    thing.why.erase(leases_[number].lease.sequence);
    leases_.erase(leases_.begin() + static_cast<std::ptrdiff_t>(number));
  }

  void renew(const Had& had) {
    const bool others = values_.count(had.key) != 0 || !things_[had.key].holders.empty();
    ASSERT_EQ(dict_.renew(name(had.key), had.lease, 500), is_held(had) ? HOLDFAST_OK
                                                          : others     ? HOLDFAST_NOT_OWNER
                                                                       : HOLDFAST_NOT_FOUND);
  }

  void keep(const Had& had) {
    const auto count = static_cast<std::uint32_t>(pick(3));
    Thing& thing = things_[had.key];
    int expected = HOLDFAST_NOT_OWNER;
    if (is_held(had) && thing.kind != kLock) {
      std::uint32_t& now = thing.holders[had.lease.sequence];
      expected = count == 0 || count > now ? HOLDFAST_INVALID : HOLDFAST_OK;
      if (expected == HOLDFAST_OK) now = count;
    }
    ASSERT_EQ(dict_.keep(name(had.key), had.lease, count), expected);
  }

  void upgrade(const Had& had) {
    Thing& thing = things_[had.key];
    const bool held = is_held(had);
    const int expected = !held                           ? HOLDFAST_NOT_OWNER
                         : thing.kind != HOLDFAST_RWLOCK ? HOLDFAST_INVALID
                         : thing.holders.size() > 1      ? HOLDFAST_LOCKED
                                                         : HOLDFAST_OK;
    ASSERT_EQ(dict_.upgrade(name(had.key), had.lease), expected);
    if (expected == HOLDFAST_OK) thing.holders.begin()->second = HOLDFAST_ALL_PERMITS;
  }

  void explain(const Had& had) {
    const std::string why(pick(60), 'w');
    ASSERT_EQ(dict_.explain(name(had.key), had.lease, why), is_held(had) ? HOLDFAST_OK : HOLDFAST_NOT_OWNER);
    if (is_held(had)) things_[had.key].why[had.lease.sequence] = why;
  }

  void look(int key) {
    const Thing& thing = things_[key];
    const bool value = values_.count(key) != 0;
    ASSERT_EQ(dict_.get(name(key)), value ? text("value") : thing.holders.empty() ? nothing() : boolean(true));
    const bool none_to_be_had = value || (!thing.holders.empty() && thing.kind == kLock);
    ASSERT_EQ(dict_.used(name(key)), none_to_be_had ? -HOLDFAST_LOCKED : static_cast<int>(thing.used()));
    holdfast_holder holder{};
    ASSERT_EQ(dict_.holder(name(key), &holder), thing.holders.empty() ? HOLDFAST_NOT_FOUND : HOLDFAST_OK);
    if (thing.holders.empty()) return;
    const std::uint64_t first = thing.holders.begin()->first;
    ASSERT_EQ(holder.sequence, first);
    const auto why = thing.why.find(first);
    ASSERT_EQ(std::string(holder.why), why != thing.why.end() ? why->second : "");
  }

  void end_all(int key) {
    things_[key] = {};
    values_.erase(key);
  }

  void step() {
    const int key = static_cast<int>(pick(kKeys));
    const std::size_t number = leases_.empty() ? 0 : pick(leases_.size());
    switch (pick(24)) {
      case 0:
        dict_.remove(name(key));
        return end_all(key);
      case 1:
        if (dict_.set(name(key), "value") != HOLDFAST_OK) return;
        end_all(key);
        values_.insert({key, true});
        return;
      case 2:
        if (pick(10) != 0) return;
        dict_.flush_all();
        for (int one = 0; one < kKeys; ++one) end_all(one);
        return;
      case 3:
        EXPECT_EQ(repair(dict_.segment().shards()[0]), 0U);
        return;
      case 4:  // stores or deletes a value, so that entries are moved
        dict_.set("filler-" + std::to_string(pick(20)), std::string(pick(1500), 'f'));
        return;
      case 5:
      case 6:
      case 7:
      case 8:
        return look(key);
      default:
        break;
    }
    if (leases_.empty() || pick(2) == 0) return acquire(key);
    switch (pick(7)) {
      case 0:
        return keep(leases_[number]);
      case 4:
        return upgrade(leases_[number]);
      case 1:
        return explain(leases_[number]);
      case 2:
        return renew(leases_[number]);
      case 3:
        ASSERT_EQ(dict_.remaining(name(leases_[number].key), leases_[number].lease) >= 0, is_held(leases_[number]));
        return;
      default:
        return give_back(number);
    }
  }

  const std::uint64_t seed_ = seed_of_run();
  std::mt19937_64 random_{seed_};
  Dict dict_{"permits-model", {.size = 32768}};
  std::map<int, Thing> things_;
  std::map<int, bool> values_;
  std::vector<Had> leases_;  // some of them have expired
};

TEST_F(PermitsModel, every_call_agrees_with_the_model) {
  ASSERT_EQ(dict_.status, HOLDFAST_OK) << holdfast_error();
  SCOPED_TRACE("HOLDFAST_TEST_SEED=" + std::to_string(seed_));
  for (int i = 0; i < 60'000; ++i) {
    ASSERT_NO_FATAL_FAILURE(step()) << "step " << i;
    if (i % 50 == 0) {
      ASSERT_EQ(check_shard(dict_.segment().shards()[0]), "") << "step " << i;
    }
  }
}

}  // namespace
}  // namespace holdfast::test
