// A machine of a cluster, which is a runtime directory with an agent and programs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "service/leaping_clock.h"
#include "support/process.h"

namespace holdfast::test {

class EtcdServer;

inline constexpr const char* kCluster = "main";
inline constexpr const char* kJobs = "jobs";
inline constexpr int kShort = 2;  // a lease that should end (s)
inline constexpr int kLong = 30;  // a lease that should not end (s)
/// Keys that the user of EtcdServer::enable_authentication() may access.
inline constexpr const char* kSpace = "hf/main";

/// A process on a machine. It executes commands, one at a time, and reports their results:
///
///   lock KEY SECONDS       "ok TOKEN NS", with the time of CLOCK_BOOTTIME, or the name of the code
///   block KEY SECONDS      like lock, but with the call that blocks the thread
///   state                  "ok", or why no new locks are available
///   unlock KEY, valid KEY, confirm KEY   the name of the code
///   lose KEY               waits until the lock is lost: "lost NS"
///   renew KEY              waits until the agent has extended the session
///   try KEY                like lock, without a wait
///   take COUNT [FROM]      how many of COUNT locks it gets, beginning with the lock "0" or "FROM"
///   keep COUNT             how many of the locks "0" to COUNT - 1 it has
///   verify KEY, holder KEY, break KEY REVISION   the answer's lines, joined by blanks
class Program {
 public:
  explicit Program(const std::string& directory, const std::string& clock = {});

  std::string ask(const std::string& command) { return child_.ask(command); }
  void say(const std::string& command) { child_.say(command); }
  std::string hear() { return child_.hear(); }
  /// Sends the command `lock`. Returns the token, or 0.
  std::uint64_t lock(const std::string& key, double seconds = 40);
  Child& child() { return child_; }

 private:
  Child child_;
};

/// Fields of an agent's configuration: names and their JSON values.
using Fields = std::map<std::string, std::string>;

class Machine {
 public:
  /// `etcd` has the URLs for the machine's agents, separated by commas. `fields` has further fields of their
  /// configuration.
  explicit Machine(const std::string& etcd, int ttl_s = 10, const Fields& fields = {});

  /// Starts an agent. The last agent must have ended.
  void start_agent() { agent_ = another_agent(); }
  /// Kills the agent and starts a new agent.
  void restart_agent() {
    agent_->kill_and_wait();
    start_agent();
  }
  std::unique_ptr<Child> another_agent() const;
  Child& agent() { return *agent_; }
  /// Returns the log of the machine's agents.
  std::string said() const;
  bool has_said(const std::string& part) const;
  std::unique_ptr<Program> new_program() const;
  /// Returns the machine's runtime directory.
  std::string directory() const { return scratch_ / "world"; }
  std::string clock_file() const { return scratch_ / "clock"; }

  /// Returns how far the machine's clocks are ahead of the system's clocks.
  ClockLeap& clock() { return *clock_; }

 private:
  const ScratchDirectory scratch_;
  ClockLeap* const clock_;
  std::unique_ptr<Child> agent_;
};

/// A machine with a running agent, and one program.
class Peer : public Machine {
 public:
  explicit Peer(const std::string& etcd, int ttl_s = 10, const Fields& fields = {}) : Machine(etcd, ttl_s, fields) {
    start_agent();
    program_ = new_program();
  }

  Program& program() { return *program_; }
  std::string ask(const std::string& command) { return program_->ask(command); }
  void say(const std::string& command) { program_->say(command); }
  std::string hear() { return program_->hear(); }
  std::uint64_t lock(const std::string& key, double seconds = 40) { return program_->lock(key, seconds); }
  /// Takes the lock and returns its token. If the program does not get the lock, throws an exception that contains the
  /// agent's log.
  std::uint64_t hold(const std::string& key);

 private:
  std::unique_ptr<Program> program_;
};

/// Runs the command on this machine. Returns its output and its exit status.
std::pair<std::string, int> run_command(const Machine& machine, const std::string& arguments);

/// Waits until this many machines are queued for the lock in the store.
bool is_queued(EtcdServer& etcd, const std::string& key, std::size_t machines = 1);

}  // namespace holdfast::test
