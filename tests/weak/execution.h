// One execution of a small program under the C++20 memory model, built one event at a time.
//
// The model is RC11 (Lahav, Vafeiadis, Kang, Hur, Dreyer: Repairing Sequential Consistency in C/C++11) with the release
// sequences of C++20: a write, and the chain of updates that read from the write. An execution is a graph. It contains
// the events of each thread in program order, the source write of each read, and the order of the writes of each
// location.
//
//   happens-before   program order, and a release (or a release fence before the write) to an acquire (or an acquire
//                    fence after the read) that reads from its release sequence; closed under transitivity
//   coherence        no read and no write of a location contradicts happens-before
//   atomicity        an update directly follows the write that it reads from
//   SC               the order of sequentially consistent events has no cycle
//   no thin air      an event reads only from events that were added before it
//
// The last rule is stronger than C++20 and aarch64, which allow other threads to see a store before the relaxed load
// that precedes it (load buffering). The library must not rely on this rule, so in the library, each store after a load
// is a release or an update.
//
// A graph that breaks a rule is never completed, because no later event can remove the contradiction.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace holdfast::weak {

using Value = std::uint64_t;
using EventId = std::uint8_t;
/// A set of events, with one bit for each.
using EventSet = std::uint64_t;

inline constexpr std::size_t kEventsMax = 64;
inline constexpr EventId kNoEvent = 0xFF;
/// The thread that wrote the initial values before all other events.
inline constexpr std::uint8_t kInitialThread = 0xFF;

enum class Order : std::uint8_t { relaxed, acquire, release, acq_rel, seq_cst };

constexpr bool acquires(Order order) noexcept {
  return order == Order::acquire || order == Order::acq_rel || order == Order::seq_cst;
}
constexpr bool releases(Order order) noexcept {
  return order == Order::release || order == Order::acq_rel || order == Order::seq_cst;
}

/// An update reads and writes in one step.
enum class Kind : std::uint8_t { read, write, update, fence };

struct Event {
  Kind kind;
  Order order;
  std::uint8_t thread;
  std::uint8_t location;  // unused for a fence
  EventId from;           // the source write of a read or an update
  Value read;
  Value written;
  EventSet before;  // all events that happen before this event
  EventSet given;   // in a write or an update: all events that happen before an acquire that reads from it

  bool reads() const noexcept { return kind == Kind::read || kind == Kind::update; }
  bool writes() const noexcept { return kind == Kind::write || kind == Kind::update; }
};

class Execution {
 public:
  Execution(const std::vector<Value>& initial, std::size_t threads);

  const std::vector<Event>& events() const noexcept { return events_; }
  /// Returns the writes of a location in order.
  const std::vector<EventId>& writes(std::size_t location) const noexcept { return writes_[location]; }
  const std::vector<EventId>& events_of(std::size_t thread) const noexcept { return threads_[thread].events; }

  void add_fence(std::uint8_t thread, Order order);
  /// Adds a read from the write at this position in the location's order.
  void add_read(std::uint8_t thread, std::size_t location, Order order, std::size_t place);
  /// Adds a write at this position in the location's order.
  void add_write(std::uint8_t thread, std::size_t location, Order order, std::size_t place, Value value);
  /// Adds an update that reads the write at this position and follows it directly.
  void add_update(std::uint8_t thread, std::size_t location, Order order, std::size_t place, Value value);

  /// Returns true if the last added event does not break any rule.
  bool consistent() const;
  /// Returns the first position in the location's order from which this thread's next event may read, if the event does
  /// not synchronise.
  std::size_t oldest_readable(std::uint8_t thread, std::size_t location) const noexcept;

  /// Returns a hash of the graph, which does not depend on the order in which the events were added.
  std::array<std::uint64_t, 2> fingerprint() const noexcept;

 private:
  struct Thread {
    std::vector<EventId> events;
    EventSet before;      // all events that happen before the thread's next event
    EventSet acquirable;  // events that the thread's next acquire fence acquires
    EventSet released;    // events that the thread's writes have released since its last release fence
  };

  Event& append(std::uint8_t thread, Kind kind, Order order);
  void read_from(Event& event, EventId write);
  void give(Event& event) const noexcept;
  void finish(Event& event);
  std::size_t place_of(std::size_t location, EventId write) const noexcept;
  std::size_t floor_of(EventSet before, std::size_t location) const noexcept;
  bool coherent(EventId id) const noexcept;
  bool atomic(std::size_t location) const noexcept;
  bool sequentially_consistent() const;

  std::vector<Event> events_;
  std::vector<std::vector<EventId>> writes_;
  std::vector<Thread> threads_;
};

}  // namespace holdfast::weak
