#include "lock/lock_end.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>

#include "base/name.h"
#include "cli/output.h"

namespace holdfast::cli {

namespace {

/// How often to check the session.
constexpr double kCheckSeconds = 0.2;
/// The time that processes need to end after KILL, before the session ends.
constexpr double kKillSeconds = 0.2;
/// An agent renews a session when a third of the session's time has passed. Half of the remaining time may be used as
/// the grace period. So a short failure of the agent or the store does not end a job.
constexpr double kShareOfSession = 1.0 / 3;

}  // namespace

LockEnd::LockEnd(const LockOptions& options, const Grant& grant, holdfast_dict* dict)
    : options_(options),
      lease_(grant.lease),
      dict_(grant.in_cluster ? dict : nullptr),
      end_(options.exptime > 0 ? grant.time + options.exptime : std::numeric_limits<double>::infinity()) {
  holdfast_cluster state{};
  if (dict_ != nullptr) holdfast_cluster_state(dict_, &state);
  epoch_ = state.epoch;
}

double LockEnd::next(double now) const {
  const double soon = now + kCheckSeconds;
  if (now >= end_) return soon;
  return dict_ != nullptr ? std::min(end_, soon) : end_;
}

std::optional<LockEnd::Ending> LockEnd::due(double now) {
  const double grace = options_.grace();
  if (now >= end_)
    return Ending{fmt::format("the exptime of {} ({:g} s) has passed", quote_key(options_.key), options_.exptime),
                  grace, end_ + grace};
  return dict_ != nullptr ? end_of_session(now) : std::nullopt;
}

std::optional<LockEnd::Ending> LockEnd::end_of_session(double now) {
  holdfast_cluster state{};
  const int code = holdfast_cluster_state(dict_, &state);
  const bool removed = code == HOLDFAST_REMOVED;
  if (!removed && code != HOLDFAST_OK && code != HOLDFAST_UNAVAILABLE) return std::nullopt;
  longest_ = std::max(longest_, state.seconds);
  const bool lost = removed || state.seconds == 0 || (epoch_ != 0 && state.epoch != epoch_) || is_taken_away();
  const double grace = std::min(options_.grace(), kShareOfSession * longest_);
  if (!lost && state.seconds > grace + kKillSeconds) return std::nullopt;
  if (lost)
    return Ending{fmt::format("{} was lost", quote_key(options_.key)), options_.grace(), now + options_.grace(), true};
  const double left = std::max(state.seconds - kKillSeconds, 0.0);
  return Ending{
      fmt::format("{} is about to be lost: this machine's session with the store of cluster {} was not renewed{}",
                  quote_key(options_.key), quote(static_cast<const char*>(state.name)),
                  code == HOLDFAST_OK ? "" : fmt::format(" ({})", holdfast_error())),
      static_cast<double>(static_cast<std::int64_t>(left * 10)) / 10, now + left};
}

bool LockEnd::is_taken_away() const {
  holdfast_holder holder{};
  std::uint32_t holders = 0;
  std::uint32_t waiters = 0;
  const std::string& key = options_.key;
  const int code =
      holdfast_look(dict_, key.data(), key.size(), &holder, 1, &holders, nullptr, sizeof(holdfast_waiter), 0, &waiters);
  const bool is_ours = holders > 0 && holder.owner == lease_.owner && holder.sequence == lease_.sequence;
  return (code == HOLDFAST_OK && !is_ours) || code == HOLDFAST_NOT_FOUND;
}

}  // namespace holdfast::cli
