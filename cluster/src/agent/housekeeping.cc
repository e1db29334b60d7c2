#include "agent/housekeeping.h"

#include <algorithm>
#include <utility>

namespace holdfast::agent {

namespace {

/// The intervals of checks and of comparisons with the store. The benchmark "processor of an idle agent" measures their
/// cost.
constexpr Milliseconds kStep = 1000;
constexpr Milliseconds kOften = 5000;
constexpr Milliseconds kSeldom = 60'000;
/// After this number of grants without a notification, the notification key counts as dead. A few lost notifications
/// are normal, because each election in the store loses some.
constexpr std::uint64_t kUnheard = 10;

std::uint64_t grants(const LockCounters& counters) {
  return counters.granted_by_answer + counters.granted_by_bell + counters.granted_by_look;
}

}  // namespace

Housekeeping::Housekeeping(Store& store, Machine& machine, Locks& locks, const Clock& clock,
                           std::function<void(const std::string&)> warn)
    : store_(store), machine_(machine), locks_(locks), clock_(clock), warn_(std::move(warn)) {}

void Housekeeping::step() {
  const Milliseconds now = clock_.boot_ms();
  if (now < next_) return;
  next_ = now + kStep;
  if (next_bell_ == 0) next_bell_ = now + kSeldom;
  if (now >= next_bell_) look_at_bell();
  const LockCounters& counters = locks_.counters();
  if (counters.unsure != compared_.unsure) {
    compared_.unsure = counters.unsure;
    unsure_until_ = now + kSeldom;
    next_compare_ = std::min(next_compare_, now + kOften);
  }
  if (now >= next_compare_ && !comparing_) compare();
}

void Housekeeping::compare() {
  const Milliseconds now = clock_.boot_ms();
  const LockCounters& counters = locks_.counters();
  next_compare_ = now + (now < unsure_until_ ? kOften : kSeldom);
  const Session session = machine_.session();
  if (session.lost || (now >= unsure_until_ && grants(counters) == grants(compared_))) return;
  compared_ = counters;
  comparing_ = true;
  store_.keys_of(session.lease, [this, lease = session.lease](const LeaseAnswer& found) {
    comparing_ = false;
    const Session current = machine_.session();
    if (found.answer.outcome == Outcome::answered && !current.lost && current.lease == lease)
      locks_.compare(found.keys);
  });
}

void Housekeeping::look_at_bell() {
  next_bell_ = clock_.boot_ms() + kSeldom;
  const LockCounters& counters = locks_.counters();
  const std::uint64_t unheard = counters.granted_by_look - heard_.granted_by_look;
  const std::uint64_t heard = counters.granted_by_bell - heard_.granted_by_bell;
  heard_ = counters;
  if (unheard < kUnheard || unheard < heard) return;
  ++dead_bells_;
  warn_("notifications are not arriving: " + std::to_string(unheard) + " of " + std::to_string(unheard + heard) +
        " grants within a minute were found only by polling, up to a second late");
}

}  // namespace holdfast::agent
