#include "lock/parking.h"

#include <algorithm>
#include <functional>
#include <memory>

#include "lock/deadlock.h"
#include "lock/parking_lot.h"
#include "lock/waiter_slot.h"
#include "platform/platform.h"
#include "sync/mailbox.h"
#include "world/world.h"

namespace holdfast {

Parker::~Parker() { ParkingLot::get().close_all(*this); }

std::uint32_t Parker::open_waiter() { return ParkingLot::get().open(*this); }

void Parker::close_waiter(std::uint32_t number) noexcept { ParkingLot::get().close(*this, number); }

Waiter Parker::begin(std::uint32_t number, Token self) noexcept {
  Waiter waiter{.owner = self, .number = number, .delay_ns = promptness_.delay_ns()};
  ParkingLot::get().with(*this, number, [&](WaiterSlot& slot) {
    if (slot.arrival == 0) {
      slot.arrival = platform::monotonic_ns();
      if (waiting_++ == 0) look_ns_ = kNever;
    }
    slot.ready = false;
    waiter.arrival = slot.arrival;
    waiter.place = slot.place;
  });
  return waiter;
}

std::size_t Parker::watch(std::uint32_t number, const Watch& watch, std::uint64_t place) noexcept {
  std::size_t pollers = 0;
  ParkingLot::get().with(*this, number, [&](WaiterSlot& slot) {
    slot.watch = watch;
    slot.place = place;
    ParkingLot::set_polling(*this, slot, place == 0);
    look_ns_ = std::min(look_ns_, look_after(platform::monotonic_ns(), rank_of(slot)));
    ParkingLot::get().attend_watching(*this);
    pollers = polling_;
  });
  return pollers;
}

bool Parker::track(std::uint32_t number, std::uint32_t agent, std::string_view key) noexcept {
  bool deadlock = false;
  ParkingLot::get().with(*this, number, [&](WaiterSlot& slot) {
    if (slot.arrival == 0 || slot.watch.kind == nullptr) return;
    const Token self = world_.token();
    WaitTable table = world_.waits();
    try {
      if (slot.tracked == nullptr) slot.tracked = std::make_unique<TrackedWait>();
      slot.tracked->begin(self, agent, key);
      slot.quiet_at = TrackedWait::kNothing;
      look_ns_ = std::min(look_ns_, platform::coarse_monotonic_ns() + kLookNs);
      ParkingLot::get().attend_watching(*this);
      Living living(world_, self);
      deadlock = slot.tracked->settle(
          table, [&living](Token token) { return living.judge(token); },
          [&] { return slot.watch.kind->blocker(slot.watch); });
    } catch (...) {
      // No memory to search with: the wait ends by its timeout.
    }
  });
  return deadlock;
}

std::vector<std::string> Parker::deadlock_keys(std::uint32_t number) {
  std::vector<std::string> keys;
  ParkingLot::get().with(*this, number, [&](const WaiterSlot& slot) {
    if (slot.tracked != nullptr) keys = slot.tracked->keys();
  });
  return keys;
}

void Parker::end(std::uint32_t number) noexcept {
  ParkingLot::get().with(*this, number, [this](WaiterSlot& slot) { ParkingLot::stop_waiting(*this, slot); });
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

void Parker::signal() noexcept {
  readiness_.signal();
  connection_.signal();
}

void Parker::signal_rest() noexcept {
  connection_.drain();  // the loop has read what it was sent
  ready_.empty() ? readiness_.drain() : signal();
}

Expected<int> Parker::descriptor() { return ParkingLot::get().descriptor(*this); }

Expected<std::string> Parker::listen() { return ParkingLot::get().listen(*this); }

Status Parker::accept() { return ParkingLot::get().accept(*this); }

void Parker::disconnect() noexcept { ParkingLot::get().disconnect(*this); }

Status Parker::set_alarm(std::uint64_t deadline_ns) { return ParkingLot::get().set_alarm(*this, deadline_ns); }

bool Parker::attended() const noexcept { return ParkingLot::get().attended(*this); }

std::size_t Parker::sleep(std::uint64_t deadline_ns, std::span<std::uint32_t> woken) {
  ParkingLot& lot = ParkingLot::get();
  std::uint64_t now = platform::monotonic_ns();
  bool slept = false;
  for (bool interrupted = false;;) {  // by a signal: report what there is, be it nothing
    // Read before the mail: a ring after that ends the sleep.
    const std::uint32_t seen = mailbox_value(world_);
    const bool may_sleep = now < deadline_ns && !interrupted;
    const Rest rest = lot.collect(*this, woken, now, may_sleep);
    if (slept && rest.count != 0) promptness_.note_awake(now);
    if (!rest.sleeps) return rest.count;
    const std::uint64_t slice = std::min(deadline_ns, rest.next_look_ns);
    interrupted =
        !(rest.listens ? sleep_on_mailbox(world_, seen, slice) : sleep_on_word(berth_.word, rest.seen, slice));
    slept = true;
    now = platform::monotonic_ns();
  }
}

}  // namespace holdfast
