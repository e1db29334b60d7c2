#include "lock/child.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <optional>

#include "inspect/proc.h"
#include "lock/job.h"
#include "lock/lock_hold.h"
#include "lock/lock_taker.h"

namespace holdfast::cli {

namespace {

/// How often a child that waits for its parent checks whether the parent is stopped.
constexpr int kLookAtParentMs = 50;

bool is_parent_stopped() {
  const auto stat = inspect::read_stat(static_cast<std::uint32_t>(::getppid()));
  return stat && stat->is_stopped();
}

/// The parent acknowledges each hold that it receives, once the guard runs that will end the hold even if the parent
/// dies.
enum class Answer { guarded, stopped, gone };

Answer await_answer(int channel, int look_ms) {
  pollfd answer{channel, POLLIN, 0};
  while (::poll(&answer, 1, look_ms) <= 0)
    if (look_ms >= 0 && is_parent_stopped()) return Answer::stopped;
  char word = 0;
  return ::recv(channel, &word, 1, 0) == 1 ? Answer::guarded : Answer::gone;
}

/// Takes the lock, and waits until it is guarded. A stopped parent starts no guard, possibly for a long time; so others
/// get the lock in the meantime. Returns nothing if the lock is held and guarded, otherwise the exit status.
std::optional<int> take_guarded(LockTaker& taker, int channel) {
  for (;;) {
    if (const auto status = taker.take()) return status;
    if (!taker.is_visible()) return std::nullopt;  // the kernel ends its flock(2)
    send_hold(channel, taker.grant(), taker.hold());
    begin_job();  // while the parent starts the guard
    Answer answer = await_answer(channel, kLookAtParentMs);
    if (answer == Answer::guarded) return std::nullopt;
    if (answer == Answer::stopped) {
      send_given_back(channel);
      taker.give_back();
      answer = await_answer(channel, -1);
    }
    if (answer == Answer::gone) return lock_status::kSystem;  // its hold ends with this process
  }
}

}  // namespace

int take_and_become(const LockOptions& options, int channel) {
  LockTaker taker(options, channel >= 0 ? std::function<void()>([channel] { send_waits(channel); }) : nullptr);
  const auto refused = channel >= 0 ? take_guarded(taker, channel) : taker.take();
  if (refused) return *refused;
  int status = channel >= 0 ? taker.confirm() : 0;
  if (status == 0) status = taker.become_command();
  // The child has given the lock back itself; the parent must not take this for a loss.
  if (channel >= 0) send_given_back(channel);
  return status;
}

}  // namespace holdfast::cli
