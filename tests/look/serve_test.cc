// How long `holdfast serve` keeps what it has gathered, and what its metrics leave out or add up.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

#include "serve/families.h"
#include "serve/gatherer.h"
#include "serve/metrics.h"
#include "serve/view.h"

namespace holdfast::serve {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Gatherer, KeepsDocumentsForASecondToFiveMinutes) {
  EXPECT_EQ(1, seconds_kept(0, 0.01));
  EXPECT_EQ(1, seconds_kept(0.0001, 0.01));
  EXPECT_EQ(50, seconds_kept(0.5, 0.01));
  EXPECT_EQ(300, seconds_kept(30, 0.001));
}

DictionaryView view_of(const std::string& name) {
  DictionaryView view;
  view.dictionary.name = name;
  view.dictionary.size = 65536;
  view.locks_listed = true;
  return view;
}

std::string text_of(const DictionaryView& one, std::uint32_t keys = 0) {
  View view;
  view.dictionaries.push_back(one);
  return metrics_of(view, keys, MetricsFormat::prometheus);
}

TEST(Metrics, LeaveOutLocksThatAreNotAllListed) {
  DictionaryView view = view_of("a");
  view.holds[0] = 3;
  view.waiters = 2;
  EXPECT_THAT(text_of(view), HasSubstr("holdfast_locks_held{dictionary=\"a\",kind=\"lock\"} 3\n"));
  EXPECT_THAT(text_of(view), HasSubstr("holdfast_lock_waiters{dictionary=\"a\"} 2\n"));
  view.locks_listed = false;
  EXPECT_THAT(text_of(view), Not(HasSubstr("holdfast_locks_held")));
  EXPECT_THAT(text_of(view), Not(HasSubstr("holdfast_lock_waiters")));
  EXPECT_THAT(text_of(view), HasSubstr("holdfast_dictionary_capacity_bytes{dictionary=\"a\"} 65536\n"));
}

holdfast_contended contended(const std::string& key, std::uint64_t waits) {
  holdfast_contended one{};
  one.waits = waits;
  one.wait_time = 0.5;
  one.key_length = static_cast<std::uint32_t>(key.size());
  std::memcpy(one.key, key.data(), std::min(key.size(), sizeof one.key));
  return one;
}

TEST(Metrics, AddUpKeysThatAreCutToTheSame) {
  const std::string start(HOLDFAST_CONTENDED_KEY_MAX, 'k');
  DictionaryView view = view_of("a");
  view.contended = {contended(start + "one", 3), contended(start + "two", 4), contended("other", 5)};
  const std::string labels = "{dictionary=\"a\",kind=\"lock\",key=\"" + start + "\"} ";
  EXPECT_THAT(text_of(view, 64), HasSubstr("\nholdfast_key_waits_total" + labels + "7\n"));
  EXPECT_THAT(text_of(view, 64), HasSubstr("\nholdfast_key_wait_seconds_total" + labels + "1\n"));
}

}  // namespace
}  // namespace holdfast::serve
