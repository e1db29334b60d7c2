// The server: one thread, one poll. Connections, what they may send and how long they may take are bounded, and none
// waits for another: a silent one takes a place until its time is over, or until its place is needed. All send from one
// copy of a text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <string>
#include <vector>

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
  Text body;
};

/// What the connections keep of texts that are no longer new: without a limit, readers that are slow would keep one of
/// each second.
inline constexpr std::size_t kOldTextsMax = std::size_t{6} << 20;
/// Of texts that connections have yet to send, in the order of their coming; null: of none. How many connections, from
/// the first on, must go, so that those texts that `is_new` does not have are within the limit.
std::size_t count_to_drop(const std::vector<Text>& texts, const std::function<bool(const Text&)>& is_new);

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
    std::string head{};
    Text body{};
    std::size_t written = 0;  // of both
  };
  using Connections = std::list<Connection>;

  void accept_all();
  void make_room();
  void drop_readers_of_old_texts();
  void drop_late(double now);
  int milliseconds_left(double now) const;
  void handle(Connection& connection, short events);
  void receive(Connection& connection);
  void answer(Connection& connection);
  void answer_from(Connection& connection, const Texts& texts);
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
