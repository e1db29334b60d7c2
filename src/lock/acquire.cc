#include "lock/acquire.h"

#include <algorithm>
#include <array>
#include <span>
#include <type_traits>
#include <utility>

#include "base/time.h"
#include "dict/expiry.h"
#include "lock/blocking_waiter.h"
#include "lock/lock.h"
#include "lock/lock_info.h"
#include "lock/permits.h"
#include "lock/release.h"
#include "lock/wait_step.h"
#include "platform/platform.h"
#include "sync/spin.h"
#include "wait/parking_lot.h"
#include "wait/task_id.h"
#include "world/world.h"

namespace holdfast {

namespace {

// Makes an attempt with the mutex.
Code attempt(Dictionary& dictionary, std::string_view key, const Contender& contender, const TokenSet& dead,
             Lease& lease, BlockedBy& blocked_by) noexcept {
  blocked_by.holders.clear();
  const Code code =
      contender.request.kind == HeldKind::lock ? attempt_lock(dictionary, key, contender, dead, lease, blocked_by)
      : is_upgrade(contender.request)          ? attempt_upgrade(dictionary, key, contender, dead, lease, blocked_by)
                                               : attempt_permits(dictionary, key, contender, dead, lease, blocked_by);
  // The next attempt removes the waiter from this position.
  if (contender.waiter != nullptr && blocked_by.place != 0) contender.waiter->place = blocked_by.place;
  return code;
}

/// The second attempt: a spin, if spins have succeeded recently. The caller's host decides how long it may spin.
class LockSpin {
 public:
  explicit LockSpin(const Request& request) noexcept
      : has_other_tasks_(request.task != whole_state(request.task)),
        credit_(has_other_tasks_ ? credits_beside_tasks : credits),
        is_due_(request.kind == HeldKind::lock) {}

  /// Returns whether it took the lock. Spins only once, even if it is called several times.
  bool run(Dictionary& dictionary, std::string_view key, const Contender& contender, const TokenSet& dead, Lease& lease,
           BlockedBy& blocked_by) noexcept {
    if (!std::exchange(is_due_, false) || !credit_.may_spin()) return false;
    LockPolls polls{has_other_tasks_ ? kSpinBesideTasks : kSpinForLock};
    Polled polled = Polled::open;
    Code code = Code::locked;
    // An attempt that fails for another reason may have waited for the mutex, so do not repeat such an attempt here.
    while (polled == Polled::open && code == Code::locked) {
      polled = spin_for_lock(dictionary, key, contender, polls, lease);
      if (polled == Polled::open && has_other_tasks_) break;
      if (polled == Polled::open) code = attempt(dictionary, key, contender, dead, lease, blocked_by);
    }
    waited_ = is_to_be_noted_ = polls.waited;
    return polled == Polled::taken || code == Code::ok;
  }
  /// Returns whether the spin found the lock held.
  bool waited() const noexcept { return waited_; }
  /// Records whether the spin, or the attempt that followed, took the lock.
  void note(bool taken) noexcept {
    if (std::exchange(is_to_be_noted_, false)) credit_.note(taken);
  }

 private:
  inline static constinit SpinCredit credits;
  inline static constinit SpinCredit credits_beside_tasks;

  const bool has_other_tasks_;
  SpinCredit& credit_;
  bool is_due_;
  bool waited_ = false;
  bool is_to_be_noted_ = false;
};

// Makes the second attempt of a thread that blocks while it waits. The thread does not need a parker yet.
bool spin(Dictionary& dictionary, std::string_view key, const Contender& contender, Lease& lease) noexcept {
  LockSpin spin(contender.request);
  const std::uint64_t arrival_ns = platform::monotonic_ns();
  TokenSet dead;  // not const, because a const object would be initialised completely
  BlockedBy blocked_by;
  const bool taken = spin.run(dictionary, key, contender, dead, lease, blocked_by);
  spin.note(taken);
  if (taken && spin.waited()) count_wait(dictionary, key, HeldKind::lock, arrival_ns, false);
  return taken;
}

// Returns whether the result of the fast path is final, because a live process has the lock. If the thread will block,
// this call does not ask the kernel about the holder: asking takes longer than a short section, and the thread asks
// before it sleeps. Clears the lease, in which the fast path has stored the holder.
bool is_refused(Dictionary& dictionary, std::string_view key, const Request& request, Fast fast,
                Lease& lease) noexcept {
  if (fast != Fast::held && fast != Fast::lost) return false;
  const Token holder = std::exchange(lease, {}).owner;
  if (request.blocks) return true;
  return fast == Fast::held ? dictionary.world().judge(holder) == Liveness::alive
                            : is_held_for_certain(dictionary, key);
}

/// The refusals of one thread in the present tick of the coarse clock. At each of the first ones, asks the kernel about
/// the holder, and counts the refusal. Later ones take less time, for callers that try again and again: only one in 64
/// is drawn, asks the kernel, and counts 64 times. At the others, a holder that was alive in this tick counts as alive.
/// The kernel takes 0.5 to 5 us to answer, and finding a key's record takes longer than the rest of a refusal. The
/// benchmark is "lock of a held key, refused".
class Refusals {
 public:
  /// Begins a refusal at the time `coarse_ns`.
  void begin(std::uint64_t coarse_ns) noexcept {
    if (coarse_ns != coarse_ns_) {
      coarse_ns_ = coarse_ns;
      in_tick_ = 0;
      alive_ = {};
    }
    if (++in_tick_ <= kExact)
      weight_ = 1;
    else
      weight_ = ++number_ * 0x9E3779B1U < UINT32_MAX / kDrawnOf ? kDrawnOf : 0;  // at least one in 89
  }
  /// Returns whether the holder is alive, or was alive in this tick.
  bool is_alive(World& world, Token holder) noexcept {
    Token& seen = alive_[slot_of(holder) % alive_.size()];
    if (seen == holder && weight_ == 0) return true;
    if (world.judge(holder) != Liveness::alive) return false;
    seen = holder;
    return true;
  }
  void count(Dictionary& dictionary, std::string_view key, HeldKind kind) noexcept {
    if (weight_ != 0) count_refusals(dictionary, key, kind, weight_);
  }

 private:
  static constexpr std::uint32_t kExact = 16;
  static constexpr std::uint32_t kDrawnOf = 64;

  std::uint64_t coarse_ns_ = 0;
  std::uint32_t in_tick_ = 0;
  std::uint32_t number_ = 0;  // of the refusals that may be drawn
  std::uint32_t weight_ = 0;  // of this refusal
  std::array<Token, 4> alive_{};
};
constinit thread_local Refusals refusals{};
static_assert(std::is_trivially_destructible_v<decltype(refusals)>);

}  // namespace

bool refuse_at_once(Dictionary& dictionary, std::string_view key, bool counts, Lease& lease) noexcept {
  Refusals& mine = refusals;
  mine.begin(lease.sequence);
  if (!mine.is_alive(dictionary.world(), lease.owner) || LateReleases::any()) [[unlikely]]
    return false;
  lease = {};
  if (counts) mine.count(dictionary, key, HeldKind::lock);
  return true;
}

Code acquire_slowly(Dictionary& dictionary, std::string_view key, const Request& request, Fast fast,
                    Lease& lease) noexcept {
  World& world = dictionary.world();
  const Token self = world.token();
  if (self == kNobody) {
    lease = {};  // may contain the holder
    return Code::system;
  }
  const bool refused = is_refused(dictionary, key, request, fast, lease);
  BlockedBy blocked_by;
  Code code = Code::locked;
  const Contender contender{self, request, nullptr};
  if (refused) {
    if (request.blocks && spin(dictionary, key, contender, lease)) return Code::ok;
  } else {
    code = try_past_the_dead(world, self, blocked_by, [&](const TokenSet& dead) noexcept {
      return attempt(dictionary, key, contender, dead, lease, blocked_by);
    });
  }
  if (code == Code::locked && LateReleases::any() && LateReleases::get().retry())
    return acquire_slowly(dictionary, key, request, Fast::unclear, lease);
  if (code == Code::locked && !request.waits_next) {
    refusals.begin(platform::coarse_monotonic_ns());
    refusals.count(dictionary, key, request.kind);
  }
  return result_of_try(code, blocked_by);
}

Code acquire_wait(Dictionary& dictionary, std::string_view key, const Request& request, const WaitStep& step,
                  Lease& lease) noexcept {
  std::uint64_t waited_from = 0;
  LockSpin spin(request);
  const auto spin_then_queue = [&](Waiter& waiter, const TokenSet& dead, BlockedBy& blocked_by) noexcept {
    const Contender contender{waiter.owner, request, &waiter};
    const bool has_spun = request.blocks && waiter.is_new;  // in acquire_slowly()
    const bool taken = !has_spun && spin.run(dictionary, key, contender, dead, lease, blocked_by);
    const Code code = taken ? Code::ok : attempt(dictionary, key, contender, dead, lease, blocked_by);
    spin.note(code == Code::ok);
    if (!waiter.is_new || spin.waited()) waited_from = waiter.arrival;
    return code;
  };
  const Code code = wait_once(dictionary.world(), step, request, spin_then_queue);
  if (code == Code::ok && waited_from != 0) count_wait(dictionary, key, request.kind, waited_from, false);
  return search_deadlock(step, request, key, code);
}

namespace {

/// The delay before a forked child tries again to enter the world, if another process was entering. No benchmark covers
/// this constant, because children enter before the measurement.
constexpr std::uint64_t kEnterAgainNs = 50 * kNsPerMs;
/// The time for which the gate may be asked on behalf of a caller that does not wait.
constexpr double kAskSeconds = 1;

/// The calling thread as a waiter for one key.
class WaitingThread {
 public:
  WaitingThread(Dictionary& dictionary, std::string_view key)
      : dictionary_(dictionary), key_(key), waiter_(dictionary.world()) {}
  ~WaitingThread() { leave(); }
  WaitingThread(const WaitingThread&) = delete;
  WaitingThread& operator=(const WaitingThread&) = delete;

  Code step(const Request& request, Lease& lease) noexcept {
    const Code code = acquire_wait(dictionary_, key_, request, waiter_.step(), lease);
    queued_ = code == Code::locked || code == Code::timeout || code == Code::deadlock;
    return code;
  }
  /// Calls leave_queue() if the waiter may be in the queue.
  Code leave() noexcept {
    if (!queued_) return Code::ok;
    queued_ = false;
    return leave_queue(dictionary_, key_, waiter_.parker(), waiter_.number());
  }
  /// Sleeps until the next step. REQUIRES: the result was locked or timeout.
  void sleep(std::uint64_t deadline_ns) { waiter_.sleep(deadline_ns); }
  std::vector<std::string> deadlock_keys() { return waiter_.parker().deadlock_keys(waiter_.number()); }

 private:
  Dictionary& dictionary_;
  std::string_view key_;
  BlockingWaiter waiter_;
  bool queued_ = false;
};

/// Returns whether the attempt of a forked child failed only because another process is entering the world.
bool is_held_up_at_the_entrance(World& world, Code code) noexcept {
  return code == Code::system && world.known_token() == kNobody && World::last_failure_code() == Code::busy;
}

bool is_held_here(Dictionary& dictionary, std::string_view key) noexcept {
  HolderCount count;
  return find_holders(dictionary, key, {}, count) == Code::ok && count.holders != 0;
}

/// Returns the code of a wait that did not succeed. If a process of this machine holds the lock, the code is locked,
/// whatever the gate says.
Code code_of_timeout(Dictionary& dictionary, std::string_view key, Code last) {
  double seconds = 0;
  if (last != Code::locked || dictionary.gate() == nullptr ||
      dictionary.gate()->state(dictionary, seconds).code != Code::unavailable)
    return last;
  return seconds == 0 || !is_held_here(dictionary, key) ? Code::unavailable : last;
}

Code wait_until(Dictionary& dictionary, std::string_view key, Request request, std::uint64_t deadline_ns, Lease& lease,
                std::vector<std::string>& cycle) {
  WaitingThread thread(dictionary, key);
  for (std::uint64_t now_ns = platform::monotonic_ns();;) {
    // Other processes see a timeout of 0 for a wait without end.
    request.timeout = deadline_ns == kNever ? 0 : static_cast<double>(deadline_ns - now_ns) / 1e9;
    const Code code = thread.step(request, lease);
    if (code == Code::deadlock) cycle = thread.deadlock_keys();
    // The owner of the gate may hold the lock on behalf of this waiter.
    if (code == Code::locked && request.tries && is_held_here(dictionary, key)) return thread.step(request, lease);
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
Code ask(Dictionary& dictionary, std::string_view key, Request request, Lease& lease) {
  double seconds = 0;
  const Gate* const gate = dictionary.gate();
  if (gate != nullptr && gate->state(dictionary, seconds).code == Code::unavailable && seconds == 0)
    return Code::unavailable;
  request.tries = true;
  request.holds = HoldsLocks::nothing;  // the task does not wait for the lock
  std::vector<std::string> none;
  const Code code = wait_until(dictionary, key, request, deadline_of(kAskSeconds), lease, none);
  return code == Code::locked && !is_held_here(dictionary, key) ? Code::unavailable : code;
}

}  // namespace

Code go_on_blocking(Dictionary& dictionary, std::string_view key, const Request& request, double timeout, Code code,
                    Lease& lease, std::vector<std::string>& cycle) {
  const bool may_wait =
      code == Code::locked || code == Code::timeout || code == Code::elsewhere || code == Code::system;
  if (!may_wait || (timeout <= 0 && code != Code::elsewhere)) return code;
  if (timeout <= 0) return ask(dictionary, key, request, lease);
  return wait_until(dictionary, key, request, deadline_of(timeout), lease, cycle);
}

}  // namespace holdfast
