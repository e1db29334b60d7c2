// Tests that the checks of histories find planted errors, and find no error in a good history.
#include "agent/history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace holdfast::test {
namespace {

using agent::Record;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// A change to a good history, and the error that the check must find.
template <class Event>
struct Planted {
  const char* name;
  std::function<void(std::vector<Event>&)> plant;
  const char* error;
};

template <class Event>
std::string name_of(const ::testing::TestParamInfo<Planted<Event>>& info) {
  return info.param.name;
}

template <class Event>
std::vector<Event> planted_in(std::vector<Event> events, const Planted<Event>& planted) {
  planted.plant(events);
  return events;
}

// --- sections -------------------------------------------------------------------------------------------

std::uint64_t token(std::uint64_t revision, std::uint64_t count) { return (revision << 14) + count; }

/// Three machines hold a lock in turn. One of them holds it twice under one grant, and another never finds its lock
/// valid.
std::vector<Section> good_sections() {
  const agent::LockName k{"jobs", "k"};
  return {{k, 1, 11, token(5, 1), 0, 100, 200},    {k, 1, 11, token(5, 2), 50, 210, 300},
          {k, 2, 22, token(8, 1), 60, 310, 400},   {k, 3, 33, token(9, 1), 70, 900, 0},
          {k, 1, 11, token(12, 1), 320, 500, 600}, {{"jobs", "other"}, 2, 22, token(6, 1), 90, 150, 550}};
}

const Planted<Section> kPlantedSections[] = {
    {"one_that_begins_before_the_last_has_ended", [](auto& all) { all[1].from = 199; }, "two programs have a lock"},
    {"one_that_spans_two_others", [](auto& all) { all[0].until = 450; }, "two programs have a lock"},
    {"the_same_token_twice", [](auto& all) { all[1].token = all[0].token; }, "two grants have one token"},
    {"a_token_that_falls", [](auto& all) { all[4].token = token(7, 1); }, "a token does not rise"},
    {"a_token_that_falls_for_one_that_lost_the_lock_at_once",
     [](auto& all) {
       all[3].asked = 700;
       all[3].token = token(3, 1);
     },
     "a token does not rise"},
};

class PlantedSections : public ::testing::TestWithParam<Planted<Section>> {};

TEST_P(PlantedSections, is_found) {
  EXPECT_THAT(check_sections(planted_in(good_sections(), GetParam())), Contains(HasSubstr(GetParam().error)));
}

INSTANTIATE_TEST_SUITE_P(History, PlantedSections, ::testing::ValuesIn(kPlantedSections), name_of<Section>);

TEST(HistoryTest, of_locks_that_are_held_in_turn_is_good) { EXPECT_THAT(check_sections(good_sections()), IsEmpty()); }

// --- the register ---------------------------------------------------------------------------------------

/// Programs write the values 1 to 4 in turn. Another program reads 2 while 3 is being written, and a third program
/// reads 4.
std::vector<Update> good_updates() {
  return {{0, 1, 10, 20}, {1, 2, 15, 30}, {2, 3, 40, 60}, {2, 2, 50, 55}, {3, 4, 70, 80}, {4, 4, 85, 90}};
}

const Planted<Update> kPlantedUpdates[] = {
    {"an_update_that_another_one_overwrote", [](auto& all) { all[2].read = 1; }, "lost updates: 1"},
    {"one_that_nothing_came_after",
     [](auto& all) {
       all.push_back({2, 9, 41, 42});
     },
     "lost updates: 1"},
    {"a_value_from_nowhere", [](auto& all) { all[0].read = 7; }, "nobody wrote the value 7"},
    {"a_value_that_was_read_and_never_written",
     [](auto& all) {
       all.push_back({8, 8, 1, 2});
     },
     "a value was read that nobody wrote: 8"},
    {"an_old_value_that_was_read", [](auto& all) { all[3].begin = 65, all[3].end = 66; }, "seen too late or too early"},
    {"a_value_that_was_read_before_it_was_written", [](auto& all) { all[5].begin = 61, all[5].end = 62; },
     "seen too late or too early"},
    {"an_update_of_what_was_written_later", [](auto& all) { all[4].begin = 1, all[4].end = 2; },
     "seen too late or too early"},
};

class PlantedUpdates : public ::testing::TestWithParam<Planted<Update>> {};

TEST_P(PlantedUpdates, is_found) {
  EXPECT_THAT(check_updates(planted_in(good_updates(), GetParam()), 0, 4), Contains(HasSubstr(GetParam().error)));
}

INSTANTIATE_TEST_SUITE_P(History, PlantedUpdates, ::testing::ValuesIn(kPlantedUpdates), name_of<Update>);

TEST(HistoryTest, of_a_register_that_is_read_and_written_in_turn_is_good) {
  EXPECT_THAT(check_updates(good_updates(), 0, 4), IsEmpty());
  EXPECT_THAT(check_updates({}, 7, 7), IsEmpty());
}

TEST(HistoryTest, counts_each_update_that_was_lost) {
  EXPECT_EQ(count_lost(good_updates(), 0, 4), 0U);
  // Three programs read 0, and then one of them overwrites the updates of the other two.
  EXPECT_EQ(count_lost({{0, 1, 1, 9}, {0, 2, 2, 9}, {0, 3, 3, 9}, {2, 4, 10, 11}, {0, 5, 4, 12}}, 0, 5), 4U);
}

// --- the store ------------------------------------------------------------------------------------------

const std::string kSpace = "test";
const agent::Keys kKeys(kSpace);
const agent::LockName kLock{"jobs", "k"};

Record lock_of(agent::LeaseId lease, agent::Revision at) { return {kKeys.lock(kLock), "", at, at, lease}; }
Record place_of(agent::LeaseId lease, agent::Revision at) { return {kKeys.place(kLock, lease), "", at, at, lease}; }
Record gone(const Record& record) { return {record.key, "", 0, 0, 0}; }

std::vector<std::string> errors_of(const std::vector<Record>& events) {
  StoreHistory history(kSpace);
  for (const Record& event : events) history.add(event);
  return history.errors();
}

TEST(HistoryTest, of_a_lock_that_goes_to_waiters_in_their_order_is_good) {
  EXPECT_THAT(
      errors_of({lock_of(1, 5), place_of(2, 6), place_of(3, 7), lock_of(1, 8), lock_of(2, 9), gone(place_of(2, 0)),
                 place_of(1, 9), lock_of(3, 10), gone(place_of(3, 0)), gone(lock_of(3, 0)), lock_of(1, 12),
                 gone(place_of(1, 0)), gone(lock_of(1, 0)), lock_of(2, 14)}),
      IsEmpty());
}

TEST(HistoryTest, with_a_holders_old_queue_entry_is_good_whenever_the_entry_counts_from) {
  const Record old{kKeys.place(kLock, 1), "", 6, 6, 1};
  Record put_again = old;
  put_again.modified = 9;
  const std::vector<Record> begun{lock_of(1, 5),  old,           place_of(2, 7),
                                  place_of(3, 8), lock_of(2, 9), gone(place_of(2, 0))};
  const auto goes_on = [&](std::vector<Record> more) {
    std::vector<Record> events = begun;
    events.insert(events.end(), more.begin(), more.end());
    return errors_of(events);
  };
  EXPECT_THAT(goes_on({put_again, lock_of(3, 10), gone(place_of(3, 0)), lock_of(1, 11)}), IsEmpty());
  EXPECT_THAT(goes_on({put_again, lock_of(1, 10), gone(old), lock_of(3, 11)}), IsEmpty());
  EXPECT_THAT(goes_on({lock_of(3, 10)}), ElementsAre(HasSubstr("not the first")))
      << "a queue entry that was not put again must not count";
}

TEST(HistoryTest, with_an_overtaken_waiter_is_not_good) {
  EXPECT_THAT(errors_of({lock_of(1, 5), place_of(2, 6), place_of(3, 7), lock_of(3, 8)}),
              ElementsAre(HasSubstr("not the first")));
  EXPECT_THAT(errors_of({lock_of(1, 5), lock_of(2, 6)}), ElementsAre(HasSubstr("not the first")));
  EXPECT_THAT(errors_of({lock_of(1, 5), place_of(2, 6), gone(lock_of(1, 0)), lock_of(3, 8)}),
              ElementsAre(HasSubstr("past waiters")));
}

TEST(HistoryTest, knows_the_grant_of_each_token) {
  StoreHistory history(kSpace);
  history.add(lock_of(1, 5));
  EXPECT_THAT(history.check_tokens({{kLock, 1, 1, token(5, 3), 0, 0, 0}}), IsEmpty());
  for (const Section& wrong : {Section{kLock, 1, 1, token(6, 1), 0, 0, 0}, Section{kLock, 2, 2, token(5, 1), 0, 0, 0},
                               Section{{"jobs", "other"}, 1, 1, token(5, 1), 0, 0, 0}})
    EXPECT_THAT(history.check_tokens({wrong}), ElementsAre(HasSubstr("no grant")));
}

}  // namespace
}  // namespace holdfast::test
