// Tests which processes are alive, and how long a world lives. Every participant is a real process.
#include "world/world.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "support/started.h"
#include "support/world.h"
#include "world/process_table.h"
#include "world/world_file.h"

namespace holdfast::test {
namespace {

std::string in_words(Liveness liveness) {
  return liveness == Liveness::dead ? "dead" : liveness == Liveness::alive ? "alive" : "unknown";
}

std::string text(Token token) { return std::to_string(token); }

void close_all_but(const Channel& channel) {
  for (int fd = 3; fd < 256; ++fd) {
    if (fd != channel.read_fd() && fd != channel.write_fd()) ::close(fd);
  }
}

bool create_dictionary(World& world, const std::string& name, bool persist) {
  const NewFile file{
      .kind = FileKind::dictionary, .size = kHeaderBytes + 4096, .persist = persist, .mode = 0600, .world = world.id()};
  return static_cast<bool>(create_world_file(world.directory(), name, file, [](std::byte*) {}));
}

/// Enters the world and reports its token. Then obeys the orders alive T, words N (of owner bits), living, create NAME,
/// keep NAME, exit and end.
int member(Channel& parent) {
  World& world = enter();
  parent.say(text(world.token()));
  for (;;) {
    const std::string order = parent.hear();
    const std::string argument = order.substr(std::min(order.size(), order.find(' ') + 1));
    if (order.starts_with("alive ")) {
      parent.say(in_words(world.judge(std::stoull(argument))));
    } else if (order.starts_with("owner ")) {
      parent.say(in_words(world.judge_owner(static_cast<std::uint32_t>(std::stoul(argument)))));
    } else if (order == "living") {
      std::string list;
      for (const Token token : world.living()) list += text(token) + ";";
      parent.say(list);
    } else if (order.starts_with("create ")) {
      parent.say(create_dictionary(world, argument, false) ? "created" : "failed");
    } else if (order.starts_with("keep ")) {
      parent.say(create_dictionary(world, argument, true) ? "created" : "failed");
    } else if (order == "exit") {
      std::exit(0);  // runs exit handlers, unlike the normal end of a Child
    } else {
      return 0;
    }
  }
}

/// A process that has entered the world, and reports about other processes.
class Member : public Child {
 public:
  Member() : Child(member), token(hear()) {}

  std::string judge(const std::string& other) { return ask("alive " + other); }

  const std::string token;
};

class WorldTest : public testing::Test {
 protected:
  ScratchDirectory scratch_;
};

/// Returns the report of a new process that tries to enter the world.
std::string report_of_entering() {
  Child late([](Channel& parent) {
    const auto world = World::current();
    parent.say(world ? "entered" : world.status().message);
    return 0;
  });
  return late.hear();
}

using Liveness = WorldTest;
using Lifetime = WorldTest;
using Entering = WorldTest;

// --- liveness --------------------------------------------------------------------------------------------

TEST_F(Liveness, nobody_and_invalid_tokens_count_as_dead) {
  Member watcher;
  const Token own = std::stoull(watcher.token);
  EXPECT_EQ("alive", watcher.judge(text(own)));
  EXPECT_EQ("dead", watcher.judge("0"));
  EXPECT_EQ("dead", watcher.judge(text(make_token(slot_of(own), generation_of(own) + 1))));
  EXPECT_EQ("dead", watcher.judge(text(make_token(slot_of(own), 0))));
  EXPECT_EQ("dead", watcher.judge(text(make_token((slot_of(own) + 1) % kSlots, 1))));
  EXPECT_EQ("dead", watcher.judge("18446744073709551615"));
  EXPECT_EQ("dead", watcher.ask("owner 0"));
  EXPECT_EQ("dead", watcher.ask("owner 2147483647"));
}

TEST_F(Liveness, a_process_that_closes_all_its_descriptors_is_alive_and_can_still_detect_deaths) {
  Member watcher;
  Child daemon([&](Channel& parent) {
    World& world = enter();
    const Token other = std::stoull(parent.hear());
    close_all_but(parent);
    parent.say(text(world.token()));
    parent.say(in_words(world.judge(other)));
    // The numbers of the closed descriptors are soon reused for other files, which have no locks.
    std::vector<platform::FileDescriptor> others;
    close_all_but(parent);
    for (int i = 0; i < 32; ++i) others.emplace_back(::open("/dev/null", O_RDWR));
    parent.say(in_words(world.judge(other)));
    parent.hear();
    return 0;
  });
  daemon.say(watcher.token);
  const std::string token = daemon.hear();
  EXPECT_EQ("alive", daemon.hear());
  EXPECT_EQ("alive", daemon.hear());
  EXPECT_EQ("alive", watcher.judge(token));
}

TEST_F(Liveness, a_table_reopened_under_a_number_that_the_host_closed_can_still_be_queried) {
  Child daemon([](Channel& parent) {
    World& world = enter();
    const Token other = std::stoull(parent.hear());
    struct stat table {};
    if (::stat((world.directory().path() + "/processes").c_str(), &table) != 0) return 1;
    const platform::FileId id{.device = table.st_dev, .inode = table.st_ino};
    int number = 3;
    while (!platform::is_file(number, id)) ++number;
    // All lower numbers except one are in use, and the directory gets this number. So the table gets its old number
    // again.
    std::vector<platform::FileDescriptor> lower;
    while (lower.empty() || lower.back().get() < number) lower.emplace_back(::open("/dev/null", O_RDWR));
    const int for_directory = number - 1;
    const platform::FileDescriptor saved(::fcntl(for_directory, F_DUPFD, 100));
    ::close(for_directory);
    ::close(number);
    const std::string verdict = in_words(world.judge(other));
    ::dup2(saved.get(), for_directory);
    parent.say(verdict + (platform::is_file(number, id) ? "" : ", with another number"));
    return 0;
  });
  Member victim;
  victim.kill_and_wait();
  daemon.say(victim.token);
  EXPECT_EQ("dead", daemon.hear());
}

TEST_F(Liveness, a_table_that_cannot_be_queried_is_reported_and_counted) {
  Child watcher([](Channel& parent) {
    World& world = enter();
    parent.say(text(world.token()));
    const Token other = std::stoull(parent.hear());
    close_all_but(parent);
    const std::string away = world.directory().path() + "-away";
    if (::rename(world.directory().path().c_str(), away.c_str()) != 0) return 1;
    parent.say(in_words(world.judge(other)));
    parent.say(world.judge_trouble().message);
    parent.say(text(world.unjudged()));
    ::rename(away.c_str(), world.directory().path().c_str());
    parent.say(in_words(world.judge(other)));
    parent.say(world.judge_trouble().message);
    return 0;
  });
  Member victim;
  watcher.hear();
  victim.kill_and_wait();
  watcher.say(victim.token);
  EXPECT_EQ("unknown", watcher.hear());
  EXPECT_THAT(watcher.hear(), testing::StartsWith("cannot tell whether the blocking process is alive: "));
  EXPECT_EQ("1", watcher.hear());
  EXPECT_EQ("dead", watcher.hear());
  EXPECT_EQ("", watcher.hear());
}

TEST_F(Liveness, a_forked_child_has_no_identity_until_it_needs_one) {
  Member watcher;
  Child parent_process([](Channel& parent) {
    World& world = enter();
    const Token own = world.token();
    parent.say(text(own));
    Child child([&](Channel& up) {
      up.say(text(world.living().size()));  // watcher and parent
      up.say(in_words(world.judge(own)));
      up.say(text(world.token()));
      up.say(text(world.living().size()));
      up.hear();
      return 0;
    });
    for (int i = 0; i < 4; ++i) parent.say(child.hear());
    parent.say(text(world.token()));
    parent.hear();
    return 0;
  });
  const std::string token = parent_process.hear();
  EXPECT_EQ("2", parent_process.hear());
  EXPECT_EQ("alive", parent_process.hear());
  const std::string child_token = parent_process.hear();
  EXPECT_EQ("3", parent_process.hear());
  EXPECT_EQ(token, parent_process.hear());
  EXPECT_NE(token, child_token);
  EXPECT_NE("0", child_token);
  EXPECT_EQ("alive", watcher.judge(child_token));
}

TEST_F(Liveness, a_stopped_process_counts_as_alive) {
  Member watcher;
  Member victim;
  victim.stop();
  EXPECT_EQ("alive", watcher.judge(victim.token));
  EXPECT_EQ("alive", watcher.ask("owner " + text(owner_bits(std::stoull(victim.token)))));
}

// Another process must be able to take over the mutex of a killed process, even if a third process has a copy of the
// dead process's descriptor.
TEST_F(Liveness, a_process_kept_alive_across_exec_keeps_its_locks_but_not_its_mutexes) {
  Member watcher;
  Child keeper([](Channel& parent) {
    auto life = World::enter_to_exec();
    if (!life) return 1;
    life->keeper.reset();  // programs do not inherit the keeper
    const pid_t copy = ::fork();
    if (copy == 0) {
      ::sleep(60);
      ::_exit(0);
    }
    parent.say(text((*World::current())->token()));
    parent.say(std::to_string(copy));
    parent.hear();
    return 0;
  });
  const std::string token = keeper.hear();
  const pid_t copy = std::stoi(keeper.hear());
  const std::string owner = "owner " + text(owner_bits(std::stoull(token)));
  EXPECT_EQ("alive", watcher.judge(token));
  EXPECT_EQ("alive", watcher.ask(owner));
  keeper.kill_and_wait();
  EXPECT_EQ("alive", watcher.judge(token));
  EXPECT_EQ("dead", watcher.ask(owner));
  ::kill(copy, SIGKILL);
}

TEST_F(Liveness, a_reused_slot_gets_a_new_generation_and_the_old_token_stays_dead) {
  Started watcher("ready", [](Channel& parent) {
    World& world = enter();
    parent.say("ready");
    // Processes enter and leave until slots are reused. Because of the generations, no token occurs twice.
    for (;;) {
      const std::string line = parent.hear();
      if (line.front() == '(') return 0;
      parent.say(in_words(world.judge(std::stoull(line))));
    }
  });
  std::set<std::string> seen;
  std::set<std::uint32_t> slots;
  bool reused = false;
  for (int i = 0; i < 3000 && !reused; ++i) {
    Child visitor([](Channel& parent) {
      parent.say(text(enter().token()));
      return 0;
    });
    const std::string token = visitor.hear();
    EXPECT_TRUE(seen.insert(token).second) << "token " << token << " was used twice";
    reused = !slots.insert(slot_of(std::stoull(token))).second;
    EXPECT_EQ(0, visitor.wait());
    EXPECT_EQ("dead", watcher.ask(token));
  }
  EXPECT_TRUE(reused);
  for (const std::string& token : seen) EXPECT_EQ("dead", watcher.ask(token));
}

TEST_F(Liveness, a_slot_identifies_its_process_for_people) {
  in_process([] {
    ::setenv("HOLDFAST_WORKER", "3", 1);
    World& world = enter();
    ProcessSlot* const slot = world.slot(world.token());
    EXPECT_EQ(slot->pid.load(), static_cast<std::uint32_t>(::getpid()));
    EXPECT_EQ(slot->worker.load(), 3U);
    const std::string comm = comm_of(*slot);
    EXPECT_FALSE(comm.empty());
    EXPECT_EQ(0U, std::string(::program_invocation_short_name).find(comm));
    EXPECT_LE(slot->entered_ns.load(), platform::monotonic_ns());
    EXPECT_EQ(world.slot(make_token(slot_of(world.token()), 999)), nullptr);
  });
}

// --- entering --------------------------------------------------------------------------------------------

TEST_F(Entering, many_concurrent_threads_get_one_token) {
  for (int round = 0; round < 10; ++round) {
    in_process([] {
      std::vector<Token> tokens(8);
      std::vector<std::thread> threads;
      std::atomic<int> waiting{0};
      for (Token& token : tokens) {
        threads.emplace_back([&] {
          waiting.fetch_add(1);
          while (waiting.load() < 8) platform::yield();
          token = enter().token();
        });
      }
      for (auto& thread : threads) thread.join();
      EXPECT_EQ(std::set<Token>(tokens.begin(), tokens.end()).size(), 1U);
      EXPECT_NE(tokens[0], kNobody);
      EXPECT_EQ(enter().living().size(), 1U);
    });
  }
}

TEST_F(Entering, forks_while_other_threads_enter_never_hang_and_never_share_a_token) {
  in_process([] {
    World& world = enter();
    std::set<Token> seen{kNobody, world.token()};
    for (int i = 0; i < 100; ++i) {
      Child forked([&](Channel& up) {
        // Four threads enter the world while a fifth keeps forking.
        std::vector<std::thread> threads;
        for (int t = 0; t < 4; ++t) threads.emplace_back([&] { world.token(); });
        Child grandchild([&](Channel& further) {
          further.say(text(world.token()));
          return 0;
        });
        for (auto& thread : threads) thread.join();
        up.say(text(world.token()));
        up.say(grandchild.hear());
        return grandchild.wait();
      });
      for (int token = 0; token < 2; ++token) ASSERT_TRUE(seen.insert(std::stoull(forked.hear())).second);
      ASSERT_EQ(forked.wait(), 0);
    }
  });
}

TEST_F(Entering, a_failure_is_not_remembered) {
  in_process([this] {
    ::chmod(scratch_.path().c_str(), 0750);
    const auto refused = World::current();
    ASSERT_FALSE(refused);
    const std::string refusal = refused.status().message;
    EXPECT_NE(std::string::npos, refusal.find("has mode 0750, expected 0700"));
    EXPECT_NE(std::string::npos, refusal.find("set HOLDFAST_SHARE=group"))
        << "the message must not suggest chmod 700, which would lock the group out";
    EXPECT_EQ(std::string::npos, refusal.find("chmod"));
    ::chmod(scratch_.path().c_str(), 0700);
    const auto accepted = World::current();
    EXPECT_TRUE(accepted && (*accepted)->token() != kNobody);
  });
}

TEST_F(Entering, when_all_slots_are_taken_the_error_reports_it) {
  Member first;
  const platform::FileDescriptor table(::open((scratch_ / "processes").c_str(), O_RDWR));
  ASSERT_TRUE(table);
  // Acts as if 1023 other processes were alive. Only the kernel's answer counts, so locks on the slots are enough.
  std::size_t taken = 0;
  for (std::uint32_t i = 0; i < kSlots; ++i) taken += platform::try_record_lock(table.get(), kSlotLocks + i) == 0;
  ASSERT_EQ(kSlots - 1, taken);
  EXPECT_NE(std::string::npos,
            report_of_entering().find("all 1024 process slots of " + scratch_.path() + " are taken"));
}

TEST_F(Entering, the_error_names_a_process_that_is_stopped_while_it_has_the_table) {
  Member holder;
  auto directory = RuntimeDirectory::at(scratch_.path());
  ASSERT_TRUE(directory);
  auto table = ProcessTable::open(*directory);
  ASSERT_TRUE(table) << table.status().message;
  auto lock = table->lock({0, 0});
  ASSERT_TRUE(lock) << lock.status().message;
  auto second = table->lock({20 * kNsPerMs, 20 * kNsPerMs});
  ASSERT_FALSE(second);
  EXPECT_EQ(Code::busy, second.status().code);
  EXPECT_NE(std::string::npos, second.status().message.find("by process " + std::to_string(::getpid())))
      << second.status().message;
}

TEST_F(Entering, a_table_of_another_size_or_layout_is_refused) {
  auto directory = RuntimeDirectory::at(scratch_.path());
  const NewFile small{.kind = FileKind::processes, .size = 2 * kHeaderBytes, .persist = true, .mode = 0600};
  ASSERT_TRUE(create_world_file(*directory, "processes", small, [](std::byte*) {}));
  EXPECT_NE(std::string::npos, report_of_entering().find("has 8192 bytes, expected "));
}

TEST_F(Entering, a_removed_world_is_detected_when_a_dictionary_is_opened_in_it) {
  in_process([this] {
    World& world = enter();
    ::unlink((scratch_ / "processes").c_str());
    const auto file = open_world_file(world.directory(), "a.dict", FileKind::dictionary);
    ASSERT_FALSE(file);
    EXPECT_NE(std::string::npos, file.status().message.find("processes was removed or replaced"));
  });
}

// --- lifetime --------------------------------------------------------------------------------------------

TEST_F(Lifetime, the_first_process_of_an_empty_world_finds_only_persistent_dictionaries) {
  {
    Member first;
    EXPECT_EQ("created", first.ask("create gone.dict"));
    EXPECT_EQ("created", first.ask("keep kept.dict"));
    first.kill_and_wait();
  }
  EXPECT_TRUE(exists(scratch_ / "gone.dict")) << "no process was there to remove it";
  Member next;
  EXPECT_FALSE(exists(scratch_ / "gone.dict"));
  EXPECT_TRUE(exists(scratch_ / "kept.dict"));
}

TEST_F(Lifetime, nothing_is_retired_while_a_process_lives) {
  Member first;
  Member other;
  EXPECT_EQ("created", first.ask("create a.dict"));
  first.kill_and_wait();
  Member next;
  EXPECT_TRUE(exists(scratch_ / "a.dict"));
  other.stop();  // a stopped process counts as alive
  next.say("exit");
  EXPECT_EQ(0, next.wait());
  EXPECT_TRUE(exists(scratch_ / "a.dict"));
}

TEST_F(Lifetime, the_last_process_that_exits_leaves_only_persistent_dictionaries) {
  Member first;
  Member second;
  EXPECT_EQ("created", first.ask("create a.dict"));
  EXPECT_EQ("created", first.ask("keep kept.dict"));
  first.say("exit");
  EXPECT_EQ(0, first.wait());
  EXPECT_TRUE(exists(scratch_ / "a.dict"));
  second.say("exit");
  EXPECT_EQ(0, second.wait());
  EXPECT_FALSE(exists(scratch_ / "a.dict"));
  EXPECT_TRUE(exists(scratch_ / "kept.dict"));
}

TEST_F(Lifetime, the_last_process_cleans_up_even_if_all_exit_together) {
  for (int round = 0; round < 20; ++round) {
    std::array<Member, 4> members;
    EXPECT_EQ("created", members[0].ask("create a.dict"));
    const std::uint64_t start = platform::monotonic_ns();
    for (Member& one : members) one.say("exit");
    for (Member& one : members) EXPECT_EQ(0, one.wait());
    // If a process has waited this long for a delayed process, it leaves the work to the next process.
    if (platform::monotonic_ns() - start >= kNsPerSecond / 5) {
      Member next;
    }
    EXPECT_FALSE(exists(scratch_ / "a.dict"));
  }
}

TEST_F(Lifetime, a_server_that_forks_into_the_background_keeps_its_data) {
  // The parent exits normally before the child needs an identity.
  Child parent_process([](Channel& parent) -> int {
    World& world = enter();
    create_dictionary(world, "a.dict", false);
    const pid_t child = ::fork();
    if (child != 0) std::exit(0);
    parent.say(std::to_string(::getpid()));
    parent.hear();
    world.token();
    parent.say("entered");
    parent.hear();
    std::exit(0);
  });
  const pid_t daemon = std::stoi(parent_process.hear());
  EXPECT_EQ(0, parent_process.wait());
  EXPECT_TRUE(exists(scratch_ / "a.dict"));
  Member other;
  EXPECT_TRUE(exists(scratch_ / "a.dict"));
  other.say("exit");
  EXPECT_EQ(0, other.wait());
  EXPECT_TRUE(exists(scratch_ / "a.dict"));
  EXPECT_EQ("entered", parent_process.ask("enter"));
  EXPECT_TRUE(exists(scratch_ / "a.dict"));
  parent_process.say("exit");
  EXPECT_TRUE(eventually([&] { return !exists(scratch_ / "a.dict"); }));
  ::kill(daemon, SIGKILL);
}

TEST_F(Lifetime, a_forked_child_that_never_entered_retires_nothing_when_it_exits) {
  in_process([this] {
    create_dictionary(enter(), "a.dict", false);
    const pid_t child = ::fork();
    if (child == 0) std::exit(0);
    ::waitpid(child, nullptr, 0);
    EXPECT_TRUE(exists(scratch_ / "a.dict"));
  });
}

TEST_F(Lifetime, exec_leaves_the_world) {
  Started first("created", [](Channel& parent) {
    create_dictionary(enter(), "a.dict", false);
    parent.say("created");
    ::execlp("sleep", "sleep", "30", nullptr);
    return 1;
  });
  EXPECT_TRUE(eventually([&] {
    Member next;
    return !exists(scratch_ / "a.dict");
  }));
}

TEST_F(Lifetime, last_exits_and_first_entries_never_overlap) {
  // Processes create, check and exit in any order. No process may lose a dictionary while it is in the world.
  const auto visit = [this](Channel&) -> int {
    World& world = enter();
    const std::string name = "v" + std::to_string(::getpid()) + ".dict";
    if (!create_dictionary(world, name, false)) return 1;
    for (int i = 0; i < 200; ++i) {
      if (!exists(scratch_ / name)) return 2;
      platform::yield();
    }
    std::exit(0);
  };
  for (int round = 0; round < 40; ++round) {
    std::vector<std::unique_ptr<Child>> visitors;
    for (int i = 0; i < 6; ++i) visitors.push_back(std::make_unique<Child>(visit));
    for (auto& visitor : visitors) EXPECT_EQ(0, visitor->wait());
  }
}

}  // namespace
}  // namespace holdfast::test
