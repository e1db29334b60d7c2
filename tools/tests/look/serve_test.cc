// Tests how long `holdfast serve` keeps documents, and what its metrics omit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "serve/families.h"
#include "serve/gatherer.h"
#include "serve/list_document.h"
#include "serve/metrics.h"
#include "serve/server.h"
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

Text text_of_size(std::size_t size) { return std::make_shared<const std::string>(size, 'x'); }

TEST(Server, LimitsOldTextsWhateverReadersDo) {
  const Text latest = text_of_size(3 * kOldTextsMax);
  const auto is_new = [&](const Text& text) { return text == latest; };
  const Text half = text_of_size(kOldTextsMax / 2);
  const Text other = text_of_size(kOldTextsMax / 2);
  const Text one = text_of_size(1);
  const std::vector<Body> within{{latest}, {half}, {nullptr}, {half}, {latest}, {other, half}, {}, {other}};
  EXPECT_EQ(0U, count_to_drop(within, is_new)) << "each old text must count once, and a new text must not count";
  const std::vector<Body> beyond{{one}, {half}, {latest, other}, {half}};
  EXPECT_EQ(1U, count_to_drop(beyond, is_new)) << "the oldest text must be dropped";
  const std::vector<Body> longest{{half}, {latest, text_of_size(kOldTextsMax + 1)}, {one}};
  EXPECT_EQ(2U, count_to_drop(longest, is_new));
}

TEST(ListDocument, TakesItemsUpToItsLimitAndReportsThat) {
  inspect::Json head{{"time", 1}};
  ListDocument small(head, "items");
  small.add({{"a", 1}});
  small.add(2);
  EXPECT_EQ("{\"time\":1,\"items\":[{\"a\":1},2],\"truncated\":false}\n", std::move(small).text());
  ListDocument large(head, "items");
  for (int i = 0; i < 1000; ++i) large.add(std::string(10'000, 'x'));
  large.add(1);
  const std::string text = std::move(large).text();
  EXPECT_LE(text.size(), kDocumentMax);
  EXPECT_GT(text.size(), kDocumentMax - 20'000);
  const inspect::Json json = inspect::Json::parse(text);
  EXPECT_TRUE(json["truncated"].get<bool>());
  EXPECT_TRUE(json["items"].back().is_string()) << "no item may follow an omitted item";
}

TEST(ListDocument, CutsKeysBetweenCharacters) {
  EXPECT_EQ("short", beginning_of("short"));
  const std::string bytes(kKeyShown + 10, '\xff');
  EXPECT_EQ(bytes.substr(0, kKeyShown), beginning_of(bytes));
  std::string text(kKeyShown - 1, 'k');
  EXPECT_EQ(text, beginning_of(text + "\xC3\xA4rger"));
  EXPECT_EQ(text, beginning_of(text + "\xE2\x82\xAC"));
  EXPECT_EQ(text + "k", beginning_of(text + "kk"));
}

DictionaryView view_of(const std::string& name) {
  DictionaryView view;
  view.dictionary.name = name;
  view.dictionary.size = 65536;
  view.locks_listed = true;
  return view;
}

std::string text_of(const DictionaryView& one) {
  View view;
  view.dictionaries.push_back(one);
  return metrics_of(view, 0, MetricsFormat::prometheus);
}

TEST(Metrics, OmitLockCountsIfNotAllLocksAreListed) {
  DictionaryView view = view_of("a");
  view.holds[0] = 3;
  view.waiters = 2;
  view.longest_wait = 0.5;
  view.longest_hold = {7, 4000};
  EXPECT_THAT(text_of(view), HasSubstr("holdfast_locks_held{dictionary=\"a\",kind=\"lock\"} 3\n"));
  EXPECT_THAT(text_of(view), HasSubstr("holdfast_lock_waiters{dictionary=\"a\"} 2\n"));
  EXPECT_THAT(text_of(view), HasSubstr("holdfast_lock_longest_wait_seconds{dictionary=\"a\"} 0.5\n"));
  EXPECT_THAT(text_of(view), HasSubstr("holdfast_lock_longest_hold_seconds{dictionary=\"a\",waiters=\"no\"} 7\n"));
  EXPECT_THAT(text_of(view), HasSubstr("holdfast_lock_longest_hold_seconds{dictionary=\"a\",waiters=\"yes\"} 4000\n"));
  view.locks_listed = false;
  EXPECT_THAT(text_of(view), Not(HasSubstr("holdfast_locks_held")));
  EXPECT_THAT(text_of(view), Not(HasSubstr("holdfast_lock_waiters")));
  EXPECT_THAT(text_of(view), Not(HasSubstr("holdfast_lock_longest")));
  EXPECT_THAT(text_of(view), HasSubstr("holdfast_dictionary_capacity_bytes{dictionary=\"a\"} 65536\n"));
}

}  // namespace
}  // namespace holdfast::serve
