// Describes the holders of a lock, for the messages of `holdfast lock`.
#pragma once

#include <string>

#include "cluster/question.h"
#include "holdfast.h"
#include "lock/lock_options.h"

namespace holdfast::cli {

/// Returns "\"nightly\" has been held by pid 4711 (backup.sh) for 3 min: \"weekly full\"", without parts that are
/// unknown. The holder that has the lease `own` is not in the way.
std::string refusal(holdfast_dict* dict, const LockOptions& options, const holdfast_lease* own = nullptr);

/// Returns the same for a holder on another machine of the cluster, from the agent's answer to HOLDFAST_ASK_HOLDER;
/// empty: unknown.
std::string refusal_elsewhere(const LockOptions& options, const Answer& answer);

}  // namespace holdfast::cli
