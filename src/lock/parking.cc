#include "lock/parking.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <tuple>
#include <utility>

#include "dict/expiry.h"
#include "platform/platform.h"
#include "sync/bell.h"
#include "world/world.h"

namespace holdfast {

namespace {

constexpr std::size_t kWaitersMax = std::size_t{1} << 20;
/// How long a lock that became free without a wake-up may stay unnoticed.
constexpr std::uint64_t kWatchIntervalNs = 8'000'000;

struct WaiterSlot {
  Parker* parker = nullptr;   // null: not in use
  std::uint64_t arrival = 0;  // 0: not waiting
  Watch watch;
  bool ready = false;
  bool polling = false;
  std::uint64_t place = 0;  // in the lock's queue
};

}  // namespace

/// All waiters of this process. A number is an index into `slots_`, plus one.
class ParkingLot {
 public:
  static ParkingLot& get() {
    static ParkingLot lot;
    return lot;
  }

  std::uint32_t open(Parker& parker) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (free_.empty()) {
      if (slots_.size() == kWaitersMax) return 0;
      slots_.emplace_back();
      free_.reserve(slots_.size());  // so that giving a number back needs no memory
      free_.push_back(static_cast<std::uint32_t>(slots_.size()));
    }
    const std::uint32_t number = free_.back();
    free_.pop_back();
    slots_[number - 1] = WaiterSlot{};
    slots_[number - 1].parker = &parker;
    return number;
  }

  void close(Parker& parker, std::uint32_t number) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (WaiterSlot* slot = slot_of(parker, number); slot != nullptr) {
      stop_waiting(parker, *slot);
      slot->parker = nullptr;
      free_.push_back(number);
    }
  }

  void close_all(Parker& parker) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (std::uint32_t i = 0; i < slots_.size(); ++i) {
      if (slots_[i].parker != &parker) continue;
      slots_[i].parker = nullptr;
      free_.push_back(i + 1);
    }
  }

  // The next two: REQUIRES the lot's mutex, as in with().

  static void set_polling(Parker& parker, WaiterSlot& slot, bool polling) noexcept {
    if (slot.polling && !polling) --parker.polling_;
    if (!slot.polling && polling) ++parker.polling_;
    slot.polling = polling;
  }

  static void stop_waiting(Parker& parker, WaiterSlot& slot) noexcept {
    set_polling(parker, slot, false);
    if (slot.arrival != 0) --parker.waiting_;
    slot.arrival = 0;
    slot.place = 0;
    slot.watch = {};
  }

  /// Runs `change(WaiterSlot&)` if the number is a waiter of that parker.
  template <class Change>
  void with(Parker& parker, std::uint32_t number, Change change) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (WaiterSlot* slot = slot_of(parker, number); slot != nullptr) change(*slot);
  }

  /// Hands out the mail of this process, then moves what is ready for `parker`. `waiting` tells whether it has waiters.
  std::size_t collect(Parker& parker, std::span<std::uint32_t> woken, bool& waiting) {
    std::array<std::uint32_t, 64> numbers{};
    const std::lock_guard<std::mutex> lock(mutex_);
    const Mail mail = take_mail(parker.world_, numbers);
    for (std::size_t i = 0; i < mail.count; ++i)
      if (numbers[i] - 1 < slots_.size()) make_ready(numbers[i]);
    if (mail.all) look_for(parker.world_, nullptr);
    waiting = parker.waiting_ != 0;
    const std::size_t count = std::min(woken.size(), parker.ready_.size());
    std::copy_n(parker.ready_.begin(), count, woken.begin());
    parker.ready_.erase(parker.ready_.begin(), parker.ready_.begin() + static_cast<std::ptrdiff_t>(count));
    return count;
  }

  /// Marks those waiters of the parker ready that would find their lock free or granted to them.
  void look(Parker& parker) {
    const std::lock_guard<std::mutex> lock(mutex_);
    look_for(parker.world_, &parker);
  }

 private:
  ParkingLot() { pthread_atfork(&before_fork, &after_fork_in_parent, &after_fork_in_child); }

  static void before_fork() { get().mutex_.lock(); }
  static void after_fork_in_parent() { get().mutex_.unlock(); }
  /// The parent's waiters are not ours: our parkers start empty.
  static void after_fork_in_child() {
    ParkingLot& lot = get();
    for (WaiterSlot& slot : lot.slots_)
      if (slot.parker != nullptr) slot.parker->forget();
    lot.slots_.clear();
    lot.free_.clear();
    lot.mutex_.unlock();
  }

  /// The same for the waiters of all parkers, if none is given. Of those who wait for one free lock only the first is
  /// marked: one is enough, and it wakes the next.
  void look_for(World& world, const Parker* parker) {
    unattended_.clear();
    const Token self = world.token();
    Token judged = self;
    bool judged_alive = true;
    for (std::uint32_t i = 0; i < slots_.size(); ++i) {
      const WaiterSlot& slot = slots_[i];
      if (slot.arrival == 0 || slot.watch.owner == nullptr || (parker != nullptr && slot.parker != parker)) continue;
      const Token owner = slot.watch.owner->load(kRelaxed);
      if (owner == self && slot.watch.reserved->load(kRelaxed) == i + 1) {
        make_ready(i + 1);
        continue;
      }
      if (owner != kNobody && owner != judged) {
        judged = owner;
        judged_alive = world.alive(owner);
      }
      const std::uint64_t end = expiry_ms(slot.watch.expiry->load(kRelaxed));
      const bool held = owner != kNobody && judged_alive && (end == kExpiryNever || !time_passed(end));
      if (!held) unattended_.emplace_back(slot.watch.owner, slot.arrival, i + 1);
    }
    std::sort(unattended_.begin(), unattended_.end());
    const Word64* last = nullptr;
    for (const auto& [lock_word, arrival, number] : unattended_)
      if (std::exchange(last, lock_word) != lock_word) make_ready(number);
  }

  WaiterSlot* slot_of(const Parker& parker, std::uint32_t number) noexcept {
    return number - 1 < slots_.size() && slots_[number - 1].parker == &parker ? &slots_[number - 1] : nullptr;
  }

  void make_ready(std::uint32_t number) {
    WaiterSlot& slot = slots_[number - 1];
    if (slot.parker == nullptr || slot.ready || slot.arrival == 0) return;
    slot.ready = true;
    slot.parker->ready_.push_back(number);
  }

  std::mutex mutex_;
  std::vector<WaiterSlot> slots_;
  std::vector<std::uint32_t> free_;
  std::vector<std::tuple<const Word64*, std::uint64_t, std::uint32_t>> unattended_;  // scratch of look_for()
};

Parker::~Parker() { ParkingLot::get().close_all(*this); }

std::uint32_t Parker::open_waiter() { return ParkingLot::get().open(*this); }

void Parker::close_waiter(std::uint32_t number) noexcept { ParkingLot::get().close(*this, number); }

Waiter Parker::begin(std::uint32_t number, Token self) noexcept {
  Waiter waiter{self, number, 0, 0};
  ParkingLot::get().with(*this, number, [&](WaiterSlot& slot) {
    if (slot.arrival == 0) {
      slot.arrival = platform::monotonic_ns();
      ++waiting_;
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
    pollers = polling_;
  });
  return pollers;
}

void Parker::end(std::uint32_t number) noexcept {
  ParkingLot::get().with(*this, number, [this](WaiterSlot& slot) { ParkingLot::stop_waiting(*this, slot); });
}

std::size_t Parker::sleep(std::uint64_t deadline_ns, std::span<std::uint32_t> woken) {
  ParkingLot& lot = ParkingLot::get();
  for (bool interrupted = false;;) {
    // Read before the mail: a ring after that ends the sleep.
    const std::uint32_t seen = bell_value(world_);
    bool waiting = false;
    const std::size_t count = lot.collect(*this, woken, waiting);
    const std::uint64_t now = platform::monotonic_ns();
    if (count != 0 || now >= deadline_ns || interrupted) return count;
    const std::uint64_t slice = waiting ? std::min(deadline_ns, now + kWatchIntervalNs) : deadline_ns;
    sleep_on_bell(world_, seen, slice);
    const bool whole = platform::monotonic_ns() >= slice;
    if (whole && waiting) lot.look(*this);
    interrupted = !whole;  // a ring, or a signal: report what there is, be it nothing
  }
}

}  // namespace holdfast
