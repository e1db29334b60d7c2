// The late releases of this process.
#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

#include "base/failpoint.h"
#include "lock/release.h"
#include "lock/wait_step.h"
#include "platform/platform.h"
#include "world/world.h"

namespace holdfast {

namespace {

/// The pause between two rounds in which a release was refused. Most of the time in a round is spent waiting for the
/// mutex. No benchmark covers this constant, because only late_release_test.cc stops a process.
constexpr std::uint64_t kBetweenRoundsNs = 10 * kNsPerMs;

// Set while this thread is inside a call, so that a signal handler that interrupts the call does not wait for its own
// thread.
constinit thread_local bool is_inside{false};
static_assert(std::is_trivially_destructible_v<decltype(is_inside)>);

// Returns whether the release is over. A process that has lost its identity can no longer give anything back.
bool is_over(World& world, Code code) noexcept {
  return code == Code::ok || code == Code::not_owner || code == Code::removed || world.lost();
}

}  // namespace

LateReleases& LateReleases::get() noexcept {
  alignas(LateReleases) static std::byte storage[sizeof(LateReleases)];
  static auto* const releases = new (storage) LateReleases;
  return *releases;
}

// Create the object when the library is loaded. Otherwise, a child that is forked while another thread creates the
// object would wait forever for that thread.
[[maybe_unused]] const bool kLateReleasesMade = (LateReleases::get(), true);

// Runs change() on the list. Returns false if this thread is already inside a call.
template <class Change>
bool LateReleases::change_list(Change&& change) noexcept {
  if (std::exchange(is_inside, true)) return false;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  {
    const platform::LongMutex::Hold lock(mutex_);
    const platform::ForkGuard no_fork;  // a child must not find a half-changed list
    change();
    count.store(pending_.size(), kRelaxed);
  }
  std::atomic_signal_fence(std::memory_order_seq_cst);
  is_inside = false;
  return true;
}

bool LateReleases::add(Dictionary& dictionary, std::string_view key, const Lease& lease) noexcept {
  std::list<Pending> one;
  try {
    one.push_back({dictionary, std::string(key), lease});
  } catch (...) {
    return false;
  }
  return change_list([&] {
    pending_.splice(pending_.end(), one);
    see_to_thread();
  });
}

// Starts the thread if necessary. REQUIRES: change_list() runs this function, and a release is pending.
void LateReleases::see_to_thread() noexcept {
  const Token self = pending_.front().dictionary.world().known_token();
  if (thread_of_ != self && platform::start_thread(&run, this) == 0) thread_of_ = self;
}

// Tries to release each lease once. Takes all leases out of the list first, so that no two threads try the same lease.
bool LateReleases::run_round(std::uint64_t patience_ns) noexcept {
  std::list<Pending> mine;
  if (!change_list([&] { mine.swap(pending_); })) return false;
  if (!mine.empty()) HOLDFAST_FAILPOINT("late_release.taken");
  bool any_over = false;
  for (auto at = mine.begin(); at != mine.end();) {
    const Code code = unlock_slowly(at->dictionary, at->key, at->lease, patience_ns);
    const bool over = is_over(at->dictionary.world(), code);
    any_over = any_over || over;
    at = over ? mine.erase(at) : std::next(at);
  }
  if (mine.empty()) return any_over;
  // The thread may have found the list empty in the meantime, and ended.
  change_list([&] {
    pending_.splice(pending_.begin(), mine);
    see_to_thread();
  });
  return any_over;
}

bool LateReleases::is_done() noexcept {
  bool done = false;
  change_list([&] {
    done = pending_.empty();
    if (done) thread_of_ = kNobody;
  });
  return done;
}

void* LateReleases::run(void* argument) noexcept {
  auto& releases = *static_cast<LateReleases*>(argument);
  platform::name_this_thread("holdfast-unlock");
  HOLDFAST_FAILPOINT("late_release.thread");
  for (;;) {
    releases.run_round(kAttemptPatienceNs);
    if (releases.is_done()) break;
    platform::sleep_until(platform::monotonic_ns() + kBetweenRoundsNs);
  }
  platform::background_thread_ends();
  return nullptr;
}

}  // namespace holdfast
