// Tests the history of `holdfast serve`: what it keeps, in which form, and what it drops.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "inspect/json.h"
#include "serve/history.h"
#include "serve/sample.h"

namespace holdfast::serve {
namespace {

using inspect::Json;

constexpr double kStart = 1000;
constexpr double kTime = 1.7e9;

SampledDictionary dictionary_of(const std::string& name) {
  SampledDictionary dictionary;
  name.copy(dictionary.name.data(), name.size());
  dictionary.file = 7;
  dictionary.locks = Locks::known;
  return dictionary;
}

std::string text_from(History& history, std::uint64_t number, double now = kStart) {
  std::string text;
  for (const Text& part : history.texts_from(number, now, kTime)) text += *part;
  return text;
}

/// Returns the samples of all chunks.
std::vector<Json> samples(History& history, std::uint64_t number = 0) {
  std::vector<Json> found;
  const Json json = Json::parse(text_from(history, number));
  for (const Json& chunk : json["chunks"]) found.insert(found.end(), chunk.begin(), chunk.end());
  return found;
}

Json last_sample(History& history) { return samples(history).back(); }

TEST(History, ContainsOnlyChanges) {
  History history(kStart, kTime);
  Sample sample;
  sample.dictionaries = {dictionary_of("a"), dictionary_of("b")};
  sample.dictionaries[0].hits = 1000;
  sample.dictionaries[1].used = 250;
  history.add(kStart, sample);
  EXPECT_EQ(Json::parse(R"([1,0,[],[{"name":"a"},0,0,0,0,0,null,null],[{"name":"b"},250,0,0,0,0,null,null]])"),
            last_sample(history))
      << "the first sample must be complete, but does not know what happened earlier";
  history.add(kStart + 1, sample);
  EXPECT_EQ(Json::parse("[2,1,0]"), last_sample(history));
  sample.dictionaries[0].hits += 3;
  sample.dictionaries[0].waits[4] += 2;
  sample.dictionaries[0].waits[11] += 1;
  history.add(kStart + 2, sample);
  EXPECT_EQ(Json::parse("[3,2,0,[0,0,3,0,0,0,null,null,[4,2,11,1]]]"), last_sample(history));
}

TEST(History, KeepsWhenAHoldBegan) {
  History history(kStart, kTime);
  Sample sample;
  sample.dictionaries = {dictionary_of("a")};
  sample.dictionaries[0].held = 1;
  sample.dictionaries[0].longest_hold = 50;
  history.add(kStart, sample);
  sample.dictionaries[0].longest_hold = 51.02;
  history.add(kStart + 1, sample);
  EXPECT_EQ(Json::parse("[2,1,0]"), last_sample(history))
      << "this is the same hold, with a slightly different measured time";
  sample.dictionaries[0].longest_hold = 0.5;
  history.add(kStart + 2, sample);
  EXPECT_EQ(Json::parse("[3,2,0,[0,0,0,0,1,0,1.5,null]]"), last_sample(history));
}

TEST(History, ShowsThatLocksAreUnknownAndRepeatsValuesThatWereNotRead) {
  History history(kStart, kTime);
  Sample sample;
  sample.dictionaries = {dictionary_of("a")};
  sample.dictionaries[0].held = 3;
  history.add(kStart, sample);
  sample.dictionaries[0].held = 0;
  sample.dictionaries[0].locks = Locks::unread;
  history.add(kStart + 1, sample);
  EXPECT_EQ(Json::parse("[2,1,0]"), last_sample(history));
  sample.dictionaries[0].locks = Locks::incomplete;
  history.add(kStart + 2, sample);
  EXPECT_EQ(Json::parse("[3,2,0,[0,0,0,0,null,null,null,null]]"), last_sample(history));
}

TEST(History, StartsToCountAgainWithANewDictionaryOfTheSameName) {
  History history(kStart, kTime);
  Sample sample;
  sample.dictionaries = {dictionary_of("a")};
  sample.dictionaries[0].hits = 10;
  history.add(kStart, sample);
  sample.dictionaries[0].file = 8;
  sample.dictionaries[0].hits = 500;
  sample.dictionaries[0].used = 1;
  history.add(kStart + 1, sample);
  EXPECT_EQ(Json::parse("[2,1,0,[0,1,0,0,0,0,null,null]]"), last_sample(history));
  sample.dictionaries[0].hits = 3;  // as if the counts had been overwritten
  sample.dictionaries[0].misses = 9;
  history.add(kStart + 2, sample);
  EXPECT_EQ(Json::parse("[3,2,0]"), last_sample(history));
  sample.dictionaries.clear();
  history.add(kStart + 3, sample);
  EXPECT_EQ(Json::parse("[4,3,0,[0]]"), last_sample(history)) << "removed";
  history.add(kStart + 4, sample);
  EXPECT_EQ(Json::parse("[5,4,0]"), last_sample(history));
}

TEST(History, ShowsLongWaits) {
  History history(kStart, kTime);
  Sample sample;
  sample.long_waits = {{2, 100, 3, R"({"key":"k"})"}};
  history.add(kStart, sample);
  EXPECT_EQ(Json::parse(R"([1,0,[[-2,-100,3,{"key":"k"}]]])"), last_sample(history));
  sample.long_waits = {{3.01, 101, 3, R"({"key":"k"})"}};
  history.add(kStart + 1, sample);
  EXPECT_EQ(Json::parse("[2,1,0]"), last_sample(history));
  sample.long_waits = {{3.99, 102, 3, R"({"key":"k"})"}, {1.5, -1, 1, R"({"key":"other"})"}};
  history.add(kStart + 2, sample);
  EXPECT_EQ(Json::parse(R"([3,2,[[-2,-100,3,{"key":"k"}],[0.5,null,1,{"key":"other"}]]])"), last_sample(history));
  history.add(kStart + 3, {});
  EXPECT_EQ(Json::parse("[4,3,[]]"), last_sample(history));
}

TEST(History, EscapesHostileNames) {
  History history(kStart, kTime);
  Sample sample;
  for (const char* const name : {"\"],[", "\xff", "</script>"}) sample.dictionaries.push_back(dictionary_of(name));
  history.add(kStart, sample);
  const Json found = last_sample(history);
  EXPECT_EQ("\"],[", found[3][0]["name"]);
  EXPECT_EQ("FF", found[4][0]["name_hex"]);
  EXPECT_EQ("</script>", found[5][0]["name"]);
}

TEST(History, ShowsThatNothingIsKnown) {
  History history(kStart, kTime);
  history.add(kStart, {});
  history.add_unknown(kStart + 1);
  EXPECT_EQ(Json::parse("[2,1]"), last_sample(history));
  history.add(kStart + 2, {});
  EXPECT_EQ(3U, samples(history).size());
  history.add_gap();
  history.add(kStart + 500, {});
  EXPECT_EQ(Json::parse("[4,3]"), samples(history)[3]) << "the values must be unknown after the last sample";
  EXPECT_EQ(Json::parse("[5,500,0]"), samples(history)[4]);
}

TEST(History, GivesWholeChunksFromANumber) {
  History history(kStart, kTime);
  Sample sample;
  sample.dictionaries = {dictionary_of("a")};
  for (std::size_t i = 0; i < 2 * kChunkSamples + 5; ++i) {
    EXPECT_EQ(i % kChunkSamples == 0, history.wants_thorough());
    history.add(kStart + static_cast<double>(i), sample);
  }
  EXPECT_EQ(125U, samples(history).size());
  EXPECT_EQ(61, samples(history, 120).front()[0]);
  EXPECT_EQ(121, samples(history, 121).front()[0]);
  EXPECT_EQ("a", samples(history, 121).front()[3][0]["name"])
      << "it must be possible to read a chunk without the earlier chunks";
  EXPECT_EQ(121, samples(history, 10000).front()[0]);
  const std::vector<Text> texts = history.texts_from(0, kStart, kTime);
  EXPECT_TRUE(history.has(texts[1]) && history.has(texts.back()));
  EXPECT_EQ(texts[1], history.texts_from(0, kStart, kTime)[1]) << "all replies must share a chunk";
  history.add(kStart + 125, sample);
  EXPECT_TRUE(history.has(texts[1]));
  EXPECT_FALSE(history.has(texts.back()));
}

TEST(History, ContainsTheTimeOfDayWithoutRelyingOnIt) {
  History history(kStart, kTime);
  history.add(kStart + 10, {});
  const Json json = Json::parse(text_from(history, 0, kStart + 12));
  EXPECT_EQ(12, json["uptime"]);
  EXPECT_EQ(kTime, json["time"]);
  EXPECT_EQ(10, json["chunks"][0][0][1]);
}

TEST(History, KeepsAnHour) {
  History history(kStart, kTime);
  Sample sample;
  for (std::size_t i = 1; i <= 2 * kHistorySamples; ++i) {
    history.add(kStart + static_cast<double>(i), sample);
    ASSERT_EQ(1, history.pause());
  }
  const auto kept = samples(history);
  EXPECT_LE(kept.size(), kHistorySamples);
  EXPECT_GE(kept.size(), kHistorySamples - kChunkSamples);
  EXPECT_EQ(2 * kHistorySamples, kept.back()[0].get<std::size_t>());
  history.add(kStart + 1e5, sample);
  EXPECT_EQ(1U, samples(history).size()) << "older samples must also be dropped after a long time";
}

/// Returns the maximum size of the texts during two hours in which all fields of the dictionaries change. Sets `age` to
/// the age of the oldest sample.
std::size_t largest_size(std::size_t dictionaries, const std::string& name, bool pauses, double& age) {
  History history(kStart, kTime);
  Sample sample;
  for (std::size_t i = 0; i < dictionaries; ++i) sample.dictionaries.push_back(dictionary_of(name + std::to_string(i)));
  std::size_t most = 0;
  double now = kStart;
  for (; now < kStart + 2 * kHistorySeconds; now += pauses ? history.pause() : 1) {
    for (SampledDictionary& one : sample.dictionaries) {
      one.hits += 123456;
      one.misses += 12345;
      for (std::uint64_t& waits : one.waits) waits += 1234;
      one.used = (one.used + 1) % 1000;
    }
    history.add(now, sample);
    std::size_t size = 0;
    for (const Text& text : history.texts_from(0, now, kTime)) size += text->size();
    most = std::max(most, size);
  }
  age = now - kStart - samples(history).front()[1].get<double>();
  return most;
}

TEST(History, StaysWithinItsSizeAndTakesFewerSamplesInstead) {
  double age = 0;
  constexpr std::size_t kOpenMost = std::size_t{2} << 20;
  EXPECT_LE(largest_size(kDictionariesSampled, "name ", true, age), kHistoryMax + kOpenMost);
  EXPECT_GE(age, kHistorySeconds / 2);
  const std::string hostile(HOLDFAST_NAME_MAX - 4, '\1');
  EXPECT_LE(largest_size(kDictionariesSampled, hostile, true, age), kHistoryMax + kOpenMost);
  EXPECT_GE(age, kHistorySeconds / 4);
}

TEST(History, DropsTheOldestSamplesIfThereAreTooMany) {
  double age = 0;
  constexpr std::size_t kOpenMost = std::size_t{1} << 18;
  EXPECT_LE(largest_size(60, "name ", false, age), kHistoryMax + kOpenMost);
  EXPECT_GE(age, kHistorySeconds / 10);
}

TEST(Sample, SurvivesThePipe) {
  Sample sample;
  sample.dictionaries = {dictionary_of("a"), dictionary_of("b")};
  sample.dictionaries[1].waits[11] = 5;
  sample.long_waits = {{2, -1, 3, "{}"}, {1, 7, 1, "{\"key\":1}"}};
  sample.left_out = 4;
  const std::string bytes = to_bytes(sample);
  const auto parsed = parse_sample(bytes);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(bytes, to_bytes(*parsed));
  for (std::size_t size = 0; size < bytes.size(); ++size)
    ASSERT_FALSE(parse_sample(std::string_view(bytes).substr(0, size))) << size;
  std::string damaged = bytes;
  damaged.replace(8, 8, 8, '\xff');
  EXPECT_FALSE(parse_sample(damaged));
}

}  // namespace
}  // namespace holdfast::serve
