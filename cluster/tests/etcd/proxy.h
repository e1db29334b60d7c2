// A TCP proxy in front of a server on loopback, which imitates bad networks and bad servers. The proxy is a separate
// process that the test controls.
#pragma once

#include <memory>
#include <string>

#include "support/process.h"

namespace holdfast::test {

class Proxy {
 public:
  /// Accepts connections for 127.0.0.1:`server_port`, and lets all data through.
  explicit Proxy(int server_port, int own_port = 0);

  int port() const { return port_; }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }

  /// Lets all data through again, beginning with the data that was held back.
  void pass() { tell("pass"); }
  /// Ends all connections, and refuses new connections.
  void cut() { tell("cut"); }
  /// Ends all connections once, even in the middle of an answer.
  void reset() { tell("reset"); }
  /// Silently holds back all data in both directions, as if packets were lost. No data are dropped.
  void hold() { tell("hold"); }
  /// Holds back only the connections of the etcd member with this id.
  void hold_member(const std::string& id) { tell("hold " + id); }
  /// Lets requests through, but no answers.
  void hold_answers() { tell("hold_answers"); }
  /// Delays each piece, in both directions.
  void delay(int ms) { tell("delay " + std::to_string(ms)); }
  /// Delays the answers to transactions by a random time up to `ms`, as a store on a slow disk does.
  void slow_down_transactions(int ms) { tell("slow " + std::to_string(ms)); }
  /// Sends each request twice, and returns the first answer.
  void repeat() { tell("repeat"); }

 private:
  void tell(const std::string& command);

  int port_ = 0;
  std::unique_ptr<Child> child_;
};

}  // namespace holdfast::test
