// Tests locks across machines, with agents that are killed, suspended and replaced (cluster/docs/cluster.md).
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "etcd/etcd_server.h"
#include "service/machine.h"
#include "support/clock.h"
#include "support/dict.h"
#include "support/waiting.h"

namespace holdfast::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::StartsWith;

class AgentsTest : public ::testing::Test {
 protected:
  EtcdServer etcd;
};

bool is_revision_of(const std::string& answer, std::uint64_t& revision) {
  const std::size_t at = answer.find("revision=");
  if (at == std::string::npos) return false;
  revision = std::stoull(answer.substr(at + 9));
  return true;
}

/// The critical sections of all machines write here without atomic operations, so only the lock keeps them apart.
struct Register {
  std::uint64_t count;
  std::uint64_t last_token;
  std::uint64_t wrong;  // number of sections whose token was not larger than the previous token
};

TEST_F(AgentsTest, critical_sections_on_two_machines_exclude_each_other_and_tokens_rise) {
  constexpr int kSections = 60;
  auto* const shared = static_cast<Register*>(
      ::mmap(nullptr, sizeof(Register), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(shared, MAP_FAILED);
  Machine machines[2] = {Machine(etcd.url()), Machine(etcd.url())};
  std::vector<std::unique_ptr<Child>> contenders;
  for (Machine& machine : machines) {
    machine.start_agent();
    for (int i = 0; i < 2; ++i) {
      contenders.push_back(std::make_unique<Child>([&machine, shared](Channel& parent) {
        ::setenv("HOLDFAST_DIR", machine.directory().c_str(), 1);
        Dict dict(kJobs, {.size = 1 << 20, .cluster = kCluster});
        for (int n = 0; n < kSections; ++n) {
          Waiting waiting;
          holdfast_lease lease{};
          if (waiting.lock(dict, "k", 50, &lease) != HOLDFAST_OK) return 1;
          const std::uint64_t count = shared->count;
          if (lease.sequence <= shared->last_token) ++shared->wrong;
          shared->last_token = lease.sequence;
          sleep_ms(n % 7 == 0 ? 1 : 0);
          shared->count = count + 1;
          if (dict.unlock("k", &lease) != HOLDFAST_OK) return 2;
        }
        parent.say("done");
        return 0;
      }));
    }
  }
  for (const auto& contender : contenders) EXPECT_EQ(contender->hear(), "done");
  EXPECT_EQ(shared->count, 4U * kSections);
  EXPECT_EQ(shared->wrong, 0U);
  ::munmap(shared, sizeof(Register));
}

TEST_F(AgentsTest, an_idle_lock_moves_to_another_machine_long_before_the_lease_ends) {
  Peer a(etcd.url(), 600);
  Peer b(etcd.url(), 600);
  a.hold("k");
  ASSERT_EQ(a.ask("unlock k"), "ok");
  EXPECT_NE(b.lock("k"), 0U);
}

/// Returns the store's revision, which grows with each change.
std::uint64_t revision_of(EtcdServer& etcd) {
  const std::string answer = etcd.post("/v3/kv/range", R"({"key":"YQ=="})");
  const std::string name = R"("revision":")";
  const std::size_t at = answer.find(name);
  return at == std::string::npos ? 0 : std::stoull(answer.substr(at + name.size()));
}

TEST_F(AgentsTest, a_machine_without_a_dictionary_has_a_lease_for_its_first_dictionary) {
  Machine a(etcd.url(), 600);
  const std::uint64_t before = revision_of(etcd);
  a.start_agent();
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (revision_of(etcd) == before && std::chrono::steady_clock::now() < end) sleep_ms(5);
  sleep_ms(300);
  EXPECT_EQ(revision_of(etcd), before + 1);
  ASSERT_NE(a.new_program()->lock("k"), 0U);
  EXPECT_EQ(revision_of(etcd), before + 2);
}

TEST_F(AgentsTest, a_killed_agent_loses_no_lock_if_it_is_restarted) {
  Peer a(etcd.url());
  Peer b(etcd.url());
  a.hold("k");
  a.restart_agent();
  EXPECT_EQ(b.lock("k", 2), 0U);
  EXPECT_EQ(a.ask("valid k"), "ok");
  EXPECT_EQ(a.ask("unlock k"), "ok");
  EXPECT_NE(b.lock("k"), 0U);
}

/// One machine has a lock, and a second machine waits for it. The leases of both machines are short.
class LostLease : public AgentsTest {
 protected:
  /// Expects that the first machine has lost the lock, and that the second machine gets it.
  void expect_loss() {
    EXPECT_GT(b.lock("k"), token);
    EXPECT_EQ(a.ask("valid k"), "not owner");
  }

  Peer a{etcd.url(), kShort};
  Peer b{etcd.url(), kShort};
  const std::uint64_t token = a.hold("k");
};

TEST_F(LostLease, an_absent_agent_loses_its_locks_to_other_machines_at_the_deadline) {
  a.agent().kill_and_wait();
  expect_loss();
  EXPECT_EQ(a.ask("unlock k"), "not owner");
  a.start_agent();
  EXPECT_EQ(b.ask("unlock k"), "ok");
  EXPECT_NE(a.lock("k"), 0U);
}

TEST_F(LostLease, an_agent_stopped_for_longer_than_the_lease_continues_with_a_new_lease) {
  a.agent().stop();
  expect_loss();
  a.agent().signal(SIGCONT);
  EXPECT_EQ(b.ask("valid k"), "ok");
  EXPECT_EQ(b.ask("unlock k"), "ok");
  EXPECT_GT(a.lock("k"), token);
}

TEST_F(AgentsTest, agents_wait_for_an_absent_store_and_no_lock_is_granted_in_the_meantime) {
  etcd.kill();
  Peer a(etcd.url());
  EXPECT_EQ(a.lock("k", 1), 0U);
  a.say("lock k 50");
  etcd.start();
  EXPECT_EQ(a.hear().substr(0, 3), "ok ");
}

TEST_F(AgentsTest, a_store_that_is_restarted_before_the_deadline_costs_no_lock) {
  Peer a(etcd.url(), 30);
  a.hold("k");
  etcd.kill();
  etcd.start();
  EXPECT_EQ(a.ask("valid k"), "ok");
  EXPECT_TRUE(eventually([&] { return a.ask("verify k").starts_with("code=yes"); }));
  EXPECT_EQ(a.ask("unlock k"), "ok");
}

TEST_F(AgentsTest, an_agent_works_even_if_nobody_reads_its_messages) {
  int gone[2];
  int full[2];
  ASSERT_EQ(::pipe2(gone, O_CLOEXEC), 0);
  ASSERT_EQ(::pipe2(full, O_CLOEXEC | O_NONBLOCK), 0);
  ::close(gone[0]);
  const std::string filler(4096, '.');
  while (::write(full[1], filler.data(), filler.size()) > 0) continue;
  ASSERT_EQ(::fcntl(full[1], F_SETFL, 0), 0);
  const int no_room = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
  for (const int errors : {-1, no_room, gone[1], full[1]}) {
    Machine a(etcd.url());
    Child agent([&](Channel&) {
      ::signal(SIGPIPE, SIG_DFL);
      ::setenv("HOLDFAST_DIR", a.directory().c_str(), 1);
      if (errors < 0)
        ::close(STDERR_FILENO);
      else
        ::dup2(errors, STDERR_FILENO);
      ::execl(HOLDFAST_AGENT_PROGRAM, "holdfast-agent", kCluster, "--etcd", etcd.url().c_str(), nullptr);
      return 127;
    });
    // Uses a new key each time, because the previous key is attached to the lease of an agent that is gone.
    EXPECT_NE(a.new_program()->lock("k" + std::to_string(errors)), 0U) << errors;
  }
  for (const int fd : {gone[1], full[0], full[1], no_room}) ::close(fd);
}

TEST_F(AgentsTest, an_agent_started_by_mistake_takes_over_and_the_first_agent_ends) {
  Peer a(etcd.url());
  a.hold("k");
  const auto second = a.another_agent();
  EXPECT_EQ(a.agent().wait(), 3);
  EXPECT_EQ(a.ask("valid k"), "ok");
  EXPECT_EQ(a.ask("unlock k"), "ok");
  EXPECT_NE(a.lock("other"), 0U);
}

// This happens if a user deletes the directory by hand. The first agent's locks are free immediately, although its
// lease would last for minutes.
TEST_F(AgentsTest, an_agent_without_its_runtime_directory_ends_and_its_successor_serves_the_new_directory) {
  for (const char* const removed : {"", "/*", "/processes"}) {
    Machine a(etcd.url(), 600);
    a.start_agent();
    auto program = a.new_program();
    ASSERT_NE(program->lock("k"), 0U) << removed;
    ASSERT_EQ(program->ask("unlock k"), "ok") << removed;
    const std::string command = "sh -c 'rm -rf " + a.directory() + removed + " " + a.directory() + "/.agent-main'";
    ASSERT_EQ(std::system(command.c_str()), 0);
    EXPECT_EQ(a.agent().wait(), 1) << removed;
    EXPECT_TRUE(a.has_said("was removed or replaced: programs can no longer reach this agent; start the agent again"));
    program.reset();
    a.start_agent();
    EXPECT_NE(a.new_program()->lock("k"), 0U) << removed << "\n" << a.said();
    EXPECT_EQ(etcd.count(std::string(kSpace) + "/l/"), 1U);
    a.agent().signal(SIGTERM);
    EXPECT_EQ(a.agent().wait(), 0);
    EXPECT_TRUE(eventually([&] { return etcd.count(std::string(kSpace) + "/l/") == 0; }));
  }
}

TEST_F(AgentsTest, an_agent_of_a_dictionary_deleted_by_hand_ends_once_nobody_holds_a_lock) {
  Machine a(etcd.url(), 600);
  a.start_agent();
  auto program = a.new_program();
  ASSERT_NE(program->lock("k"), 0U);
  ASSERT_EQ(std::system(("rm " + a.directory() + "/jobs.dict").c_str()), 0);
  sleep_ms(2500);
  EXPECT_EQ(program->ask("verify k").substr(0, 8), "code=yes")
      << "the agent must continue, because its successor would not know the lock";
  EXPECT_FALSE(a.has_said("was deleted"));
  ASSERT_EQ(program->ask("unlock k"), "ok");
  EXPECT_EQ(a.agent().wait(), 1);
  EXPECT_TRUE(a.has_said("the file of a dictionary was deleted: no program can open it while this agent runs"));
  program.reset();
  a.start_agent();
  EXPECT_NE(a.new_program()->lock("k"), 0U) << a.said();
}

TEST_F(AgentsTest, an_agent_without_its_runtime_directory_ends_even_with_a_held_lock_or_an_absent_store) {
  Peer a(etcd.url());
  a.hold("k");
  ASSERT_EQ(std::system(("rm -rf " + a.directory()).c_str()), 0);
  EXPECT_EQ(a.agent().wait(), 1);
  EXPECT_EQ(a.ask("valid k"), "ok") << "the lock must stay valid until its deadline";
  etcd.kill();
  Machine b(etcd.url());
  b.start_agent();
  EXPECT_TRUE(eventually([&] { return exists(b.directory() + "/.agent-main"); }));
  ASSERT_EQ(std::system(("rm -rf " + b.directory()).c_str()), 0);
  EXPECT_EQ(b.agent().wait(), 1);
}

TEST_F(AgentsTest, a_killed_processs_lock_is_returned_even_if_nobody_wants_it) {
  Machine a(etcd.url());
  a.start_agent();
  auto program = a.new_program();
  ASSERT_NE(program->lock("k"), 0U);
  ASSERT_EQ(etcd.count(std::string(kSpace) + "/l/"), 1U);
  program->child().kill();
  program.reset();
  EXPECT_TRUE(eventually([&] { return etcd.count(std::string(kSpace) + "/l/") == 0; }));
}

TEST_F(AgentsTest, questions_are_answered_by_the_store) {
  Peer a(etcd.url());
  Peer b(etcd.url());
  EXPECT_TRUE(eventually([&] { return b.ask("holder k") == "code=no "; }));
  a.hold("k");
  EXPECT_TRUE(a.ask("verify k").starts_with("code=yes"));
  EXPECT_TRUE(b.ask("verify k").starts_with("code=no"));
  const std::string holder = b.ask("holder k");
  EXPECT_NE(holder.find("pid=" + std::to_string(a.program().child().pid())), std::string::npos) << holder;
  std::uint64_t revision = 0;
  ASSERT_TRUE(is_revision_of(holder, revision)) << holder;
  EXPECT_TRUE(b.ask("break k " + std::to_string(revision + 1)).starts_with("code=no"));
  EXPECT_EQ(a.ask("valid k"), "ok");
  EXPECT_TRUE(b.ask("break k " + std::to_string(revision)).starts_with("code=yes"));
  EXPECT_TRUE(eventually([&] { return a.ask("valid k") == "not owner"; }));
  EXPECT_NE(b.lock("k"), 0U);
}

TEST_F(AgentsTest, a_lease_can_be_verified_at_the_store) {
  Peer a(etcd.url(), 30);
  Peer b(etcd.url());
  EXPECT_EQ(a.ask("confirm k"), "not owner") << "the process has no lease yet";
  a.hold("k");
  EXPECT_EQ(a.ask("confirm k"), "ok");
  EXPECT_EQ(a.new_program()->ask("confirm k"), "not owner") << "another process on the machine has the lease";
  EXPECT_EQ(b.ask("confirm k"), "not owner");
  ASSERT_EQ(a.ask("unlock k"), "ok");
  EXPECT_EQ(a.ask("confirm k"), "not owner") << "the lease has ended, although the machine still has the lock";
  a.hold("k");
  etcd.kill();
  EXPECT_EQ(a.ask("confirm k"), "unavailable");
  EXPECT_EQ(a.ask("valid k"), "ok");
  a.agent().kill_and_wait();
  EXPECT_EQ(a.ask("confirm k"), "unavailable");
}

TEST_F(AgentsTest, a_lease_of_a_plain_dictionary_is_verified_without_a_store) {
  Child child([](Channel&) {
    const ScratchDirectory directory;
    ::setenv("HOLDFAST_DIR", directory.path().c_str(), 1);
    Dict dict("plain", {.size = 1 << 20});
    holdfast_lease lease{};
    if (dict.try_lock("k", 0, &lease) != HOLDFAST_OK) return 1;
    const holdfast_lease copy = lease;
    if (holdfast_lock_verify(dict.handle, "k", 1, &lease, 0) != HOLDFAST_OK) return 2;
    if (dict.unlock("k", &lease) != HOLDFAST_OK) return 3;
    if (holdfast_lock_verify(dict.handle, "k", 1, &copy, 0) != HOLDFAST_NOT_OWNER) return 4;
    if (holdfast_lock_verify(dict.handle, "k", 1, &copy, -1) != HOLDFAST_INVALID) return 5;
    return 0;
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(AgentsTest, the_command_shows_and_breaks_a_grant) {
  Peer a(etcd.url());
  a.hold("k");
  EXPECT_THAT(run_command(a, "cluster status jobs"),
              Pair(AllOf(StartsWith("jobs: cluster main, agent "), HasSubstr(" s left")), 0));
  const auto [status, known] = run_command(a, "cluster status");
  EXPECT_EQ(known, 0);
  EXPECT_THAT(status, AllOf(StartsWith("jobs: cluster main, agent "), HasSubstr("locks held 1,"),
                            HasSubstr("acquired: 1 at once"), HasSubstr("unanswered 0")));
  const auto [json, told] = run_command(a, "cluster status jobs --json");
  EXPECT_EQ(told, 0);
  const auto parsed = nlohmann::json::parse(json);
  EXPECT_EQ(parsed["dictionaries"][0]["dictionary"], "jobs");
  EXPECT_EQ(parsed["dictionaries"][0]["ok"], true);
  EXPECT_EQ(parsed["dictionaries"][0]["machine"], parsed["agents"]["main"]["machine"]);
  EXPECT_EQ(parsed["agents"]["main"]["locks_here"], 1);
  EXPECT_GT(parsed["agents"]["main"]["requests"], 0);
  const auto [held, shown] = run_command(a, "cluster holders jobs k");
  EXPECT_EQ(shown, 0) << held;
  EXPECT_THAT(held, AllOf(StartsWith("k: held by host "), HasSubstr("revision ")));
  EXPECT_THAT(run_command(a, "cluster holders jobs other"), Pair("other: free\n", 0));
  const std::string revision = held.substr(held.rfind(' ') + 1);
  EXPECT_THAT(run_command(a, "cluster break jobs k --revision 1"),
              Pair("holdfast: k: the lock has no grant with that revision\n", 1));
  EXPECT_THAT(run_command(a, "cluster break jobs k --revision " + revision.substr(0, revision.find('\n'))),
              Pair(HasSubstr("broke the grant"), 0));
  EXPECT_TRUE(eventually([&] { return a.ask("valid k") == "not owner"; }));
  EXPECT_THAT(run_command(a, "cluster holders nothing k"), Pair(HasSubstr("nothing"), 2));
  EXPECT_THAT(run_command(a, "cluster walk"),
              Pair(AllOf(HasSubstr("\"walk\": expected status, holders, break or accept-new-store"),
                         HasSubstr("holdfast cluster --help")),
                   2));
}

TEST_F(AgentsTest, the_command_reports_an_agent_that_does_not_answer) {
  Peer a(etcd.url(), 600);
  a.hold("k");
  a.agent().stop();
  const auto [json, status] = run_command(a, "cluster status --json");
  a.agent().signal(SIGCONT);
  EXPECT_EQ(status, 1) << json;
  EXPECT_EQ(nlohmann::json::parse(json)["dictionaries"][0]["ok"], false);
}

TEST_F(AgentsTest, without_an_agent_no_question_is_answered_and_no_lock_is_granted) {
  Machine a(etcd.url());
  const auto first = a.new_program();
  EXPECT_EQ(first->lock("k", 0.5), 0U);
  EXPECT_TRUE(first->ask("verify k").starts_with("unavailable: no agent of cluster \"main\""));
}

}  // namespace
}  // namespace holdfast::test
