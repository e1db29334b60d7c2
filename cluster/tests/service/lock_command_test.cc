// Tests `holdfast lock --cluster` with agents and etcd.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "etcd/etcd_server.h"
#include "holdfast.h"
#include "platform/platform.h"
#include "service/machine.h"
#include "support/clock.h"

namespace holdfast::test {
namespace {

using ::testing::HasSubstr;

/// A process that runs `holdfast lock --cluster main`, with further arguments, in a machine's runtime directory.
class Lock {
 public:
  enum class Cluster { said, unsaid };
  Lock(const Machine& machine, const std::vector<std::string>& words, const std::string& program = HOLDFAST_COMMAND,
       Cluster cluster = Cluster::said)
      : errors_(directory_ / "errors"), child_([&](Channel&) {
          ::setenv("HOLDFAST_DIR", machine.directory().c_str(), 1);
          ::dup2(::open(errors_.c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600), STDERR_FILENO);
          std::vector<std::string> all{program, "lock"};
          if (cluster == Cluster::said) all.insert(all.end(), {"--cluster", kCluster});
          all.insert(all.end(), words.begin(), words.end());
          std::vector<char*> values;
          for (std::string& word : all) values.push_back(word.data());
          values.push_back(nullptr);
          ::execv(values.front(), values.data());
          return 127;
        }) {}

  int wait() { return child_.wait(); }
  Child& child() { return child_; }
  std::string errors() const {
    std::ostringstream text;
    text << std::ifstream(errors_).rdbuf();
    return text.str();
  }

 private:
  const ScratchDirectory directory_;
  const std::string errors_;
  Child child_;
};

class LockCommandTest : public ::testing::Test {
 protected:
  LockCommandTest() : config(files / "main.json"), go(files / "go"), began(files / "began") {
    std::ofstream(config) << R"({"ttl": 600, "endpoints": [")" << etcd.url() << R"("]})";
    ::chmod(config.c_str(), 0600);
    ::mkfifo(go.c_str(), 0600);
  }

  // Ends the processes that a killed command has left behind.
  void TearDown() override {
    if (const pid_t left = agent_pid(); left != 0 && HasFailure()) ::kill(left, SIGKILL);
  }

  std::unique_ptr<Lock> with_agent(const std::string& script, const std::string& key = "k") const {
    return std::make_unique<Lock>(
        machine, std::vector<std::string>{"--agent", "--agent-config", config, key, "--", "sh", "-c", script});
  }
  /// Starts a `holdfast lock` whose command runs until the test ends it.
  std::unique_ptr<Lock> holder() const {
    auto lock = with_agent("touch '" + began + "'; read -r line <'" + go + "'");
    EXPECT_TRUE(eventually([&] { return exists(began); })) << lock->errors();
    return lock;
  }
  void let_go() const { std::ofstream(go) << "\n"; }
  /// Ends the machine's lease at the store.
  void end_lease() {
    const std::string leases = etcd.post("/v3/lease/leases", "{}");
    const std::size_t at = leases.find("\"ID\":\"");
    ASSERT_NE(at, std::string::npos);
    const std::string lease = leases.substr(at + 6, leases.find('"', at + 6) - at - 6);
    etcd.post("/v3/lease/revoke", R"({"ID":")" + lease + R"("})");
  }
  /// Returns the process id of the machine's agent, or 0 if there is no agent.
  pid_t agent_pid() const {
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      std::error_code error;
      if (std::filesystem::read_symlink(entry.path() / "exe", error).filename() != "holdfast-agent") continue;
      std::ostringstream environment;
      environment << std::ifstream(entry.path() / "environ").rdbuf();
      if (environment.str().find(machine.directory()) != std::string::npos) return std::stoi(entry.path().filename());
    }
    return 0;
  }

  EtcdServer etcd;
  Machine machine{etcd.url()};
  const ScratchDirectory files;
  const std::string config;
  const std::string go;
  const std::string began;
};

TEST_F(LockCommandTest, a_waiting_command_gets_the_lock_even_if_the_agent_that_it_found_ends) {
  Machine elsewhere(etcd.url(), 600);
  elsewhere.start_agent();
  const std::string go_there = files / "go_there";
  const std::string began_there = files / "began_there";
  ::mkfifo(go_there.c_str(), 0600);
  Lock there(elsewhere, {"other", "--", "sh", "-c", "touch '" + began_there + "'; read -r line <'" + go_there + "'"});
  ASSERT_TRUE(eventually([&] { return exists(began_there); })) << there.errors();
  const auto first = holder();
  const pid_t agent = agent_pid();
  const auto second = with_agent("true", "other");
  ::usleep(500'000);  // by now, the command should wait; if not, it starts an agent itself
  let_go();
  EXPECT_EQ(first->wait(), 0) << first->errors();
  EXPECT_TRUE(eventually([&] { return agent_pid() != agent; }));
  std::ofstream(go_there) << "\n";
  EXPECT_EQ(there.wait(), 0);
  EXPECT_EQ(second->wait(), 0) << second->errors();
  EXPECT_TRUE(eventually([&] { return agent_pid() == 0; }));
}

TEST_F(LockCommandTest, commands_that_start_at_the_same_moment_agree_on_an_agent) {
  constexpr int kCommands = 8;
  const std::string counted = files / "counted";
  std::vector<std::unique_ptr<Lock>> locks;
  for (int i = 0; i < kCommands; ++i) locks.push_back(with_agent("echo one >>'" + counted + "'"));
  for (const auto& lock : locks) EXPECT_EQ(lock->wait(), 0) << lock->errors();
  std::ifstream lines(counted);
  int count = 0;
  for (std::string line; std::getline(lines, line);) ++count;
  EXPECT_EQ(count, kCommands);
}

// If two agents start at the same moment, one of them yields. The other agent's command may then end immediately.
TEST_F(LockCommandTest, an_agent_that_yielded_to_an_agent_that_is_gone_is_started_again) {
  namespace fs = std::filesystem;
  const fs::path built = HOLDFAST_COMMAND;
  fs::copy_file(built, files / "holdfast");
  const std::string library = "libholdfast.so." + std::to_string(HOLDFAST_ABI);
  fs::create_symlink(built.parent_path() / library, files / library);
  const std::string agent = files / "holdfast-agent";
  std::ofstream(agent) << "#!/bin/sh\n"
                       << "mkdir '" << files / "gave_way"
                       << "' 2>/dev/null && exit 3\n"
                       << "exec '" << (built.parent_path() / "holdfast-agent").native() << "' \"$@\"\n";
  ::chmod(agent.c_str(), 0700);
  Lock lock(machine, {"--agent", "--agent-config", config, "k", "--", "true"}, files / "holdfast");
  EXPECT_EQ(lock.wait(), 0) << lock.errors();
  EXPECT_TRUE(exists(files / "gave_way"));
}

TEST_F(LockCommandTest, an_agent_that_it_starts_keeps_no_inherited_descriptor_open) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);  // without O_CLOEXEC, as a shell's pipes are
  const auto lock = holder();
  ASSERT_TRUE(eventually([&] { return agent_pid() != 0; }));
  const std::string folder = "/proc/" + std::to_string(agent_pid()) + "/fd";
  const auto pipe = std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(ends[1]));
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::error_code error;
    EXPECT_NE(std::filesystem::read_symlink(entry.path(), error), pipe);
  }
  let_go();
  EXPECT_EQ(lock->wait(), 0);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_F(LockCommandTest, a_try_does_not_wait_for_the_store_if_a_local_program_has_the_lock) {
  constexpr int kTries = 10;
  constexpr double kPatienceOfEach = 2;
  const auto first = holder();
  const double start = now();
  for (int i = 0; i < kTries; ++i) {
    Lock second(machine, {"-n", "k", "--", "true"});
    EXPECT_EQ(second.wait(), 1);
    EXPECT_THAT(second.errors(), HasSubstr("held by"));
  }
  EXPECT_LT(now() - start, kTries * kPatienceOfEach - 1);
  let_go();
  EXPECT_EQ(first->wait(), 0);
}

TEST_F(LockCommandTest, a_key_that_is_too_long_for_the_store_is_refused) {
  machine.start_agent();
  Lock lock(machine, {std::string(1100, 'k'), "--", "true"});
  EXPECT_EQ(lock.wait(), 64);
  EXPECT_THAT(lock.errors(),
              HasSubstr("is too long for the cluster's store: it takes 1141 bytes there, expected at most 1024"));
}

/// A port that neither accepts nor refuses connections, like a port on a machine that has lost power.
class BlackHole {
 public:
  BlackHole() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listener_.get(), 0), 0);
    EXPECT_EQ(::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    url_ = "http://127.0.0.1:" + std::to_string(::ntohs(address.sin_port));
    for (int i = 0; i < 4; ++i) {  // fills the backlog
      full_.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
      ::connect(full_.back().get(), reinterpret_cast<const sockaddr*>(&address), size);
    }
  }
  const std::string& url() const { return url_; }

 private:
  platform::FileDescriptor listener_;
  std::vector<platform::FileDescriptor> full_;
  std::string url_;
};

TEST_F(LockCommandTest, a_silent_store_is_not_reported_as_a_held_lock) {
  const std::array<BlackHole, 4> away;
  std::string urls = etcd.url();
  for (const BlackHole& one : away)
    urls += "," + etcd.url() + "," + one.url();  // so that a majority of the endpoints names the cluster
  Machine other(urls, 600);
  other.start_agent();
  EXPECT_EQ(Lock(other, {"k", "--", "true"}).wait(), 0);
  etcd.kill();
  Lock lock(other, {"-n", "-E", "9", "k2", "--", "true"});
  EXPECT_EQ(lock.wait(), 75) << lock.errors();
}

TEST_F(LockCommandTest, a_command_gets_a_signal_when_its_machine_has_lost_the_lock) {
  Machine other(etcd.url(), 2);
  other.start_agent();
  Lock lock(other, {"k", "--", "sh", "-c", "trap 'exit 5' TERM; touch '" + began + "'; while :; do sleep 0.01; done"});
  ASSERT_TRUE(eventually([&] { return exists(began); })) << lock.errors();
  other.agent().kill_and_wait();
  EXPECT_EQ(lock.wait(), 76);
  EXPECT_THAT(lock.errors(),
              HasSubstr("\"k\" is about to be lost: this machine's session with the store of cluster \"main\" was "
                        "not renewed (no agent of cluster \"main\""));
  Lock without(other, {"-n", "k", "--", "true"});
  EXPECT_EQ(without.wait(), 75);
}

// A crontab may request exit status 0 if the job runs elsewhere. In this case, the status does not mean that the lock
// was granted.
TEST_F(LockCommandTest, a_refusal_with_status_0_does_not_run_the_command) {
  machine.start_agent();
  Peer elsewhere(etcd.url(), 600);
  elsewhere.hold("held");
  const std::string ran = files / "ran";
  for (const std::vector<std::string>& how : std::vector<std::vector<std::string>>{{"-n"}, {"-w", "0.3"}}) {
    std::vector<std::string> words = how;
    words.insert(words.end(), {"-q", "-E", "0", kJobs, "held", "--", "touch", ran});
    Lock refused(machine, words);
    EXPECT_EQ(refused.wait(), 0);
    EXPECT_EQ(refused.errors(), "");
    EXPECT_FALSE(exists(ran));
  }
}

/// A program has opened the dictionary with the option `cluster`, so the command need not name the cluster.
TEST_F(LockCommandTest, a_dictionary_of_a_cluster_needs_no_option) {
  machine.start_agent();
  const auto program = machine.new_program();
  ASSERT_NE(program->lock("other"), 0U);
  Lock got(machine, {"-n", kJobs, "k", "--", "true"}, HOLDFAST_COMMAND, Lock::Cluster::unsaid);
  EXPECT_EQ(got.wait(), 0) << got.errors();
  for (const std::string how : {"-s", "-F"}) {
    Lock refused(machine, {how, kJobs, "k", "--", "true"}, HOLDFAST_COMMAND, Lock::Cluster::unsaid);
    EXPECT_EQ(refused.wait(), 64);
    EXPECT_THAT(refused.errors(), HasSubstr("dictionary \"jobs\" belongs to cluster main: "));
  }
  Lock holding(machine, {kJobs, "k", "--", "sh", "-c", "touch '" + began + "'; exec sleep 600"}, HOLDFAST_COMMAND,
               Lock::Cluster::unsaid);
  ASSERT_TRUE(eventually([&] { return exists(began); })) << holding.errors();
  end_lease();
  EXPECT_EQ(holding.wait(), 76);
  EXPECT_THAT(holding.errors(), HasSubstr("\"k\" was lost: "));
}

TEST_F(LockCommandTest, an_agent_that_fails_to_start_ends_and_its_messages_are_shown) {
  std::ofstream(config) << R"({"endpoints": ["http://127.0.0.1:1"]})";
  for (const std::string how : {"-n", "-w2"}) {
    Lock vain(machine, {how, "--agent", "--agent-config", config, "k", "--", "true"});
    EXPECT_EQ(vain.wait(), 75);
    EXPECT_THAT(vain.errors(), HasSubstr("Connection refused"));
    EXPECT_TRUE(eventually([&] { return agent_pid() == 0; }));
  }
}

}  // namespace
}  // namespace holdfast::test
