// The server. It has one thread, which waits in one poll(). The number of connections, their input and their time are
// limited, and no connection waits for another. A silent connection keeps its slot until its time is over or the slot
// is needed. All connections share one copy of each text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <string>
#include <vector>

#include "inspect/descriptor.h"
#include "serve/gatherer.h"
#include "serve/history.h"
#include "serve/request.h"

namespace holdfast::serve {

struct Settings {
  bool is_loopback = true;
  std::string token;       // empty: no token is required
  std::uint32_t keys = 0;  // the number of keys per dictionary in the metrics
};

/// The texts of a reply, in order. Connections share them.
using Body = std::vector<Text>;

struct Reply {
  int status = 200;
  std::string type;
  Body body;
};

/// The maximum size, in bytes, of the old texts that connections still send. Without a limit, slow clients could keep
/// one text in memory for each second.
inline constexpr std::size_t kOldTextsMax = std::size_t{6} << 20;
/// Returns how many of the oldest connections must be closed so that the texts for which `is_new` is false do not
/// exceed the limit. `bodies`: the texts that each connection still has to send, with the oldest connection first.
std::size_t count_to_drop(const std::vector<Body>& bodies, const std::function<bool(const Text&)>& is_new);

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
    Gatherer* source = nullptr;  // set while the connection waits for documents
    std::string document{};
    std::string head{};
    Body body{};
    std::size_t part = 0;     // the index of the part of the body that is being sent, after the head
    std::size_t written = 0;  // the number of bytes of the head or the part that were sent
  };
  using Connections = std::list<Connection>;

  void accept_all();
  void make_room();
  void drop_readers_of_old_texts();
  void drop_late(double now);
  int milliseconds_left(double now) const;
  void start_sample();
  void keep_sample();
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
  Gatherer sampler_;
  History history_;
  double sample_at_ = 0;     // in holdfast_now() time
  double sample_due_ = 0;    // the same time in CLOCK_BOOTTIME; 0 before the first sample
  std::size_t samples_ = 0;  // the number of samples in the average; at most kChunkSamples
  double sample_cost_ = 0;   // the average processor time of a sample, in seconds
  Connections connections_;  // the oldest first
  double accepts_after_ = 0;
};

}  // namespace holdfast::serve
