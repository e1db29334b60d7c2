#include "wait/parking_lot.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <new>
#include <utility>

#include "dict/expiry.h"
#include "dict/segment.h"
#include "platform/platform.h"
#include "sync/mailbox.h"
#include "wait/deadlock.h"
#include "world/process_table.h"
#include "world/world.h"

namespace holdfast {

namespace {

// Shows other processes that this process has just checked on behalf of its waiters (dict/wait_queue.h).
void note_look(World& world) noexcept {
  if (ProcessSlot* const slot = world.slot(world.known_token()))
    slot->looked_ms.store(platform::coarse_monotonic_ns() / kNsPerMs, std::memory_order_relaxed);
}

// Returns how long it may take until the grant or value that is waited for ends by itself.
std::uint64_t until_end(const Watch& watch) noexcept {
  const std::uint64_t end_ms = watch.kind->end_ms(watch);
  const std::uint64_t now = platform::coarse_monotonic_ns();
  if (end_ms == kExpiryNever || end_ms >= kNever / kNsPerMs) return kNever;
  return std::max(end_ms * kNsPerMs, now) - now + kNsPerMs;
}

// The benchmark for the next constants is "10,000 coroutines of one process, each waiting for its own lock", row "of C
// and C++".
constexpr std::size_t kWaitersAtFirst = 16;
constexpr std::size_t kWaitersMax = std::size_t{1} << 20;
// When the listener is this late, the other threads make their own checks. Such checks are so rare that even many
// threads need little time for them. No benchmark covers this constant, because only sleepers_test.cc has several
// threads.
constexpr std::uint64_t kReliedOnNs = 24 * kLookNs;

}  // namespace

// --- checks ---

Liveness LivenessCache::judge(Token token) noexcept {
  if (token == self_) return Liveness::alive;
  Answer& answer = answers_[slot_of(token) % kAnswers];
  if (answer.token != token) answer = {token, world_.judge(token)};
  return answer.liveness;
}

// --- the parker of one loop ---

Parker::Parker(World& world) noexcept : lot_(ParkingLot::get()), world_(world) {}

Parker::~Parker() {
  const std::lock_guard<std::mutex> lock(lot_.mutex_);
  for (std::uint32_t i = 0; i < lot_.slots_.size(); ++i)
    if (lot_.slots_[i].parker == this) lot_.close(i + 1);
  std::erase(lot_.in_loops_, this);
  lot_.sleepers_.leave(sleep_slot_);
  lot_.sleepers_.elect_listener();
  readiness_.close();
  connection_.close();
}

std::uint32_t Parker::open_waiter() {
  const std::lock_guard<std::mutex> lock(lot_.mutex_);
  if (lot_.free_.empty()) {
    if (lot_.slots_.size() == kWaitersMax) return 0;
    // Grow by an eighth, because there may be many waiters, and usually no more arrive.
    const std::size_t count = lot_.slots_.size();
    if (count == lot_.slots_.capacity()) lot_.slots_.reserve(count + count / 8 + kWaitersAtFirst);
    lot_.free_.reserve(lot_.slots_.capacity());  // returning a number must not need memory
    lot_.slots_.emplace_back();
    lot_.free_.push_back(static_cast<std::uint32_t>(lot_.slots_.size()));
  }
  const std::uint32_t number = lot_.free_.back();
  lot_.free_.pop_back();
  lot_.slots_[number - 1] = {};
  lot_.slots_[number - 1].parker = this;
  return number;
}

void Parker::close_waiter(std::uint32_t number) noexcept {
  lot_.with(*this, number, [&](const ParkingLot::Slot&) { lot_.close(number); });
}

Waiter Parker::begin(std::uint32_t number, Token self) noexcept {
  Waiter waiter{.owner = self, .number = number, .delay_ns = promptness_.delay_ns()};
  note_look(world_);
  lot_.with(*this, number, [&](ParkingLot::Slot& slot) {
    if (slot.arrival == 0) {
      slot.arrival = platform::monotonic_ns();
      waiter.is_new = true;
      if (slot.tracked != nullptr) slot.tracked->forget_keys();
      if (waiting_++ == 0) look_ns_ = kNever;
    }
    slot.looks = lot_.looks_;
    slot.ready = false;
    // The waiter of a foreign loop does not rest, because the loop may be busy while the wake thread checks. While the
    // process exits, no waiter rests, because no thread checks.
    waiter.rests = has_slept_ && !readiness_.is_open() && !connection_.is_open() && !lot_.closed_;
    waiter.arrival = slot.arrival;
    waiter.place = slot.place;
  });
  return waiter;
}

void Parker::keep(std::uint32_t number, const Watch& watch, std::uint64_t place) noexcept {
  lot_.with(*this, number, [&](ParkingLot::Slot& slot) { ParkingLot::set_watch(slot, watch, place); });
}

std::size_t Parker::watch(std::uint32_t number, const Watch& watch, std::uint64_t place) noexcept {
  std::size_t pollers = 0;
  lot_.with(*this, number, [&](ParkingLot::Slot& slot) {
    ParkingLot::set_watch(slot, watch, place);
    const std::uint64_t now_ns = platform::monotonic_ns();
    look_ns_ = std::min(look_ns_, now_ns + lot_.pause_of(slot));
    lot_.attend_watching(*this);
    if (watch.deaths) lot_.death_watch_.begin(world_, world_.known_token(), &ParkingLot::on_death_watch, now_ns);
    pollers = polling_;
  });
  return pollers;
}

bool Parker::hears_of_deaths() const noexcept {
  const std::lock_guard<std::mutex> lock(lot_.mutex_);
  return lot_.death_watch_.is_on();
}

bool Parker::track(std::uint32_t number, std::uint32_t task, std::string_view key, Alone alone) noexcept {
  bool deadlock = false;
  lot_.with(*this, number, [&](ParkingLot::Slot& slot) {
    if (slot.arrival == 0 || slot.watch.kind == nullptr) return;
    const Token self = world_.token();
    WaitTable table(world_.wait_table());
    try {
      if (slot.tracked == nullptr) slot.tracked = std::make_unique<TrackedWait>();
      slot.tracked->begin(self, task, key, alone);
      slot.quiet_at = TrackedWait::kNothing;
      look_ns_ = std::min(look_ns_, platform::coarse_monotonic_ns() + kLookNs);
      lot_.attend_watching(*this);
      LivenessCache liveness(world_, self);
      deadlock = slot.tracked->settle(
          table, [&liveness](Token token) { return liveness.judge(token); },
          [&] { return slot.watch.kind->blocker(slot.watch); });
    } catch (...) {
      // There is no memory for a search: the wait ends at its timeout.
    }
  });
  return deadlock;
}

std::vector<std::string> Parker::deadlock_keys(std::uint32_t number) {
  std::vector<std::string> keys;
  lot_.with(*this, number, [&](const ParkingLot::Slot& slot) {
    if (slot.tracked != nullptr) keys = slot.tracked->keys();
  });
  return keys;
}

void Parker::end(std::uint32_t number) noexcept {
  lot_.with(*this, number, [](ParkingLot::Slot& slot) { ParkingLot::stop_waiting(slot); });
}

void Parker::forget() noexcept {
  ready_.clear();
  waiting_ = 0;
  polling_ = 0;
  readiness_.close();
  connection_.close();
  alarm_ns_ = kNever;
  attended_ = true;
}

std::size_t Parker::sleep(std::uint64_t deadline_ns, std::span<std::uint32_t> woken) {
  std::uint64_t now = platform::monotonic_ns();
  bool slept = false;
  for (bool interrupted = false;;) {  // after a signal, return even if no waiter was woken
    // Read the mailbox word before the mail, so that mail posted in between ends the sleep.
    const std::uint32_t seen = mailbox_value(world_);
    const bool may_sleep = now < deadline_ns && !interrupted;
    const ParkingLot::Rest rest = lot_.collect(*this, woken, now, may_sleep);
    if (slept && rest.count != 0) promptness_.note_awake(now);
    if (!rest.sleeps) return rest.count;
    const std::uint64_t until_ns = std::min(deadline_ns, rest.next_look_ns);
    interrupted = !(rest.listens ? sleep_on_mailbox(world_, seen, until_ns)
                                 : sleep_on_word(sleep_slot_.word, rest.seen, until_ns));
    slept = true;
    now = platform::monotonic_ns();
  }
}

// --- the lot: all waiters of the process ---

ParkingLot& ParkingLot::get() {
  alignas(ParkingLot) static std::byte storage[sizeof(ParkingLot)];
  static auto* const lot = new (storage) ParkingLot;
  return *lot;
}

// Create the lot when the library is loaded. Otherwise, a child that is forked while another thread creates it would
// wait forever for that thread.
[[maybe_unused]] const bool kLotMade = (platform::install_fork_gate(), ParkingLot::get(), true);

ParkingLot::ParkingLot() { pthread_atfork(&before_fork, &after_fork_in_parent, &after_fork_in_child); }

/// Empties the parkers in the child, which does not have the parent's waiters.
void ParkingLot::after_fork_in_child() {
  ParkingLot& lot = get();
  for (Slot& slot : lot.slots_)
    if (slot.parker != nullptr) slot.parker->forget();
  for (Parker* const parker : lot.in_loops_) parker->forget();
  lot.slots_.clear();
  lot.free_.clear();
  lot.in_loops_.clear();
  lot.sleepers_.forget();
  lot.wake_thread_.forget();
  lot.death_watch_.forget();
  lot.mutex_.unlock();
}

void ParkingLot::close(std::uint32_t number) noexcept {
  Slot& slot = slots_[number - 1];
  stop_waiting(slot);
  slot.parker = nullptr;
  free_.push_back(number);
}

void ParkingLot::set_polling(Slot& slot, bool polling) noexcept {
  if (slot.polling && !polling) --slot.parker->polling_;
  if (!slot.polling && polling) ++slot.parker->polling_;
  slot.polling = polling;
}

// Sets the watch, the reference to its segment, and the position together, because another thread may check between two
// steps.
void ParkingLot::set_watch(Slot& slot, const Watch& watch, std::uint64_t place) noexcept {
  slot.watch = watch;
  if (slot.watched.get() != watch.segment)
    slot.watched = watch.segment != nullptr ? watch.segment->shared_from_this() : nullptr;
  slot.place = place;
  set_polling(slot, must_poll(watch, place));
}

void ParkingLot::stop_waiting(Slot& slot) noexcept {
  set_polling(slot, false);
  if (slot.arrival != 0) --slot.parker->waiting_;
  slot.arrival = 0;
  slot.place = 0;
  slot.watch = {};
  slot.watched.reset();
  if (slot.tracked != nullptr) slot.tracked->end();
}

// Returns how many waiters are before this waiter in its queue, at most kRankMax. Returns kRankMax if the waiter is not
// in the queue, and 0 if it watches no queue or must search for deadlocks. The queue is read without any lock, so the
// result is a hint.
std::uint32_t ParkingLot::rank_of(const Slot& slot) noexcept {
  const Watch& watch = slot.watch;
  if (searches(slot)) return 0;
  if (slot.place == 0) return kRankMax;
  if (watch.queue == nullptr) return 0;
  std::uint32_t block = watch.queue->head.load(kRelaxed);
  for (std::uint32_t rank = 0; rank < kRankMax && watch.shard->holds_header(block); ++rank) {
    if (block == static_cast<std::uint32_t>(slot.place)) return rank;
    block = watch.shard->entry(block).next.load(kRelaxed);
  }
  return kRankMax;
}

std::uint64_t ParkingLot::pause_of(const Slot& slot) const noexcept {
  const bool rests = death_watch_.is_on() && slot.looks == looks_ && !searches(slot);
  return rests ? kRestNs : kLookNs * (rank_of(slot) + 1);
}

// Returns whether the waiter still has its position. A repair, which drops all queues, removes the waiter, and so does
// a waker if the waiter was woken before and did not respond. A watcher is removed when it is woken.
bool ParkingLot::has_place(const Slot& slot, const WaiterId& waiter) noexcept {
  return slot.place == 0 || is_queued(*slot.watch.shard, slot.place, waiter.self, waiter.number);
}

ParkingLot::Rest ParkingLot::collect(Parker& parker, std::span<std::uint32_t> woken, std::uint64_t now_ns,
                                     bool may_sleep) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (may_sleep) parker.has_slept_ = true;
  const bool listened = sleepers_.is_listener(parker.sleep_slot_);
  sleepers_.leave(parker.sleep_slot_);
  hand_out_mail(parker.world_);
  look_in_time(parker, listened, now_ns);
  signal_ready(&parker);
  const std::size_t count = std::min(woken.size(), parker.ready_.size());
  std::copy_n(parker.ready_.begin(), count, woken.begin());
  parker.ready_.erase(parker.ready_.begin(), parker.ready_.begin() + static_cast<std::ptrdiff_t>(count));
  parker.signal_rest();
  if (count != 0 || !may_sleep) {
    sleepers_.elect_listener();
    return {.count = count};
  }
  // A listener that has no waiters itself does not check, so a parker with waiters takes over.
  const bool relieves = parker.waiting_ != 0 && look_ns_ == kNever;
  Rest rest{.sleeps = true, .listens = sleepers_.enter(parker.sleep_slot_, relieves)};
  if (rest.listens && sleepers_.alone()) look_ns_ = parker.waiting_ != 0 ? parker.look_ns_ : kNever;
  if (rest.listens && parker.waiting_ != 0) look_ns_ = std::min(look_ns_, parker.look_ns_);
  rest.seen = parker.sleep_slot_.word.load(kRelaxed);
  rest.next_look_ns = next_look(parker);
  return rest;
}

void ParkingLot::look_in_time(Parker& parker, bool listened, std::uint64_t now_ns) {
  if (listened && look_ns_ != kNever && now_ns >= look_ns_) {
    look_ns_ = now_ns + look_for(parker.world_, nullptr);
    parker.look_ns_ = look_ns_;
  } else if (!listened && parker.waiting_ != 0 && now_ns >= parker.look_ns_) {
    parker.look_ns_ = now_ns + look_for(parker.world_, &parker);
  }
}

// Returns the time (ns) until which the thread may sleep. A thread that is not the listener leaves checks to the
// listener, but only for kReliedOnNs.
std::uint64_t ParkingLot::next_look(const Parker& parker) const noexcept {
  if (sleepers_.is_listener(parker.sleep_slot_)) return look_ns_;
  if (parker.waiting_ == 0 || parker.look_ns_ == kNever) return kNever;
  return look_ns_ <= parker.look_ns_ ? parker.look_ns_ + kReliedOnNs : parker.look_ns_;
}

void ParkingLot::hand_out_mail(World& world) {
  std::array<std::uint32_t, 64> numbers{};
  const Mail mail = collect_mail(world, numbers);
  for (std::size_t i = 0; i < mail.count; ++i)
    if (numbers[i] - 1 < slots_.size()) make_ready(numbers[i]);
  if (!mail.all) return;
  const std::uint64_t pause = look_for(world, nullptr);
  look_by(platform::monotonic_ns() + pause);
}

void ParkingLot::make_ready(std::uint32_t number) {
  Slot& slot = slots_[number - 1];
  if (slot.parker == nullptr || slot.ready || slot.arrival == 0) return;
  slot.parker->ready_.push_back(number);  // may throw; then the next check finds the waiter
  slot.ready = true;
  sleepers_.wake(slot.parker->sleep_slot_);
}

bool ParkingLot::look_for_deadlock(World& world, LivenessCache& liveness, std::uint64_t changes, Slot& slot) {
  if (slot.tracked == nullptr || slot.quiet_at == changes) return false;
  WaitTable table(world.wait_table());
  const bool is_victim = slot.tracked->look(
      table, [&liveness](Token token) { return liveness.judge(token); },
      [&] { return slot.watch.kind->blocker(slot.watch); });
  slot.quiet_at = slot.tracked->going_on() ? slot.tracked->quiet_at() : changes;
  return is_victim;
}

std::uint64_t ParkingLot::look_for(World& world, const Parker* parker) {
  std::uint64_t pause = kLookNs * (kRankMax + 1);
  if (closed_) return pause;
  if (death_watch_.is_on()) pause = kRestNs;
  note_look(world);
  unattended_.clear();
  const Token self = world.token();
  std::uint64_t oldest = kNever;
  LivenessCache liveness(world, self);
  const std::uint64_t changes = WaitTable(world.wait_table()).changes();
  for (std::uint32_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    const Watch& watch = slot.watch;
    if (slot.arrival == 0 || watch.kind == nullptr || (parker != nullptr && slot.parker != parker)) continue;
    if (!has_place(slot, {self, i + 1})) {
      make_ready(i + 1);
      continue;
    }
    switch (watch.kind->look(watch, liveness, {self, i + 1})) {
      case WatchState::held:
        oldest = std::min(oldest, slot.arrival);
        if (watch.deaths && slot.looks != looks_) {
          make_ready(i + 1);
          break;
        }
        slots_[i].looks = looks_;
        if (pause > kLookNs) pause = std::min({pause, pause_of(slot), until_end(watch)});
        if (look_for_deadlock(world, liveness, changes, slots_[i])) make_ready(i + 1);
        break;
      case WatchState::granted:
        make_ready(i + 1);
        break;
      case WatchState::open:
        // Skip a waiter that is already marked, because it may never respond.
        if (!slot.ready) unattended_.emplace_back(watch.entry, slot.arrival, i + 1);
        break;
    }
  }
  std::sort(unattended_.begin(), unattended_.end());
  const Entry* last = nullptr;
  for (const auto& [entry, arrival, number] : unattended_)
    if (std::exchange(last, entry) != entry) make_ready(number);
  if (const std::uint64_t now = platform::coarse_monotonic_ns(); oldest < now && now - oldest > DeathWatch::kSettledNs)
    death_watch_.begin(world, self, &on_death_watch, now);
  return pause;
}

// --- called by the death watch ---

// Makes all parkers check after an event. The thread of the death watch makes no checks itself, because its own
// descriptor table lacks the descriptor for asking the kernel about processes.
bool ParkingLot::on_death_watch(World& world, DeathWatch::Event event) noexcept {
  ParkingLot& lot = get();
  const std::lock_guard<std::mutex> lock(lot.mutex_);
  if (lot.closed_) return false;
  switch (event) {
    case DeathWatch::Event::refused:
      lot.death_watch_.note_refused(platform::monotonic_ns());
      return false;
    case DeathWatch::Event::idle:
      if (lot.is_waiting()) return true;
      lot.death_watch_.forget();
      return false;
    case DeathWatch::Event::started:
      ++lot.looks_;
      lot.death_watch_.note_started();
      return true;
    case DeathWatch::Event::look:
      ++lot.looks_;
      lot.look_by(platform::monotonic_ns());
      wake_own_threads(world);
      return true;
  }
  return true;
}

bool ParkingLot::is_waiting() const noexcept {
  return std::any_of(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.arrival != 0; });
}

void ParkingLot::look_by(std::uint64_t time_ns) noexcept {
  look_ns_ = std::min(look_ns_, time_ns);
  for (const Slot& slot : slots_)
    if (slot.arrival != 0) slot.parker->look_ns_ = std::min(slot.parker->look_ns_, time_ns);
}

}  // namespace holdfast
