// Tests the rates of dictionaries and locks that have the same names in the directories of several users.
#include "inspect/rates.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <string>

namespace holdfast::inspect {
namespace {

DictionaryLook look(const std::string& user, std::uint64_t hits, std::uint64_t waits) {
  DictionaryLook look;
  look.user = user;
  look.name = "dictionary";
  look.counts.hits = hits;
  holdfast_contended key{};
  std::memcpy(key.key, "key", 3);
  key.key_length = 3;
  key.waits = waits;
  look.contended.push_back(key);
  return look;
}

Snapshot snapshot(double time, std::uint64_t hits_of_one, std::uint64_t waits_of_other) {
  Snapshot snapshot;
  snapshot.time = time;
  snapshot.dictionaries = {look("one", hits_of_one, 0), look("other", 0, waits_of_other)};
  for (const char* const user : {"one", "other"}) {
    Lock& lock = snapshot.locks.emplace_back();
    lock.user = user;
    lock.dictionary = "dictionary";
    lock.key = "key";
  }
  return snapshot;
}

TEST(Rates, ShowTheLoadsOfDictionariesThatHaveCaches) {
  Snapshot before = snapshot(10, 0, 0);
  Snapshot now = snapshot(20, 0, 0);
  before.dictionaries[0].loads = 100;
  now.dictionaries[0].loads = 150;
  Rates rates = rates_of(before, now);
  EXPECT_EQ(rates.dictionaries[0].loads, 5);
  EXPECT_FALSE(rates.dictionaries[1].loads.has_value());
  before.dictionaries[0].loads = -1;  // the cache is new
  EXPECT_EQ(rates_of(before, now).dictionaries[0].loads, 15);
}

TEST(Rates, DistinguishUsersWhoseDictionariesAndKeysHaveTheSameNames) {
  const Snapshot before = snapshot(10, 1000, 300);
  const Snapshot now = snapshot(20, 1200, 350);
  const Rates rates = rates_of(before, now);
  ASSERT_EQ(rates.dictionaries.size(), 2U);
  EXPECT_EQ(rates.dictionaries[0].reads, 20);
  EXPECT_EQ(rates.dictionaries[1].reads, 0);
  std::map<std::string, double> contention;
  for (const LockRates& lock : rates.locks) contention[lock.user] += lock.contention;
  EXPECT_EQ(contention, (std::map<std::string, double>{{"one", 0}, {"other", 5}}));
  EXPECT_EQ(rates.locks.size(), 2U);
}

}  // namespace
}  // namespace holdfast::inspect
