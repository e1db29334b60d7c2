#include "lock/parking_lot.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <new>
#include <utility>

#include "lock/deadlock.h"
#include "platform/platform.h"
#include "sync/mailbox.h"
#include "world/world.h"

namespace holdfast {

namespace {

constexpr std::size_t kWaitersMax = std::size_t{1} << 20;
// A listener that is later than this is held up. The others wake so rarely that many cost little.
constexpr std::uint64_t kReliedOnNs = 24 * kLookNs;

bool look_for_deadlock(World& world, Living& living, std::uint64_t changes, WaiterSlot& slot) {
  if (slot.tracked == nullptr || slot.quiet_at == changes) return false;
  WaitTable table = world.waits();
  const bool told = slot.tracked->look(
      table, [&living](Token token) { return living.judge(token); },
      [&] { return slot.watch.kind->blocker(slot.watch); });
  slot.quiet_at = slot.tracked->going_on() ? slot.tracked->quiet_at() : changes;
  return told;
}

}  // namespace

ParkingLot& ParkingLot::get() {
  alignas(ParkingLot) static std::byte storage[sizeof(ParkingLot)];
  static auto* const lot = new (storage) ParkingLot;
  return *lot;
}

// When the library is loaded: a child that is forked while another thread makes it would wait for that thread for ever.
[[maybe_unused]] const bool kLotMade = (platform::install_fork_gate(), ParkingLot::get(), true);

ParkingLot::ParkingLot() { pthread_atfork(&before_fork, &after_fork_in_parent, &after_fork_in_child); }

/// The parent's waiters are not ours: our parkers start empty.
void ParkingLot::after_fork_in_child() {
  ParkingLot& lot = get();
  for (WaiterSlot& slot : lot.slots_)
    if (slot.parker != nullptr) slot.parker->forget();
  for (Parker* const parker : lot.in_loops_) parker->forget();
  lot.slots_.clear();
  lot.free_.clear();
  lot.in_loops_.clear();
  lot.sleepers_.forget();
  lot.pump_.forget();
  lot.mutex_.unlock();
}

std::uint32_t ParkingLot::open(Parker& parker) {
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

void ParkingLot::close(Parker& parker, std::uint32_t number) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (WaiterSlot* slot = slot_of(parker, number); slot != nullptr) {
    stop_waiting(parker, *slot);
    slot->parker = nullptr;
    free_.push_back(number);
  }
}

void ParkingLot::close_all(Parker& parker) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (std::uint32_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].parker != &parker) continue;
    stop_waiting(parker, slots_[i]);
    slots_[i].parker = nullptr;
    free_.push_back(i + 1);
  }
  std::erase(in_loops_, &parker);
  sleepers_.get_up(parker.berth_);
  sleepers_.appoint();
  parker.readiness_.close();
  parker.connection_.close();
}

void ParkingLot::set_polling(Parker& parker, WaiterSlot& slot, bool polling) noexcept {
  if (slot.polling && !polling) --parker.polling_;
  if (!slot.polling && polling) ++parker.polling_;
  slot.polling = polling;
}

void ParkingLot::stop_waiting(Parker& parker, WaiterSlot& slot) noexcept {
  set_polling(parker, slot, false);
  if (slot.arrival != 0) --parker.waiting_;
  slot.arrival = 0;
  slot.place = 0;
  slot.watch = {};
  if (slot.tracked != nullptr) slot.tracked->end();
}

Rest ParkingLot::collect(Parker& parker, std::span<std::uint32_t> woken, std::uint64_t now_ns, bool may_sleep) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const bool listened = sleepers_.is_listener(parker.berth_);
  sleepers_.get_up(parker.berth_);
  hand_out_mail(parker.world_);
  look_in_time(parker, listened, now_ns);
  signal_ready(&parker);
  const std::size_t count = std::min(woken.size(), parker.ready_.size());
  std::copy_n(parker.ready_.begin(), count, woken.begin());
  parker.ready_.erase(parker.ready_.begin(), parker.ready_.begin() + static_cast<std::ptrdiff_t>(count));
  parker.signal_rest();
  if (count != 0 || !may_sleep) {
    sleepers_.appoint();
    return {.count = count};
  }
  // One without waiters of its own looks for nobody: who has some relieves it.
  const bool relieves = parker.waiting_ != 0 && look_ns_ == kNever;
  Rest rest{.sleeps = true, .listens = sleepers_.lie_down(parker.berth_, relieves)};
  if (rest.listens && sleepers_.alone()) look_ns_ = parker.waiting_ != 0 ? parker.look_ns_ : kNever;
  if (rest.listens && parker.waiting_ != 0) look_ns_ = std::min(look_ns_, parker.look_ns_);
  rest.seen = parker.berth_.word.load(kRelaxed);
  rest.next_look_ns = next_look(parker);
  return rest;
}

void ParkingLot::look_in_time(Parker& parker, bool listened, std::uint64_t now_ns) {
  if (listened && look_ns_ != kNever && now_ns >= look_ns_) {
    look_ns_ = look_after(now_ns, look_for(parker.world_, nullptr));
    parker.look_ns_ = look_ns_;
  } else if (!listened && parker.waiting_ != 0 && now_ns >= parker.look_ns_) {
    parker.look_ns_ = look_after(now_ns, look_for(parker.world_, &parker));
  }
}

// A thread that does not listen relies on the one that does, but not for ever.
std::uint64_t ParkingLot::next_look(const Parker& parker) const noexcept {
  if (sleepers_.is_listener(parker.berth_)) return look_ns_;
  if (parker.waiting_ == 0 || parker.look_ns_ == kNever) return kNever;
  return look_ns_ <= parker.look_ns_ ? parker.look_ns_ + kReliedOnNs : parker.look_ns_;
}

void ParkingLot::hand_out_mail(World& world) {
  std::array<std::uint32_t, 64> numbers{};
  const Mail mail = collect_mail(world, numbers);
  for (std::size_t i = 0; i < mail.count; ++i)
    if (numbers[i] - 1 < slots_.size()) make_ready(numbers[i]);
  if (mail.all) look_for(world, nullptr);
}

void ParkingLot::make_ready(std::uint32_t number) {
  WaiterSlot& slot = slots_[number - 1];
  if (slot.parker == nullptr || slot.ready || slot.arrival == 0) return;
  slot.parker->ready_.push_back(number);  // may throw: then it is as if nobody had looked
  slot.ready = true;
  sleepers_.call(slot.parker->berth_);
}

std::uint32_t ParkingLot::look_for(World& world, const Parker* parker) {
  std::uint32_t lowest = kRankMax;
  if (closed_) return lowest;  // what they watch may be gone
  unattended_.clear();
  const Token self = world.token();
  Living living(world, self);
  const std::uint64_t changes = world.waits().changes();
  for (std::uint32_t i = 0; i < slots_.size(); ++i) {
    const WaiterSlot& slot = slots_[i];
    const Watch& watch = slot.watch;
    if (slot.arrival == 0 || watch.kind == nullptr || (parker != nullptr && slot.parker != parker)) continue;
    switch (watch.kind->look(watch, living, {self, i + 1})) {
      case Sight::held:
        if (lowest != 0) lowest = std::min(lowest, rank_of(slot));
        if (look_for_deadlock(world, living, changes, slots_[i])) make_ready(i + 1);
        break;
      case Sight::granted:
        make_ready(i + 1);
        break;
      case Sight::open:
        // Not who was marked already: it may never come.
        if (!slot.ready) unattended_.emplace_back(watch.entry, slot.arrival, i + 1);
        break;
    }
  }
  std::sort(unattended_.begin(), unattended_.end());
  const Entry* last = nullptr;
  for (const auto& [entry, arrival, number] : unattended_)
    if (std::exchange(last, entry) != entry) make_ready(number);
  return lowest;
}

}  // namespace holdfast
