#include "weak/execution.h"

#include <algorithm>
#include <stdexcept>

#include "weak/relation.h"

namespace holdfast::weak {

namespace {

constexpr EventSet bit(std::size_t event) noexcept { return EventSet{1} << event; }

}  // namespace

Execution::Execution(const std::vector<Value>& initial, std::size_t threads) : writes_(initial.size()) {
  EventSet all = 0;
  for (std::size_t location = 0; location < initial.size(); ++location) {
    const auto id = static_cast<EventId>(events_.size());
    events_.push_back({Kind::write, Order::relaxed, kInitialThread, static_cast<std::uint8_t>(location), kNoEvent, 0,
                       initial[location], 0, 0});
    writes_[location].push_back(id);
    all |= bit(id);
  }
  threads_.assign(threads, {{}, all, 0, 0});
}

Event& Execution::append(std::uint8_t thread, Kind kind, Order order) {
  if (events_.size() == kEventsMax) throw std::length_error("the program has too many events");
  threads_[thread].events.push_back(static_cast<EventId>(events_.size()));
  return events_.emplace_back(Event{kind, order, thread, 0, kNoEvent, 0, 0, threads_[thread].before, 0});
}

void Execution::read_from(Event& event, EventId write) {
  event.from = write;
  event.read = events_[write].written;
  threads_[event.thread].acquirable |= events_[write].given;
  if (acquires(event.order)) event.before |= events_[write].given;
}

void Execution::give(Event& event) const noexcept {
  const auto id = static_cast<std::size_t>(&event - events_.data());
  event.given = releases(event.order) ? event.before | bit(id) : threads_[event.thread].released;
  if (event.kind == Kind::update) event.given |= events_[event.from].given;
}

void Execution::finish(Event& event) {
  const auto id = static_cast<std::size_t>(&event - events_.data());
  threads_[event.thread].before = event.before | bit(id);
}

void Execution::add_fence(std::uint8_t thread, Order order) {
  Event& event = append(thread, Kind::fence, order);
  if (acquires(order)) event.before |= threads_[thread].acquirable;
  finish(event);
  if (releases(order)) threads_[thread].released = threads_[thread].before;
}

void Execution::add_read(std::uint8_t thread, std::size_t location, Order order, std::size_t place) {
  Event& event = append(thread, Kind::read, order);
  event.location = static_cast<std::uint8_t>(location);
  read_from(event, writes_[location][place]);
  finish(event);
}

void Execution::add_write(std::uint8_t thread, std::size_t location, Order order, std::size_t place, Value value) {
  Event& event = append(thread, Kind::write, order);
  event.location = static_cast<std::uint8_t>(location);
  event.written = value;
  give(event);
  finish(event);
  auto& writes = writes_[location];
  writes.insert(writes.begin() + static_cast<std::ptrdiff_t>(place), static_cast<EventId>(events_.size() - 1));
}

void Execution::add_update(std::uint8_t thread, std::size_t location, Order order, std::size_t place, Value value) {
  Event& event = append(thread, Kind::update, order);
  event.location = static_cast<std::uint8_t>(location);
  event.written = value;
  read_from(event, writes_[location][place]);
  give(event);
  finish(event);
  auto& writes = writes_[location];
  writes.insert(writes.begin() + static_cast<std::ptrdiff_t>(place) + 1, static_cast<EventId>(events_.size() - 1));
}

// --- consistency ---

std::size_t Execution::place_of(std::size_t location, EventId write) const noexcept {
  const auto& writes = writes_[location];
  return static_cast<std::size_t>(std::find(writes.begin(), writes.end(), write) - writes.begin());
}

// Returns the position, in the location's order, of the latest write that these events have written or read.
std::size_t Execution::floor_of(EventSet before, std::size_t location) const noexcept {
  std::size_t floor = 0;
  for (std::size_t i = 0; i < events_.size(); ++i) {
    const Event& event = events_[i];
    if ((before >> i & 1) == 0 || event.kind == Kind::fence || event.location != location) continue;
    const EventId write = event.writes() ? static_cast<EventId>(i) : event.from;
    floor = std::max(floor, place_of(location, write));
  }
  return floor;
}

std::size_t Execution::oldest_readable(std::uint8_t thread, std::size_t location) const noexcept {
  return floor_of(threads_[thread].before, location);
}

bool Execution::coherent(EventId id) const noexcept {
  const Event& event = events_[id];
  const std::size_t floor = floor_of(event.before, event.location);
  if (event.reads() && place_of(event.location, event.from) < floor) return false;
  return !event.writes() || place_of(event.location, id) > floor;
}

bool Execution::atomic(std::size_t location) const noexcept {
  const auto& writes = writes_[location];
  for (std::size_t i = 1; i < writes.size(); ++i) {
    const Event& event = events_[writes[i]];
    if (event.kind == Kind::update && event.from != writes[i - 1]) return false;
  }
  return true;
}

bool Execution::consistent() const {
  const auto last = static_cast<EventId>(events_.size() - 1);
  const Event& event = events_[last];
  if (event.kind != Kind::fence) {
    if (!coherent(last)) return false;
    if (event.writes() && !atomic(event.location)) return false;
  }
  return sequentially_consistent();
}

namespace {

struct Relations {
  Relation program;   // sequenced-before (sb)
  Relation happens;   // happens-before (hb)
  Relation extended;  // extended coherence order (eco): reads-from, the order of writes, and from-reads, closed
  Relation direct;    // the order of writes, and from-reads
  Relation same;      // pairs of events of the same location
};

Relations relations_of(const Execution& execution) {
  const auto& events = execution.events();
  Relations all;
  for (std::size_t to = 0; to < events.size(); ++to) {
    for (std::size_t from = 0; from < events.size(); ++from) {
      const Event& a = events[from];
      const Event& b = events[to];
      if ((b.before >> from & 1) != 0) {
        all.happens.add(from, to);
        if (a.thread == b.thread || a.thread == kInitialThread) all.program.add(from, to);
      }
      if (a.kind != Kind::fence && b.kind != Kind::fence && a.location == b.location) all.same.add(from, to);
    }
    if (events[to].reads()) all.extended.add(events[to].from, to);
  }
  const std::size_t locations =
      events.empty() ? 0 : static_cast<std::size_t>(std::count_if(events.begin(), events.end(), [](const Event& event) {
        return event.thread == kInitialThread;
      }));
  for (std::size_t location = 0; location < locations; ++location) {
    EventSet later = 0;
    const auto& writes = execution.writes(location);
    for (auto write = writes.rbegin(); write != writes.rend(); ++write) {
      all.direct.add_all(*write, later);
      for (std::size_t i = 0; i < events.size(); ++i)
        if (events[i].reads() && events[i].from == *write) all.direct.add_all(i, later & ~bit(i));
      later |= bit(*write);
    }
  }
  all.extended = (all.extended | all.direct).closure();
  return all;
}

Relation restricted(const Relation& relation, const Relation& to, bool inside) noexcept {
  Relation result;
  for (std::size_t i = 0; i < kEventsMax; ++i) {
    const EventSet wanted = inside ? to.after(i) : ~to.after(i);
    result.add_all(i, relation.after(i) & wanted);
  }
  return result;
}

}  // namespace

// Checks RC11's condition psc, as the paper defines it.
bool Execution::sequentially_consistent() const {
  EventSet fences = 0;
  EventSet accesses = 0;
  for (std::size_t i = 0; i < events_.size(); ++i)
    if (events_[i].order == Order::seq_cst) (events_[i].kind == Kind::fence ? fences : accesses) |= bit(i);
  const EventSet strong = fences | accesses;
  if ((strong & (strong - 1)) == 0) return true;

  const Relations all = relations_of(*this);
  const EventSet everything = ~EventSet{0};
  const Relation elsewhere = restricted(all.program, all.same, false);
  const Relation scb =
      all.program | elsewhere.then(all.happens).then(elsewhere) | restricted(all.happens, all.same, true) | all.direct;
  const Relation maybe_happens = all.happens | Relation::identity(everything);
  const Relation enter = Relation::identity(accesses) | maybe_happens.between(fences, everything);
  const Relation leave = Relation::identity(accesses) | maybe_happens.between(everything, fences);
  const Relation base = enter.then(scb).then(leave);
  const Relation between_fences =
      (all.happens | all.happens.then(all.extended).then(all.happens)).between(fences, fences);
  return (base | between_fences).acyclic();
}

// --- identity ---

namespace {

/// Mixes the same words in two different ways.
class Mixer {
 public:
  void add(std::uint64_t word) noexcept {
    a_ = (a_ ^ word) * 0x9E3779B97F4A7C15;
    a_ ^= a_ >> 29;
    b_ = (b_ + word) * 0xC2B2AE3D27D4EB4F;
    b_ ^= b_ >> 31;
  }
  std::array<std::uint64_t, 2> result() const noexcept { return {a_, b_}; }

 private:
  std::uint64_t a_ = 1;
  std::uint64_t b_ = 2;
};

}  // namespace

// The reads and the order of writes identify an execution, because they and the program determine all values.
std::array<std::uint64_t, 2> Execution::fingerprint() const noexcept {
  std::array<std::uint32_t, kEventsMax>
      names{};  // by thread and position in the thread, not by the time when the event was added
  for (std::size_t location = 0; location < writes_.size(); ++location)
    names[location] = static_cast<std::uint32_t>(location);
  for (std::size_t thread = 0; thread < threads_.size(); ++thread)
    for (std::size_t i = 0; i < threads_[thread].events.size(); ++i)
      names[threads_[thread].events[i]] = static_cast<std::uint32_t>((thread + 1) << 16 | i);

  Mixer mixer;
  for (const Thread& thread : threads_) {
    mixer.add(0xFFFF0000 + thread.events.size());
    for (const EventId id : thread.events) mixer.add(events_[id].reads() ? names[events_[id].from] : 0xFFFF);
  }
  for (const auto& writes : writes_) {
    mixer.add(0xFFFE0000 + writes.size());
    for (const EventId id : writes) mixer.add(names[id]);
  }
  return mixer.result();
}

}  // namespace holdfast::weak
