// The gate of dictionaries that belong to a cluster. A lock may be granted as long as it stands in the session
// (gate/cluster_lock.h).
#include "dict/gate.h"

#include <algorithm>

#include "base/name.h"
#include "gate/cluster_lock.h"
#include "gate/cluster_state.h"
#include "gate/session.h"
#include "platform/platform.h"

namespace holdfast {

namespace {

bool may_grant(const Segment& segment, const GateFields& fields) noexcept {
  const StandingFields& standing = standing_fields(fields);
  return stands_in(standing, Session(segment).now()) && standing.grants.load(kRelaxed) < kGrantsMax;
}

double seconds_left(const Segment& segment, const GateFields& fields) noexcept {
  const SessionWord session = Session(segment).now();
  if (!stands_in(standing_fields(fields), session)) return 0;
  return static_cast<double>(std::max(session.deadline_ms(), boottime_ms() + 1) - boottime_ms()) / 1e3;
}

// Returns the token of the next grant. If a crash prevents the grant, nobody gets this token.
std::uint64_t next_number(GateFields& fields) noexcept {
  StandingFields& standing = standing_fields(fields);
  const std::uint32_t grants = standing.grants.load(kRelaxed) + 1;
  standing.grants.store(grants, kRelaxed);
  crash_order();
  return standing.base.load(kRelaxed) + grants;
}

// Returns why a waiter is refused. Ignores a time in the future, which was overwritten or comes from before a reboot.
Code refusal(const GateFields& fields, std::uint64_t arrival_ns) noexcept {
  const StandingFields& standing = standing_fields(fields);
  const std::uint64_t refused_ns = standing.refused_ns.load(kRelaxed);
  if (refused_ns <= arrival_ns || refused_ns > platform::monotonic_ns()) return Code::ok;
  const auto code = static_cast<Code>(standing.refusal.load(kRelaxed));
  return code == Code::unavailable || code == Code::unsupported ? code : Code::elsewhere;
}

void want(const Segment& segment, std::uint64_t hash) noexcept { Session(segment).want(segment.world(), hash); }

Status state(Dictionary& dictionary, double& seconds) {
  ClusterState found;
  Status status = find_cluster_state(dictionary, found);
  seconds = found.seconds;
  if (status.ok()) status.message = "the agent of cluster " + quote_name(found.name) + " got no answer from the store";
  return status;
}

bool is_seen_to_count(const Segment& segment, const GateFields& fields, std::uint64_t& revision) noexcept {
  const StandingFields& standing = standing_fields(fields);
  revision = standing.base.load(kRelaxed) >> kGrantBits;
  return stands_in(standing, Session(segment).seen());
}

// Forgets the lease, because its agent belonged to another world, perhaps before a reboot of this machine.
void forget(const Segment& segment) noexcept {
  const SessionWord last{cluster_fields(segment.header()).word.load(kRelaxed)};
  Session(segment).lose(last.epoch());
}

constexpr Gate kClusterGate{&may_grant, &seconds_left, &next_number,      &refusal,
                            &want,      &state,        &is_seen_to_count, &forget};

}  // namespace

const Gate* cluster_gate() noexcept { return &kClusterGate; }

}  // namespace holdfast
