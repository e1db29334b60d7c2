// Parkers of foreign event loops, which sleep in poll or epoll: their descriptors, connections and alarms, and the wake
// thread's work for these parkers.
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include "platform/platform.h"
#include "wait/parking_lot.h"
#include "world/world.h"
#include "world/world_file.h"

namespace holdfast {

namespace {

/// The wake thread may spend 1/kLookShare of its time on checks. The benchmark is "100 coroutines wait for one lock
/// while nothing happens".
constexpr std::uint64_t kLookShare = 100;

std::string connection_trouble(int error) {
  if (error == EAGAIN) return "nobody has connected";
  if (error == EPERM) return "another process has connected";
  return platform::error_text(error);
}

}  // namespace

// --- the parker ---

Expected<int> Parker::descriptor() {
  const std::lock_guard<std::mutex> lock(lot_.mutex_);
  if (Status status = describe(); !status.ok()) return status;
  if (Status status = lot_.attend(*this, next_check()); !status.ok()) return status;
  return readiness_.descriptor();
}

Expected<std::string> Parker::listen() {
  auto judged = world_.directory().open();
  if (!judged) return Status{Code::system, judged.status().message};
  // Use a temporary name: if this process is killed, the path is removed when the world starts again.
  std::string path = world_.directory().path_of(temporary_name());
  const std::lock_guard<std::mutex> lock(lot_.mutex_);
  lot_.remember_loop(*this);
  if (const int error = connection_.listen(path))
    return Status{Code::system, "cannot listen on " + path + ": " + platform::error_text(error)};
  return path;
}

Status Parker::accept() {
  const std::lock_guard<std::mutex> lock(lot_.mutex_);
  if (const int error = connection_.accept())
    return {Code::system, "cannot accept the connection for wake-ups: " + connection_trouble(error)};
  Status status = lot_.attend(*this, next_check());
  if (!status.ok()) connection_.close();
  if (!ready_.empty()) connection_.signal();
  return status;
}

void Parker::disconnect() noexcept {
  const std::lock_guard<std::mutex> lock(lot_.mutex_);
  connection_.close();
}

Status Parker::set_alarm(std::uint64_t deadline_ns) {
  const std::lock_guard<std::mutex> lock(lot_.mutex_);
  alarm_ns_ = kNever;
  if (deadline_ns == kNever) return {};
  if (!connection_.is_open()) {
    if (Status status = describe(); !status.ok()) return status;
  }
  if (deadline_ns <= platform::monotonic_ns()) {
    signal();
    return {};
  }
  alarm_ns_ = deadline_ns;
  return lot_.attend(*this, deadline_ns);
}

bool Parker::attended() const noexcept {
  const std::lock_guard<std::mutex> lock(lot_.mutex_);
  return attended_;
}

Status Parker::describe() {
  if (readiness_.is_open() && !readiness_.is_lost()) return {};
  lot_.remember_loop(*this);
  if (const int error = readiness_.open())
    return {Code::system, "cannot create a descriptor for wake-ups: " + platform::error_text(error)};
  if (!ready_.empty()) readiness_.signal();
  return {};
}

void Parker::signal() noexcept {
  readiness_.signal();
  connection_.signal();
}

void Parker::signal_rest() noexcept {
  connection_.drain();  // the loop has read the bytes sent so far
  ready_.empty() ? readiness_.drain() : signal();
}

// --- the lot ---

void ParkingLot::attend_watching(Parker& parker) noexcept {
  // Close the parking lot when the process exits, because nobody waits any more, and objects that the wake thread uses
  // may be destroyed.
  static const int registered = std::atexit([] {
    ParkingLot& lot = get();
    const std::lock_guard<std::mutex> lock(lot.mutex_);
    lot.closed_ = true;
  });
  static_cast<void>(registered);
  if (!parker.readiness_.is_open() && !parker.connection_.is_open()) return;
  try {
    static_cast<void>(attend(parker, parker.look_ns_));
  } catch (...) {
    parker.attended_ = false;  // no memory
  }
}

void ParkingLot::remember_loop(Parker& parker) {
  if (std::find(in_loops_.begin(), in_loops_.end(), &parker) == in_loops_.end()) in_loops_.push_back(&parker);
}

Status ParkingLot::attend(Parker& parker, std::uint64_t deadline_ns) {
  parker.attended_ = false;
  if (closed_) return {Code::system, "cannot start the wake thread: the process exits"};
  Status status = wake_thread_.be_up(parker.world_, &run_round, deadline_ns);
  parker.attended_ = status.ok();
  return status;
}

void ParkingLot::signal_ready(const Parker* parker) noexcept {
  for (Parker* const other : in_loops_)
    if (other != parker && !other->ready_.empty()) other->signal();
}

std::uint64_t ParkingLot::run_round() noexcept {
  ParkingLot& lot = get();
  const std::lock_guard<std::mutex> lock(lot.mutex_);
  if (lot.closed_) return 0;
  try {
    return lot.serve_loops();
  } catch (...) {  // no memory: the next check finds the mail that was not distributed
    return platform::monotonic_ns() + kLookNs;
  }
}

std::uint64_t ParkingLot::serve_loops() {
  if (in_loops_.empty()) return wake_thread_.plan(platform::monotonic_ns(), false, 0);
  World& world = in_loops_.front()->world_;
  hand_out_mail(world);
  const std::uint64_t now = platform::monotonic_ns();
  bool needed = false;
  std::uint64_t due = kNever;
  for (Parker* const parker : in_loops_) {
    if (parker->alarm_ns_ <= now) {
      parker->alarm_ns_ = kNever;
      parker->signal();
    }
    if (parker->waiting_ != 0) {
      if (now >= parker->look_ns_) look_sparingly(*parker, now);
      due = std::min(due, parker->look_ns_);
    }
    due = std::min(due, parker->alarm_ns_);
    needed = needed || parker->waiting_ != 0 || parker->alarm_ns_ != kNever;
  }
  signal_ready(nullptr);
  return wake_thread_.plan(now, needed, due);
}

void ParkingLot::look_sparingly(Parker& parker, std::uint64_t now_ns) {
  const std::uint64_t before = platform::thread_cpu_ns();
  const std::uint64_t pause = look_for(parker.world_, &parker);
  const std::uint64_t cost = platform::thread_cpu_ns() - before;
  parker.look_ns_ = now_ns + std::max(pause, kLookShare * cost);
}

}  // namespace holdfast
