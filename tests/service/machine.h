// A machine of a cluster: a world of its own, with an agent and programs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "support/process.h"

namespace holdfast::test {

inline constexpr const char* kCluster = "main";
inline constexpr const char* kJobs = "jobs";

/// A process of a machine that does what it is told, a command at a time, and says what came of it:
///
///   lock KEY SECONDS       "ok TOKEN", or the name of the code
///   unlock KEY, valid KEY, confirm KEY   the name of the code
///   verify KEY, holder KEY, break KEY REVISION   the answer's lines, joined by blanks
class Program {
 public:
  explicit Program(const std::string& directory);

  std::string ask(const std::string& command) { return child_.ask(command); }
  void say(const std::string& command) { child_.say(command); }
  std::string hear() { return child_.hear(); }
  /// As lock KEY SECONDS: the token, or 0.
  std::uint64_t lock(const std::string& key, double seconds = 40);
  Child& child() { return child_; }

 private:
  Child child_;
};

class Machine {
 public:
  /// `etcd`: the URLs that its agents are told.
  Machine(std::string etcd, int ttl_s = 10) : etcd_(std::move(etcd)), ttl_s_(ttl_s) {}

  /// Starts an agent, in the place of the last one if there is none any more.
  void start_agent() { agent_ = another_agent(); }
  std::unique_ptr<Child> another_agent() const;
  Child& agent() { return *agent_; }
  const std::string& directory() const { return directory_.path(); }
  std::unique_ptr<Program> program() const { return std::make_unique<Program>(directory_.path()); }

 private:
  const ScratchDirectory directory_;
  const std::string etcd_;
  const int ttl_s_;
  std::unique_ptr<Child> agent_;
};

}  // namespace holdfast::test
