#include "lock/blocking.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <stdexcept>

#include "base/time.h"
#include "dict/expiry.h"
#include "lock/lock.h"
#include "lock/lock_info.h"
#include "platform/platform.h"
#include "wait/parking_lot.h"
#include "world/world.h"

namespace holdfast {

namespace {

/// How soon a forked child tries again to enter, while another process does.
constexpr std::uint64_t kEnterAgainNs = 50 * kNsPerMs;
/// How long the gate is asked on behalf of a caller that does not wait.
constexpr double kAskSeconds = 1;

std::uint64_t deadline_of(double timeout) noexcept {
  return timeout > kLongest ? kNever : platform::monotonic_ns() + static_cast<std::uint64_t>(std::ceil(timeout * 1e9));
}

/// The calling thread as a waiter for one key.
class WaitingThread {
 public:
  WaitingThread(Dictionary& dictionary, std::string_view key)
      : dictionary_(dictionary), key_(key), parker_(dictionary.world()), waiter_(parker_.open_waiter()) {
    if (waiter_ == 0) throw std::runtime_error("too many waiters in this process: at most 1048576");
  }
  ~WaitingThread() { leave(); }
  WaitingThread(const WaitingThread&) = delete;
  WaitingThread& operator=(const WaitingThread&) = delete;

  /// Runs attempt(const WaitStep&) -> Code.
  template <class Attempt>
  Code step(Attempt&& attempt) noexcept {
    const Code code = attempt(WaitStep{parker_, waiter_, sleep_seconds_});
    queued_ = code == Code::locked || code == Code::timeout || code == Code::deadlock;
    return code;
  }
  /// As lock_leave(), if it may be in the queue.
  Code leave() noexcept {
    if (!queued_) return Code::ok;
    queued_ = false;
    return lock_leave(dictionary_, key_, parker_, waiter_);
  }
  /// As long as the last step has said, or until it is woken. REQUIRES: it was locked or timeout.
  void sleep(std::uint64_t deadline_ns) {
    const auto planned = static_cast<std::uint64_t>(sleep_seconds_ * 1e9);
    const std::uint64_t until_ns = std::min(platform::monotonic_ns() + planned, deadline_ns);
    std::uint32_t woken = 0;
    while (parker_.sleep(until_ns, {&woken, 1}) == 0 && platform::monotonic_ns() < until_ns) continue;
  }
  std::vector<std::string> deadlock_keys() { return parker_.deadlock_keys(waiter_); }

 private:
  Dictionary& dictionary_;
  std::string_view key_;
  Parker parker_;
  std::uint32_t waiter_;
  double sleep_seconds_ = 0;
  bool queued_ = false;
};

/// Whether the attempt of a forked child failed only because another process enters the world.
bool is_held_up_at_the_entrance(World& world, Code code) noexcept {
  return code == Code::system && world.known_token() == kNobody && World::last_failure_code() == Code::busy;
}

bool is_held_here(Dictionary& dictionary, std::string_view key) noexcept {
  HolderCount count;
  return find_holders(dictionary, key, {}, count) == Code::ok && count.holders != 0;
}

/// The code of a wait that was in vain. What a process of this machine holds is held, whatever the gate says.
Code code_of_timeout(Dictionary& dictionary, std::string_view key, Code last) {
  double seconds = 0;
  if (last != Code::locked || dictionary.gate() == nullptr ||
      dictionary.gate()->state(dictionary, seconds).code != Code::unavailable)
    return last;
  return seconds == 0 || !is_held_here(dictionary, key) ? Code::unavailable : last;
}

/// Waits until attempt(const Request&, const WaitStep&) -> Code succeeds.
template <class Attempt>
Code wait_until(Dictionary& dictionary, std::string_view key, Request request, std::uint64_t deadline_ns,
                std::vector<std::string>& cycle, Attempt&& attempt) {
  WaitingThread thread(dictionary, key);
  for (std::uint64_t now_ns = platform::monotonic_ns();;) {
    // Of a wait without end others are told nothing.
    request.timeout = deadline_ns == kNever ? 0 : static_cast<double>(deadline_ns - now_ns) / 1e9;
    const auto try_it = [&](const WaitStep& step) noexcept { return attempt(request, step); };
    const Code code = thread.step(try_it);
    if (code == Code::deadlock) cycle = thread.deadlock_keys();
    // The lock may be held on behalf of this waiter, by whom the gate belongs to.
    if (code == Code::locked && request.tries && is_held_here(dictionary, key)) return thread.step(try_it);
    const bool enters = is_held_up_at_the_entrance(dictionary.world(), code);
    if (!enters && code != Code::locked && code != Code::timeout) return code;
    now_ns = platform::monotonic_ns();
    if (now_ns >= deadline_ns) {
      if (thread.leave() == Code::system && code == Code::locked) return Code::system;
      return code_of_timeout(dictionary, key, code);
    }
    if (enters)
      platform::sleep_until(std::min(now_ns + kEnterAgainNs, deadline_ns));
    else
      thread.sleep(deadline_ns);
    now_ns = std::min(platform::monotonic_ns(), deadline_ns);
  }
}

/// Asks the gate for a lock that this machine does not have.
template <class Attempt>
Code ask(Dictionary& dictionary, std::string_view key, Request request, Attempt&& attempt) {
  double seconds = 0;
  const Gate* const gate = dictionary.gate();
  if (gate != nullptr && gate->state(dictionary, seconds).code == Code::unavailable && seconds == 0)
    return Code::unavailable;
  request.tries = true;
  request.holds = HoldsLocks::nothing;  // it does not wait for its turn
  std::vector<std::string> none;
  const Code code = wait_until(dictionary, key, request, deadline_of(kAskSeconds), none, attempt);
  return code == Code::locked && !is_held_here(dictionary, key) ? Code::unavailable : code;
}

}  // namespace

Code lock_blocking(Dictionary& dictionary, std::string_view key, const Request& request, double timeout, Lease& lease,
                   std::vector<std::string>& cycle) {
  const Code code = lock_try(dictionary, key, request, lease);
  const bool may_wait =
      code == Code::locked || code == Code::timeout || code == Code::elsewhere || code == Code::system;
  if (!may_wait || (timeout <= 0 && code != Code::elsewhere)) return code;
  const auto attempt = [&](const Request& present, const WaitStep& step) noexcept {
    return lock_wait(dictionary, key, present, step, lease);
  };
  if (timeout <= 0) return ask(dictionary, key, request, attempt);
  return wait_until(dictionary, key, request, deadline_of(timeout), cycle, attempt);
}

Code permits_blocking(Dictionary& dictionary, std::string_view key, const PermitsRequest& request, double timeout,
                      Lease& lease, std::vector<std::string>& cycle) {
  const Code code = permits_try(dictionary, key, request, lease);
  const bool may_wait = code == Code::locked || code == Code::timeout || code == Code::system;
  if (!may_wait || timeout <= 0) return code;
  const auto attempt = [&](const Request& present, const WaitStep& step) noexcept {
    return permits_wait(dictionary, key, {present, request.kind, request.want, request.total}, step, lease);
  };
  return wait_until(dictionary, key, request.request, deadline_of(timeout), cycle, attempt);
}

}  // namespace holdfast
