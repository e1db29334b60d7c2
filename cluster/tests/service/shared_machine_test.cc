// Tests the agent's view of its machine (service/shared_machine.h) when dictionaries are created and removed, when
// agents succeed each other, and when processes are stopped inside a dictionary.
#include "service/shared_machine.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/keeper.h"
#include "agent/silent_store.h"
#include "dict/guard.h"
#include "dict/layout.h"
#include "gate/cluster_lock.h"
#include "gate/question.h"
#include "support/dict_test.h"
#include "support/refused_call.h"
#include "support/waiting.h"
#include "world/world.h"

namespace holdfast::test {
namespace {

using agent::LockName;
using agent::Refusal;
using agent::SharedMachine;

constexpr agent::Milliseconds kLongMs = 60'000;
constexpr double kLong = 60;  // seconds
constexpr double kPatience = 30;

agent::Milliseconds in_a_minute() { return static_cast<agent::Milliseconds>(boottime_ms()) + kLongMs; }

/// A second agent in its own process. It replaces an earlier agent, and executes commands.
class OtherAgent : public Started {
 public:
  OtherAgent()
      : Started("began", [](Channel& parent) {
          SharedMachine machine(**World::current(), "main");
          parent.say("began");
          for (;;) {
            const std::string word = parent.hear();
            if (word == "turn")
              machine.turn();
            else if (word != "superseded")
              return 0;
            parent.say(machine.superseded() ? "superseded" : "acts");
          }
        }) {}
};

/// Collects the leases that the agent revokes.
class RevokingStore : public SilentStore {
 public:
  void revoke(agent::LeaseId lease, std::function<void(const agent::Answer&)>) override { revoked.push_back(lease); }

  std::vector<agent::LeaseId> revoked;
};

class RealClock : public agent::Clock {
 public:
  agent::Milliseconds boot_ms() const override { return static_cast<agent::Milliseconds>(boottime_ms()); }
  agent::Milliseconds wall_ms() const override { return boot_ms(); }
};

class SharedMachineTest : public DictTest {
 protected:
  SharedMachineTest() : DictTest({.cluster = "main"}), name{dict_name, "k"} {}

  void begin() {
    machine = std::make_unique<SharedMachine>(**World::current(), "main");
    epoch = machine->begin_epoch(100, in_a_minute());
    ASSERT_NE(epoch, 0U);
  }
  /// Begins the next session only in this dictionary, like an agent that dies before it reaches the others.
  void begin_next_in(Dict& one) {
    const holdfast::Session session(one.segment());
    session.lose(static_cast<std::uint16_t>(epoch));
    ASSERT_TRUE(session.begin(session.now(), static_cast<std::uint16_t>(epoch + 1), 101, in_a_minute()));
  }
  static SessionWord session_in(Dict& one) { return holdfast::Session(one.segment()).now(); }
  bool stands() {
    LockState state;
    EXPECT_EQ(state_of_lock(dict.dictionary(), name.key, state), Code::ok);
    return state.stands;
  }
  /// Returns a dictionary that is removed at the end of the test if it still exists.
  std::unique_ptr<Dict> another(const std::string& its_name) {
    auto made = std::make_unique<Dict>(its_name, Options{.cluster = "main"});
    EXPECT_EQ(made->status, HOLDFAST_OK);
    others.push_back(its_name);
    return made;
  }
  void TearDown() override {
    for (const std::string& one : others) holdfast_remove(one.data(), one.size());
    DictTest::TearDown();
  }
  static void remove(const std::string& its_name) {
    EXPECT_EQ(holdfast_remove(its_name.data(), its_name.size()), HOLDFAST_OK);
  }
  /// Returns whether a question reaches this agent.
  bool reaches_this_agent() {
    machine->turn();
    const auto asked = ask_agent((**World::current()).directory(), "main", {"verify", dict_name, 0, "k"});
    return asked && !machine->queries().empty();
  }
  std::string path_of(const std::string& its_name) const { return directory / (its_name + ".dict"); }

  const LockName name;
  std::vector<std::string> others;
  std::unique_ptr<SharedMachine> machine;
  agent::Epoch epoch = 0;
  holdfast_lease lease{};
};

// --- dictionaries that are created and removed
// ----------------------------------------------------------------------------------

TEST_F(SharedMachineTest, a_dictionary_removed_before_an_answer_from_the_store_no_longer_takes_part) {
  const std::string other = new_name();
  another(other);
  begin();
  const agent::Session before = machine->session();
  remove(other);
  EXPECT_FALSE(machine->session().lost);
  EXPECT_TRUE(machine->renew(before.deadline, before.deadline + 1));
  EXPECT_FALSE(machine->grant({other, "k"}, epoch, 7));
  machine->lose();
  EXPECT_NE(machine->begin_epoch(101, in_a_minute()), 0U);
}

TEST_F(SharedMachineTest, a_dictionary_recreated_before_an_answer_from_the_store_does_not_end_the_session) {
  const std::string other = new_name();
  another(other);
  begin();
  remove(other);
  const auto made = another(other);
  const agent::Session before = machine->session();
  EXPECT_FALSE(before.lost);
  EXPECT_TRUE(machine->renew(before.deadline, before.deadline + 1));
  machine->turn();
  EXPECT_FALSE(machine->session().lost);
  EXPECT_EQ(session_in(*made).epoch(), epoch);
}

TEST_F(SharedMachineTest, a_dictionary_opened_late_takes_part_even_if_it_names_a_dead_agent) {
  OtherAgent().kill_and_wait();
  const std::string away = path_of(dict_name) + ".away";
  ASSERT_EQ(std::rename(path_of(dict_name).c_str(), away.c_str()), 0);
  begin();
  ASSERT_EQ(std::rename(away.c_str(), path_of(dict_name).c_str()), 0);
  machine->turn();
  EXPECT_FALSE(machine->superseded());
  EXPECT_FALSE(machine->session().lost);
  EXPECT_TRUE(machine->grant(name, epoch, 7));
  EXPECT_TRUE(stands());
  EXPECT_EQ(dict.try_lock("k", 0, &lease), HOLDFAST_OK);
}

// The agent's user has no inotify instances left.
TEST_F(SharedMachineTest, a_new_dictionary_is_found_even_if_the_kernel_does_not_watch_the_directory) {
  for (const unsigned call : {SYS_inotify_init1, SYS_inotify_add_watch}) {
    Started agent("began", [call](Channel& parent) {
      if (!refuse_call(call, EMFILE)) return 1;
      SharedMachine own(**World::current(), "main");
      if (own.trouble() != "cannot watch " + directory.path() + ": Too many open files") return 2;
      if (own.begin_epoch(100, in_a_minute()) == 0) return 3;
      parent.say("began");
      const LockName wanted{parent.hear(), "k"};
      for (const double end = now() + kPatience; now() < end && !own.grant(wanted, own.session().epoch, 7);) {
        ::usleep(10'000);
        own.turn();
      }
      parent.say(own.grant(wanted, own.session().epoch, 8) ? "granted" : "did not find it");
      return 0;
    });
    const std::string other = new_name();
    const auto made = another(other);
    EXPECT_EQ(agent.ask(other), "granted");
    EXPECT_EQ(agent.wait(), 0);
  }
}

// --- agents that died between two dictionaries -------------------------------------------------------

TEST_F(SharedMachineTest, a_new_dictionary_does_not_end_the_session_that_the_next_agent_finds) {
  begin();
  machine.reset();
  const std::string first = "!" + new_name();  // sorts before the other dictionaries
  const auto made = another(first);
  machine = std::make_unique<SharedMachine>(**World::current(), "main");
  const agent::Session found = machine->session();
  EXPECT_FALSE(found.lost);
  EXPECT_EQ(found.epoch, epoch);
  EXPECT_EQ(session_in(*made).epoch(), epoch);
  EXPECT_TRUE(machine->renew(found.deadline, found.deadline + 1));
}

TEST_F(SharedMachineTest, the_next_agent_renews_in_all_dictionaries_a_lease_that_was_renewed_in_some) {
  const std::string other = new_name();
  const auto made = another(other);
  begin();
  const SessionWord word = session_in(*made);
  ASSERT_TRUE(holdfast::Session(made->segment()).renew(word, word.deadline_ms() + 1000));
  machine = std::make_unique<SharedMachine>(**World::current(), "main");
  const agent::Session found = machine->session();
  EXPECT_FALSE(found.lost);
  EXPECT_EQ(found.deadline, static_cast<agent::Milliseconds>(word.deadline_ms()));
  EXPECT_TRUE(machine->renew(found.deadline, found.deadline + 500));
  EXPECT_EQ(machine->session().deadline, found.deadline + 500);
  EXPECT_EQ(session_in(*made).deadline_ms(), word.deadline_ms() + 1000)
      << "the earlier agent had promised this deadline";
}

TEST_F(SharedMachineTest, the_dictionary_with_the_earliest_deadline_may_be_removed_during_a_renewal) {
  const std::string other = new_name();
  const auto made = another(other);
  begin();
  const SessionWord word = session_in(dict);
  ASSERT_TRUE(holdfast::Session(dict.segment()).renew(word, word.deadline_ms() + 1000));
  const agent::Session seen = machine->session();
  remove(other);
  EXPECT_TRUE(machine->renew(seen.deadline, seen.deadline + 2000));
  EXPECT_FALSE(machine->session().lost);
}

TEST_F(SharedMachineTest, the_next_agent_begins_in_all_dictionaries_a_session_that_began_in_some) {
  const std::string other = new_name();
  const auto made = another(other);
  begin();
  begin_next_in(*made);
  machine = std::make_unique<SharedMachine>(**World::current(), "main");
  const agent::Session found = machine->session();
  EXPECT_FALSE(found.lost);
  EXPECT_EQ(found.epoch, epoch + 1);
  EXPECT_EQ(found.lease, 101);
  EXPECT_EQ(session_in(dict).epoch(), epoch + 1);
}

TEST_F(SharedMachineTest, a_session_ends_in_every_dictionary_whatever_the_dictionarys_epoch_is) {
  const std::string other = new_name();
  const auto made = another(other);
  begin();
  begin_next_in(*made);
  EXPECT_TRUE(machine->session().lost);
  machine->lose();
  EXPECT_TRUE(session_in(*made).lost());
  EXPECT_TRUE(session_in(dict).lost());
}

// If a part of the session were alive, a different machine could get a lock that a program here holds.
TEST_F(SharedMachineTest, no_part_of_a_session_is_alive_when_the_next_agent_revokes_its_lease) {
  const std::string other = new_name();
  const auto made = another(other);
  begin();
  holdfast::Session(dict.segment()).lose(static_cast<std::uint16_t>(epoch));
  ASSERT_FALSE(session_in(*made).lost());
  machine = std::make_unique<SharedMachine>(**World::current(), "main");
  RevokingStore store;
  const RealClock clock;
  const agent::Keys keys("/test");
  const agent::Settings settings;
  agent::Keeper keeper(store, *machine, clock, keys, settings, {});
  keeper.start();
  EXPECT_TRUE(session_in(*made).lost());
  EXPECT_TRUE(store.revoked.empty());
  keeper.step();
  EXPECT_EQ(store.revoked, std::vector<agent::LeaseId>{100});
}

// --- a dictionary that the next agent cannot open --------------------------------------------------------------------

/// Damage that prevents processes from opening the file, but does not affect processes that have already opened it.
enum class Fault { seed, magic, cluster_name, mode, link };

/// Applies the damage, or reverts it.
void change(Fault fault, const std::string& path, bool right) {
  constexpr std::array kAt = {offsetof(DictionaryHeader, seed_complement), offsetof(DictionaryHeader, file.magic),
                              offsetof(DictionaryHeader, gate.name)};
  if (fault == Fault::mode) {
    ASSERT_EQ(::chmod(path.c_str(), right ? 0600 : 0640), 0);
  } else if (fault == Fault::link) {
    ASSERT_EQ(right ? ::unlink((path + ".backup").c_str()) : ::link(path.c_str(), (path + ".backup").c_str()), 0);
  } else {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    const auto at = static_cast<std::streamoff>(kAt.at(static_cast<std::size_t>(fault)));
    file.seekg(at);
    const int byte = file.get();
    file.seekp(at);
    file.put(static_cast<char>(byte ^ 0x80));
  }
}

/// The next agent, which continues the session and reports what it knows.
class NextAgent : public Started {
 public:
  NextAgent(const LockName& lock, agent::Milliseconds lease_ms)
      : Started("began", [&lock, lease_ms](Channel& parent) {
          SharedMachine machine(**World::current(), "main");
          const auto standing = machine.adopt(static_cast<agent::Milliseconds>(boottime_ms()) + lease_ms);
          parent.say(standing && standing->empty() ? "began" : "failed");
          for (std::string word = parent.hear(); word == "known" || word == "lose"; word = parent.hear()) {
            machine.turn();
            parent.say((word == "known" ? machine.use(lock).known : machine.lose()) ? "yes" : "no");
          }
          return 0;
        }) {}
};

/// A program that holds a lock in its own dictionary. The dictionary's agent has just ended. The program reports
/// whether it still holds the lock.
class Holder : public Started {
 public:
  explicit Holder(const LockName& lock)
      : Started("holds", [&lock](Channel& parent) {
          Dict dict(lock.dictionary, {.cluster = "main"});
          {
            SharedMachine machine(**World::current(), "main");
            const agent::Epoch epoch = machine.begin_epoch(100, in_a_minute());
            if (!machine.grant(lock, epoch, 7)) return 1;
          }
          holdfast_lease lease{};
          if (dict.try_lock(lock.key, 0, &lease) != HOLDFAST_OK) return 1;
          parent.say("holds");
          while (parent.hear() == "held") {
            double seconds = 0;
            const int code = holdfast_lock_remaining(dict.handle, lock.key.data(), lock.key.size(), &lease, &seconds);
            parent.say(code == HOLDFAST_OK ? "yes" : "no");
          }
          return 0;
        }) {}
};

/// In these tests, a program holds a lock in a dictionary that the next agent cannot open.
class Unreachable : public SharedMachineTest, public ::testing::WithParamInterface<Fault> {
 protected:
  Unreachable() : lock{new_name(), "k"}, holder(lock) { make_it_so(true); }
  void TearDown() override {
    if (is_unreachable) make_it_so(false);
    remove(lock.dictionary);
    SharedMachineTest::TearDown();
  }

  void make_it_so(bool unreachable) {
    change(GetParam(), path_of(lock.dictionary), !unreachable);
    is_unreachable = unreachable;
  }

  const LockName lock;
  Holder holder;
  bool is_unreachable = false;
};

INSTANTIATE_TEST_SUITE_P(by, Unreachable,
                         ::testing::Values(Fault::seed, Fault::magic, Fault::cluster_name, Fault::mode, Fault::link));

TEST_P(Unreachable, may_have_owned_locks_until_the_lease_must_have_ended) {
  {
    NextAgent next(lock, kLongMs);
    EXPECT_EQ(next.ask("known"), "no");
    EXPECT_EQ(next.ask("lose"), "no") << "another machine would get the lock if the lease ended";
    EXPECT_EQ(holder.ask("held"), "yes");
  }
  NextAgent last(lock, 0);
  EXPECT_EQ(last.ask("known"), "yes");
  EXPECT_EQ(last.ask("lose"), "yes");
}

TEST_P(Unreachable, takes_part_without_its_locks_once_it_can_be_opened) {
  NextAgent next(lock, kLongMs);
  EXPECT_EQ(holder.ask("held"), "yes");
  make_it_so(false);
  EXPECT_TRUE(eventually([&] { return next.ask("known") == "yes"; }));
  EXPECT_EQ(holder.ask("held"), "no");
}

TEST_F(SharedMachineTest, a_dictionary_stays_in_its_cluster_even_if_its_header_is_overwritten) {
  begin();
  ASSERT_TRUE(machine->grant(name, epoch, 7));
  ASSERT_EQ(dict.try_lock("k", 0, &lease), HOLDFAST_OK);
  change(Fault::cluster_name, path_of(dict_name), false);
  machine->turn();
  const agent::Use use = machine->use(name);
  EXPECT_TRUE(use.known && use.held) << "another machine would get the lock";
  EXPECT_FALSE(machine->try_recall(name));
  change(Fault::cluster_name, path_of(dict_name), true);
}

// --- agents that succeed each other ----------------------------------------------------------------------------------

TEST_F(SharedMachineTest, the_later_of_two_agents_remains_whichever_reaches_a_new_dictionary_first) {
  begin();
  OtherAgent later;
  const std::string other = new_name();
  another(other);
  machine->turn();
  EXPECT_TRUE(machine->superseded());
  EXPECT_EQ(later.ask("turn"), "acts");
  EXPECT_EQ(machine->begin_epoch(101, in_a_minute()), 0U);
}

TEST_F(SharedMachineTest, one_of_two_agents_that_meet_at_the_first_dictionary_remains) {
  remove(dict_name);
  machine = std::make_unique<SharedMachine>(**World::current(), "main");
  OtherAgent later;
  Dict again(dict_name, {.cluster = "main"});
  machine->turn();
  const bool later_acts = later.ask("turn") == "acts";
  machine->turn();
  EXPECT_NE(machine->superseded(), !later_acts);
  EXPECT_EQ(later.ask("superseded") == "acts", later_acts);
}

TEST_F(SharedMachineTest, the_later_of_two_agents_without_a_dictionary_remains) {
  remove(dict_name);
  machine = std::make_unique<SharedMachine>(**World::current(), "main");
  OtherAgent later;
  Dict again(dict_name, {.cluster = "main"});
  machine->turn();  // this agent comes first
  EXPECT_TRUE(machine->superseded());
  EXPECT_FALSE(machine->is_abandoned());
  EXPECT_EQ(later.ask("turn"), "acts");
  EXPECT_EQ(later.ask("superseded"), "acts");
}

TEST_F(SharedMachineTest, an_agent_without_a_dictionary_does_not_yield_to_a_dead_agent) {
  remove(dict_name);
  machine = std::make_unique<SharedMachine>(**World::current(), "main");
  OtherAgent().kill_and_wait();
  Dict again(dict_name, {.cluster = "main"});
  machine->turn();
  EXPECT_FALSE(machine->superseded());
  EXPECT_TRUE(eventually([&] { return reaches_this_agent(); }));
}

TEST_F(SharedMachineTest, the_remaining_agent_answers_whichever_had_the_socket) {
  begin();
  const std::string path = agent_socket((**World::current()).directory(), "main");
  ASSERT_EQ(::unlink(path.c_str()), 0);
  EXPECT_TRUE(eventually([&] { return reaches_this_agent(); }));
  OtherAgent later;
  ASSERT_EQ(later.ask("turn"), "acts");
  machine->turn();
  ASSERT_TRUE(machine->superseded());
  machine.reset();
  struct stat info {};
  EXPECT_EQ(::stat(path.c_str(), &info), 0) << "the socket belongs to the other agent";
}

// This happens if the user's files were deleted. The name then belongs to a new directory.
TEST_F(SharedMachineTest, an_agent_of_a_removed_directory_leaves_its_successor_alone) {
  begin();
  const std::string path = directory.path();
  std::filesystem::rename(path, path + ".old");
  ASSERT_EQ(::mkdir(path.c_str(), 0700), 0);
  for (int i = 0; i < 3; ++i) {
    machine->turn();
    ::usleep(600'000);
  }
  EXPECT_TRUE(std::filesystem::is_empty(path));
  EXPECT_TRUE(machine->has_lost_its_directory());
  std::filesystem::remove(path);
  std::filesystem::rename(path + ".old", path);
}

// The second agent may be stopped while it gives the machine a lock in this epoch, and may continue later.
TEST_F(SharedMachineTest, another_agents_actions_in_the_same_epoch_do_not_count) {
  remove(dict_name);
  begin();
  OtherAgent other;
  Dict again(dict_name, {.cluster = "main"});
  other.ask("turn");  // this agent comes first
  const auto session = holdfast::Session(again.segment());
  const auto same = static_cast<std::uint16_t>(epoch);
  ASSERT_TRUE(session.begin(session.now(), same, 101, in_a_minute()));
  other.kill_and_wait();
  machine->turn();
  ASSERT_EQ(holdfast::stand(again.dictionary(), "k", same, 7), Code::ok);
  EXPECT_TRUE(machine->session().lost);
  EXPECT_NE(again.try_lock("k", 0, &lease), HOLDFAST_OK);
  machine->lose();
  EXPECT_EQ(machine->begin_epoch(102, in_a_minute()), epoch + 1);
  EXPECT_EQ(again.try_lock("k", 0, &lease), HOLDFAST_ELSEWHERE);
}

TEST_F(SharedMachineTest, an_agent_knows_whether_its_successor_is_alive) {
  begin();
  OtherAgent later;
  EXPECT_TRUE(machine->superseded());
  EXPECT_FALSE(machine->is_abandoned());
  later.kill_and_wait();
  EXPECT_TRUE(machine->superseded()) << "the session may belong to a lease that this agent does not know";
  EXPECT_TRUE(machine->is_abandoned());
}

// Without the check of the dictionaries in the same turn, this test fails, but rarely, once or twice in 300 rounds.
TEST_F(SharedMachineTest, one_of_two_agents_that_start_together_remains) {
  constexpr int kDictionaries = 150;
  for (int i = 0; i < kDictionaries; ++i) another(new_name());
  for (const double end = now() + 4; now() < end;) {
    const auto body = [](Channel& parent) {
      World& world = **World::current();
      parent.say("ready");
      parent.hear();
      SharedMachine own(world, "main");
      parent.say("began");
      parent.hear();
      own.turn();
      parent.say(own.superseded() ? "superseded" : "acts");
      parent.hear();
      return 0;
    };
    Started one("ready", body);
    Started two("ready", body);
    one.say("begin");
    two.say("begin");
    ASSERT_EQ(one.hear(), "began");
    ASSERT_EQ(two.hear(), "began");
    const bool first_acts = one.ask("turn") == "acts";
    ASSERT_NE(two.ask("turn") == "acts", first_acts);
  }
}

// --- processes that are stopped inside a dictionary -----------------------------------------------------------------

TEST_F(SharedMachineTest, a_stopped_process_does_not_keep_the_agent_from_its_lease) {
  begin();
  ASSERT_TRUE(machine->grant(name, epoch, 7));
  Inside inside(dict);
  const double start = now();
  // Simulates the calls that 100 locks in this shard cause within 2 seconds.
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(machine->use(name).known);
  EXPECT_LT(now() - start, 30) << "each call waited for a second";
  EXPECT_EQ(inside.ask("leave"), "outside");
  EXPECT_TRUE(eventually([&] { return machine->use(name).known; }));
}

TEST_F(SharedMachineTest, a_lock_lost_while_a_process_is_stopped_inside_is_not_owned_afterwards) {
  begin();
  ASSERT_TRUE(machine->grant(name, epoch, 7));
  {
    Inside inside(dict);
    machine->drop(name);
    EXPECT_EQ(inside.ask("leave"), "outside");
  }
  machine->turn();
  EXPECT_FALSE(stands());
  EXPECT_EQ(dict.try_lock("k", 0, &lease), HOLDFAST_ELSEWHERE);
}

/// Holds the mutex until the agent has used up its time for waits, and then half of the time.
int occupy(Dict& dict, Channel& parent) {
  Shmtx& mutex = dict.segment().shards()[0].mutex();
  const auto pass = [](std::uint64_t ns) {
    const std::uint64_t end = platform::monotonic_ns() + ns;
    while (platform::monotonic_ns() < end) platform::cpu_relax();
  };
  parent.say("busy");
  for (pollfd end{parent.read_fd(), POLLIN, 0}; ::poll(&end, 1, 0) == 0;) {
    for (int i = 0; i < 20'000; ++i) {
      if (mutex.lock_for(kNsPerSecond) != LockResult::acquired) continue;
      pass(i == 0 ? 60'000'000 : 3'000);
      mutex.unlock();
      pass(3'000);
    }
  }
  return 0;
}

enum class Others { none, take, remove };

/// Ends all grants, and then takes the lock, if possible, or removes it.
int flush(Dict& dict, Others others, Channel& parent) {
  parent.say("flushes");
  holdfast_lease own{};
  std::uint32_t count = 0;
  for (pollfd end{parent.read_fd(), POLLIN, 0}; ::poll(&end, 1, 0) == 0;) {
    holdfast_flush_all(dict.handle);
    if (others == Others::remove)
      holdfast_flush_expired(dict.handle, 0, &count);
    else if (holdfast_lock_try(dict.handle, "k", 1, 0, 0, 0, &own) == HOLDFAST_OK)
      holdfast_unlock(dict.handle, "k", 1, &own);
  }
  return 0;
}

class Withdrawal : public SharedMachineTest, public ::testing::WithParamInterface<Others> {};

TEST_P(Withdrawal, comes_before_a_lock_is_given_to_another_machine) {
  begin();
  Started busy("busy", [this](Channel& parent) { return occupy(dict, parent); });
  std::unique_ptr<Started> flushing;
  if (GetParam() != Others::none)
    flushing =
        std::make_unique<Started>("flushes", [this](Channel& parent) { return flush(dict, GetParam(), parent); });
  const double end = now() + 5;
  for (agent::Revision revision = 7; now() < end; ++revision) {
    ASSERT_TRUE(eventually([&] { return machine->grant(name, epoch, revision); }));
    bool given = false;
    machine->recall(name, [&] { given = true; });
    ASSERT_TRUE(eventually([&] {
      machine->turn();
      return given;
    }));
    LockState state;
    ASSERT_TRUE(eventually([&] {
      const Code code = state_of_lock(dict.dictionary(), "k", state);
      return code == Code::ok || code == Code::not_found;
    }));
    ASSERT_FALSE(state.stands) << "another machine has the lock";
    ASSERT_FALSE(state.held) << "the lock must no longer be granted here";
  }
  if (flushing) flushing->say("end");
  busy.say("end");
}

std::string name_of(const ::testing::TestParamInfo<Others>& info) {
  if (info.param == Others::none) return "nobody";
  return info.param == Others::take ? "one_that_takes_it" : "one_that_removes_it";
}

INSTANTIATE_TEST_SUITE_P(Beside, Withdrawal, ::testing::Values(Others::none, Others::take, Others::remove), name_of);

// --- recalls that end before the agent gets the lock
// ------------------------------------------------------------------

class EndedRecall : public SharedMachineTest {
 protected:
  /// A local program has the lock, and the agent waits for it.
  void recall() {
    begin();
    ASSERT_TRUE(machine->grant(name, epoch, 7));
    ASSERT_EQ(dict.try_lock("k", 0, &lease), HOLDFAST_OK);
    machine->recall(name, [] { FAIL() << "the agent got the lock"; });
    machine->turn();
    ASSERT_EQ(count_users(), 2U);
  }
  std::size_t count_users() {
    std::array<Token, 4> users{};
    std::size_t count = 0;
    EXPECT_EQ(users_of_lock(dict.dictionary(), "k", users, count), Code::ok);
    return count;
  }
};

// The agent would mistake its own waiter for a program that wants the lock, and would request the lock without need.
TEST_F(EndedRecall, leaves_no_waiter_if_the_lock_is_dropped) {
  recall();
  machine->drop(name);
  EXPECT_EQ(count_users(), 1U);
  EXPECT_FALSE(machine->use(name).waits);
}

TEST_F(EndedRecall, leaves_no_waiter_if_the_session_is_lost) {
  recall();
  machine->lose();
  EXPECT_EQ(count_users(), 1U);
}

TEST_F(EndedRecall, leaves_no_waiter_if_the_lock_is_no_longer_owned) {
  recall();
  ASSERT_EQ(holdfast::drop(dict.dictionary(), "k"), Code::ok);
  bool over = false;
  machine->recall(name, [&] { over = true; });
  machine->turn();
  EXPECT_TRUE(over);
  EXPECT_EQ(count_users(), 1U);
}

TEST_F(EndedRecall, leaves_no_waiter_even_if_a_process_was_stopped_in_the_dictionary) {
  recall();
  Started busy("busy", [this](Channel& parent) {
    const ShardGuard guard(dict.segment().shards()[0]);
    parent.say("busy");
    parent.hear();
    return 0;
  });
  machine->drop(name);
  busy.say("end");
  EXPECT_EQ(busy.wait(), 0);
  machine->turn();
  EXPECT_EQ(count_users(), 1U);
}

// --- answers to programs -----------------------------------------------------------------------------------------

TEST_F(SharedMachineTest, a_lock_that_the_store_cannot_store_ends_waits_as_well_as_tries) {
  begin();
  for (const auto& [why, code] :
       {std::pair{Refusal::too_long, HOLDFAST_UNSUPPORTED}, std::pair{Refusal::exhausted, HOLDFAST_UNSUPPORTED},
        std::pair{Refusal::held, HOLDFAST_LOCKED}, std::pair{Refusal::unavailable, HOLDFAST_LOCKED}}) {
    Waiting waiting;
    ASSERT_EQ(waiting.once(dict, "k", &lease), HOLDFAST_LOCKED);
    machine->refuse(name, why);
    if (code == HOLDFAST_UNSUPPORTED) {
      EXPECT_TRUE(waiting.sleep(kLong));
    }
    EXPECT_EQ(waiting.once(dict, "k", &lease), code);
    waiting.leave(dict, "k");
  }
}

// If such programs kept the agent awake, its loop would spin while they are connected.
TEST_F(SharedMachineTest, programs_that_connect_without_a_question_do_not_keep_the_agent_awake) {
  begin();
  const auto is_awake = [&] {
    machine->queries();
    machine->queries();
    pollfd one{machine->descriptors().back(), POLLIN, 0};
    return ::poll(&one, 1, 0) != 0;
  };
  std::vector<platform::FileDescriptor> silent;
  const std::string path = agent_socket((**World::current()).directory(), "main");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(static_cast<char*>(address.sun_path), sizeof address.sun_path - 1);
  for (int i = 0; i < 300; ++i) {
    silent.emplace_back(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::connect(silent.back().get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  EXPECT_FALSE(is_awake());
  silent.clear();
  machine->queries();  // notices that the programs have ended
  const auto asked = ask_agent((**World::current()).directory(), "main", {"verify", dict_name, 0, "k"});
  ASSERT_TRUE(asked);
  EXPECT_TRUE(eventually([&] { return !machine->queries().empty(); }));
  EXPECT_FALSE(is_awake());
}

}  // namespace
}  // namespace holdfast::test
