// The server: one thread, one poll. Connections, what they may send and how long they may take are bounded, and none
// waits for another: a silent one takes a place until its time is over, or until its place is needed.
#pragma once

#include <cstdint>
#include <list>
#include <string>

#include "inspect/descriptor.h"
#include "serve/gatherer.h"
#include "serve/request.h"

namespace holdfast::serve {

struct Settings {
  bool is_loopback = true;
  std::string token;       // empty: none is wanted
  std::uint32_t keys = 0;  // of each dictionary, among the metrics
};

struct Reply {
  int status = 200;
  std::string type;
  std::string body;
};

class Server {
 public:
  Server(Settings settings, inspect::Descriptor listener);
  /// Serves until a signal ends the process.
  [[noreturn]] void run();

 private:
  enum class Step { reads, awaits, writes, closes };
  struct Connection {
    inspect::Descriptor socket;
    double deadline = 0;
    Step step = Step::reads;
    std::string received{};
    Request request{};
    Gatherer* source = nullptr;  // while it awaits
    std::string document{};
    std::string reply{};
    std::size_t written = 0;
  };
  using Connections = std::list<Connection>;

  void accept_all();
  void make_room();
  void drop_late(double now);
  int milliseconds_left(double now) const;
  void handle(Connection& connection, short events);
  void receive(Connection& connection);
  void answer(Connection& connection);
  void answer_from(Connection& connection, const Documents& documents);
  void answer_waiting(const Gatherer& source);
  void send(Connection& connection, const Reply& reply);
  void write(Connection& connection);
  void drain(Connection& connection);

  Settings settings_;
  inspect::Descriptor listener_;
  Gatherer world_;
  Gatherer doctor_;
  Connections connections_;  // the oldest first
  double accepts_after_ = 0;
};

}  // namespace holdfast::serve
