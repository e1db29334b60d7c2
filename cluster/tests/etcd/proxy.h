// A TCP proxy in front of a server on loopback, which does to the traffic what bad networks and bad servers do. A
// process of its own: tests tell it what to do.
#pragma once

#include <memory>
#include <string>

#include "support/process.h"

namespace holdfast::test {

class Proxy {
 public:
  /// In front of 127.0.0.1:`server_port`; lets everything through.
  explicit Proxy(int server_port, int own_port = 0);

  int port() const { return port_; }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }

  /// Lets everything through again, what was held back first.
  void pass() { tell("pass"); }
  /// Ends all connections, and refuses new ones.
  void cut() { tell("cut"); }
  /// Ends all connections, once. Half an answer may have come.
  void reset() { tell("reset"); }
  /// Nothing comes through in either direction, and nobody is told: as if packets were lost. Nothing is forgotten.
  void hold() { tell("hold"); }
  /// The same for the connections of that member of etcd only.
  void hold_member(const std::string& id) { tell("hold " + id); }
  /// Requests come through, answers do not.
  void hold_answers() { tell("hold_answers"); }
  /// Each piece comes later, in either direction.
  void delay(int ms) { tell("delay " + std::to_string(ms)); }
  /// The answers to transactions come later, by a random time up to this: as from a store on a slow disk.
  void slow_down_transactions(int ms) { tell("slow " + std::to_string(ms)); }
  /// Each request comes through twice, and the first answer is given.
  void repeat() { tell("repeat"); }

 private:
  void tell(const std::string& command);

  int port_ = 0;
  std::unique_ptr<Child> child_;
};

}  // namespace holdfast::test
