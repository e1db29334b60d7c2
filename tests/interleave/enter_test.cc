// Tests how processes enter the world and create files, while one of them is held or killed between two steps.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <string>

#include "base/token.h"
#include "interleave/failpoint.h"
#include "support/dict.h"
#include "support/started.h"
#include "world/name_file.h"
#include "world/process_table.h"

namespace holdfast::test {
namespace {

/// Leaves new processes only one slot of the process table: the test holds the record locks of all other slots.
class OneSlot {
 public:
  OneSlot(const std::string& table, std::uint32_t slot) : fd_(::open(table.c_str(), O_RDWR | O_CLOEXEC)) {
    take(0, slot);
    take(slot + 1, kSlots);
  }
  ~OneSlot() { ::close(fd_); }
  OneSlot(const OneSlot&) = delete;
  OneSlot& operator=(const OneSlot&) = delete;

 private:
  // Locks the slots one by one, because live processes hold some of them.
  void take(std::uint32_t first, std::uint32_t end) const {
    for (std::uint32_t slot = first; slot < end; ++slot) platform::try_record_lock(fd_, kSlotLocks + slot);
  }
  int fd_;
};

using Body = std::function<int(Channel&)>;

/// Opens the dictionary, reports the result of `find`, and stays alive.
Body with_dict(const Options& options, const std::function<std::string(Dict&)>& find) {
  return [=](Channel& parent) {
    Dict dict("dict", options);
    parent.say(find(dict));
    parent.hear();
    return dict.status;
  };
}
std::string code_of(Dict& dict) { return holdfast_code_text(dict.status); }
std::string ready_or_not(Dict& dict) { return dict.status == HOLDFAST_OK ? "ready" : holdfast_error(); }

/// Runs `body` in a process that is held when it next reaches the failpoint.
Body held_at(const std::string& place, const Body& body) {
  return [=](Channel& parent) {
    if (holdfast_directory() == nullptr) return 1;
    pause_at(place, parent);
    return body(parent);
  };
}
int remove_it(Channel&) { return holdfast_remove("dict", 4); }

class InterleaveEnter : public testing::Test {
 protected:
  /// Takes the lock without an exptime, and reports the number of its slot.
  static int hold(Channel& parent) {
    Dict dict("dict");
    holdfast_lease lease{};
    if (dict.try_lock("key", 0, &lease) != HOLDFAST_OK) return 1;
    parent.say(std::to_string(slot_of(lease.owner)));
    parent.hear();
    return 0;
  }
  /// Whenever it gets a line, tries to take the lock and reports the result.
  static int look(Channel& parent) {
    Dict dict("dict");
    parent.say(dict.set("value", "there") == HOLDFAST_OK ? "ready" : holdfast_error());
    while (parent.hear() == "try") {
      holdfast_lease lease{};
      parent.say(holdfast_code_text(unless_held_up([&] { return dict.try_lock("key", 0, &lease); })));
    }
    return 0;
  }
  /// Opens the dictionary, but is held before it gives the file a name. Reports whether it got another process's file.
  const Body open = held_at("new_file.publish", with_dict({}, [](Dict& dict) {
                              return dict.get("value") == text("there") ? "attached" : holdfast_error();
                            }));
  static int enter(Channel& parent) {
    pause_at("enter.record_locked", parent);
    parent.say(holdfast_directory() != nullptr ? "entered" : holdfast_error());
    parent.hear();
    return 0;
  }

  const ScratchDirectory directory_;
};

TEST_F(InterleaveEnter, a_death_between_record_lock_and_generation_leaves_the_slot_free) {
  Child holder(hold);
  const std::string slot = holder.hear();
  holder.kill_and_wait();
  const OneSlot only(directory_ / "processes", static_cast<std::uint32_t>(std::stoul(slot)));
  Started first("at enter.record_locked", enter);
  first.kill_and_wait();
  Started second("ready", look);
  EXPECT_EQ(second.ask("try"), "ok");
}

// A process that takes over a dead process's slot must not make the dead process look alive, wherever it is stopped.
TEST_F(InterleaveEnter, a_stopped_successor_does_not_make_its_predecessor_look_alive) {
  for (const char* const place : {"enter.generation_raised", "enter.record_locked"}) {
    Started looker("ready", look);
    Child holder(hold);
    const std::string slot = holder.hear();
    const OneSlot only(directory_ / "processes", static_cast<std::uint32_t>(std::stoul(slot)));
    EXPECT_EQ(looker.ask("try"), "locked");
    holder.kill_and_wait();
    Child successor([place](Channel& parent) {
      pause_at(place, parent);
      return holdfast_directory() != nullptr ? 0 : 1;
    });
    ASSERT_EQ(successor.hear(), std::string("at ") + place);
    EXPECT_EQ(looker.ask("try"), "ok");
  }
}

// An incomplete file never has a name, so an abandoned file blocks nobody.
TEST_F(InterleaveEnter, a_death_before_a_dictionary_gets_its_name_leaves_nothing) {
  Started first("at new_file.publish", open);
  Started second("ready", look);
  first.kill_and_wait();
  EXPECT_TRUE(exists(directory_ / "dict.dict"));
  EXPECT_EQ(second.ask("try"), "ok");
}

TEST_F(InterleaveEnter, the_second_of_two_concurrent_creators_attaches_to_the_firsts_dictionary) {
  Started slow("at new_file.publish", open);
  Started quick("ready", look);
  EXPECT_EQ(slow.ask("go on"), "attached");
}

// Before this dictionary is published, a different dictionary has the same name and grants fencing tokens.
TEST_F(InterleaveEnter, a_dictionary_that_is_published_late_grants_larger_numbers_than_its_predecessors) {
  const auto number = [](Channel& parent) {
    if (holdfast_directory() == nullptr) return 1;
    if (parent.hear() == "slowly") {
      const Dict earlier("dict");  // creates the file of names, which is published like a dictionary
      if (holdfast_remove("dict", 4) != HOLDFAST_OK) return 3;
      pause_at("new_file.publish", parent);
    }
    Dict dict("dict");
    holdfast_lease lease{};
    if (dict.try_lock("key", 0, &lease) != HOLDFAST_OK) return 2;
    parent.say(std::to_string(lease.sequence));
    parent.hear();
    return 0;
  };
  Child slow(number);
  EXPECT_EQ(slow.ask("slowly"), "at new_file.publish");
  std::uint64_t before = 0;
  {
    Child quick(number);
    before = std::stoull(quick.ask("at once"));
  }
  in_process([] { EXPECT_EQ(holdfast_remove("dict", 4), HOLDFAST_OK); });
  EXPECT_GT(std::stoull(slow.ask("go on")), before);
}

// The removal has two steps. After the first, users see the dictionary as removed; the second frees its name.
TEST_F(InterleaveEnter, a_death_in_mid_removal_leaves_name_and_world_usable) {
  Started user("ready", look);
  Started remover("at remove.retired", held_at("remove.retired", remove_it));
  remover.kill_and_wait();
  Started next("ready", look);
  EXPECT_EQ(next.ask("try"), "ok");
}

// The removal finds no file of names. Then the user creates this file.
TEST_F(InterleaveEnter, a_dictionary_opened_while_its_removal_begins_does_not_block_its_name) {
  const Body persistent = with_dict({.persist = true}, ready_or_not);
  Started("ready", persistent).kill_and_wait();
  for (std::size_t number = 0; number < kNameFiles; ++number) ::unlink((directory_ / name_file_name(number)).c_str());
  Started remover("at remove.prepared", held_at("remove.prepared", remove_it));
  Started user("ready", persistent);
  remover.say("go on");
  EXPECT_EQ(remover.wait(), HOLDFAST_OK);
  Started next("ready", persistent);
}

const Body keep_small = with_dict({.size = 65536, .kept = true}, code_of);
const Body keep_large = with_dict({.size = 131072, .kept = true}, code_of);
/// Does the same, but is held when it has locked the file exclusively and knows that no process uses the file.
const Body keep_large_slowly = held_at("unused.judged", keep_large);

TEST_F(InterleaveEnter, a_death_before_an_unused_dictionary_is_replaced_leaves_it_unchanged) {
  Started("ok", keep_small).kill_and_wait();
  Started("at unused.judged", keep_large_slowly).kill_and_wait();
  Started user("ok", keep_small);
  Started("mismatch", keep_large);
}

TEST_F(InterleaveEnter, a_user_that_opens_an_unused_dictionary_during_its_replacement_does_not_get_the_old_file) {
  Started("ok", keep_small).kill_and_wait();
  Started replacer("at unused.judged", keep_large_slowly);
  Child user(keep_small);
  ::usleep(20'000);  // by then, the user waits for the replacement
  replacer.say("go on");
  const std::string got = replacer.hear();
  const std::string other = user.hear();
  EXPECT_TRUE(got == "ok" || got == "mismatch") << got;
  EXPECT_NE(got == "ok", other == "ok") << got << ", " << other;
}

/// Opens the kept dictionary, makes it persistent, and stores a value.
const Body keep_small_for_good = with_dict({.size = 65536, .persist = true}, [](Dict& dict) {
  return dict.set("value", "there") == HOLDFAST_OK ? "stored" : holdfast_error();
});
/// Opens the existing dictionary and reports its content.
const Body find_small = with_dict({.size = 65536, .kept = true}, [](Dict& dict) {
  return dict.get("value") == text("there") ? "found" : holdfast_code_text(dict.status);
});

TEST_F(InterleaveEnter, a_dictionary_that_becomes_persistent_after_the_check_is_not_replaced) {
  Started("ok", keep_small).kill_and_wait();
  Started replacer("at unused.found", held_at("unused.found", keep_large));
  Started("stored", keep_small_for_good).kill_and_wait();
  replacer.say("go on");
  EXPECT_EQ(replacer.hear(), "mismatch");
  Started user("found", find_small);
}

/// Expects that a process can open a dictionary of a different world, even if the process is held at `place` while the
/// dictionary's last user makes it persistent and ends.
void expect_that_it_is_found(const ScratchDirectory& directory, const char* place, bool enters_before) {
  Started old("ok", [](Channel& parent) {
    const Dict dict("dict", {.size = 65536});
    parent.say(holdfast_code_text(dict.status));
    parent.hear();
    return keep_small_for_good(parent);
  });
  ::unlink((directory / "processes").c_str());
  Started next(std::string("at ") + place, [=](Channel& parent) {
    if (enters_before && holdfast_directory() == nullptr) return 1;
    pause_at(place, parent);
    return find_small(parent);
  });
  EXPECT_EQ(old.ask("keep it"), "stored");
  old.kill_and_wait();
  next.say("go on");
  EXPECT_EQ(next.hear(), "found");
}

TEST_F(InterleaveEnter, opening_does_not_retire_a_dictionary_of_another_world_that_becomes_persistent) {
  expect_that_it_is_found(directory_, "use.judged", true);
}

TEST_F(InterleaveEnter, entering_does_not_retire_a_dictionary_of_another_world_that_becomes_persistent) {
  expect_that_it_is_found(directory_, "leftover.judged", false);
}

}  // namespace
}  // namespace holdfast::test
