#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "lock/parking_lot.h"
#include "platform/platform.h"
#include "world/world.h"
#include "world/world_file.h"

namespace holdfast {

namespace {

/// The helper thread looks for at most one part of so many of its time.
constexpr std::uint64_t kLookShare = 100;

/// Of those names that go when a world begins, should this process be killed before it removes it.
std::string socket_path(const RuntimeDirectory& directory) {
  char number[20];
  std::snprintf(number, sizeof number, "%016llx", static_cast<unsigned long long>(platform::random_number()));
  return directory.path_of(std::string(kTemporaryPrefix) + number);
}

std::string why_no_connection(int error) {
  if (error == EAGAIN) return "nobody has connected";
  if (error == EPERM) return "another process has connected";
  return platform::error_text(error);
}

}  // namespace

Expected<int> ParkingLot::descriptor(Parker& parker) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (Status status = describe(parker); !status.ok()) return status;
  if (Status status = attend(parker, platform::monotonic_ns() + kLookNs); !status.ok()) return status;
  return parker.readiness_.descriptor();
}

Expected<std::string> ParkingLot::listen(Parker& parker) {
  auto judged = parker.world_.directory().open();
  if (!judged) return Status{Code::system, judged.status().message};
  std::string path = socket_path(parker.world_.directory());
  const std::lock_guard<std::mutex> lock(mutex_);
  remember_loop(parker);
  if (const int error = parker.connection_.listen(path))
    return Status{Code::system, "cannot listen at " + path + ": " + platform::error_text(error)};
  return path;
}

Status ParkingLot::accept(Parker& parker) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (const int error = parker.connection_.accept())
    return {Code::system, "cannot accept the connection for wake-ups: " + why_no_connection(error)};
  Status status = attend(parker, platform::monotonic_ns() + kLookNs);
  if (!status.ok()) parker.connection_.close();
  if (!parker.ready_.empty()) parker.connection_.signal();
  return status;
}

void ParkingLot::disconnect(Parker& parker) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  parker.connection_.close();
}

Status ParkingLot::set_alarm(Parker& parker, std::uint64_t deadline_ns) {
  const std::lock_guard<std::mutex> lock(mutex_);
  parker.alarm_ns_ = kNever;
  if (deadline_ns == kNever) return {};
  if (!parker.connection_.is_open()) {
    if (Status status = describe(parker); !status.ok()) return status;
  }
  if (deadline_ns <= platform::monotonic_ns()) {
    parker.signal();
    return {};
  }
  parker.alarm_ns_ = deadline_ns;
  return attend(parker, deadline_ns);
}

void ParkingLot::attend_watching(Parker& parker) noexcept {
  // While the process exits nobody waits any more, and what the thread uses may go.
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

bool ParkingLot::attended(const Parker& parker) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  return parker.attended_;
}

void ParkingLot::remember_loop(Parker& parker) {
  if (std::find(in_loops_.begin(), in_loops_.end(), &parker) == in_loops_.end()) in_loops_.push_back(&parker);
}

Status ParkingLot::describe(Parker& parker) {
  if (parker.readiness_.is_open() && !parker.readiness_.is_lost()) return {};
  remember_loop(parker);
  if (const int error = parker.readiness_.open())
    return {Code::system, "cannot make a descriptor for wake-ups: " + platform::error_text(error)};
  if (!parker.ready_.empty()) parker.readiness_.signal();
  return {};
}

Status ParkingLot::attend(Parker& parker, std::uint64_t deadline_ns) {
  parker.attended_ = false;
  if (closed_) return {Code::system, "cannot start the thread that listens for wake-ups: the process exits"};
  Status status = pump_.be_up(parker.world_, &take_turn, deadline_ns);
  parker.attended_ = status.ok();
  return status;
}

void ParkingLot::signal_ready(const Parker* parker) noexcept {
  for (Parker* const other : in_loops_)
    if (other != parker && !other->ready_.empty()) other->signal();
}

std::uint64_t ParkingLot::take_turn() noexcept {
  ParkingLot& lot = get();
  const std::lock_guard<std::mutex> lock(lot.mutex_);
  if (lot.closed_) return 0;
  try {
    return lot.serve_loops();
  } catch (...) {  // no memory: what was not handed out is found by the next look
    return platform::monotonic_ns() + kLookNs;
  }
}

std::uint64_t ParkingLot::serve_loops() {
  if (in_loops_.empty()) return pump_.plan(platform::monotonic_ns(), false, 0);
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
  return pump_.plan(now, needed, due);
}

void ParkingLot::look_sparingly(Parker& parker, std::uint64_t now_ns) {
  const std::uint64_t before = platform::thread_cpu_ns();
  const std::uint32_t rank = look_for(parker.world_, &parker);
  const std::uint64_t cost = platform::thread_cpu_ns() - before;
  parker.look_ns_ = std::max(look_after(now_ns, rank), now_ns + kLookShare * cost);
}

}  // namespace holdfast
