// What `holdfast lock` says of those that have the lock.
#pragma once

#include <string>

#include "cluster/question.h"
#include "holdfast.h"
#include "lock/lock_options.h"

namespace holdfast::cli {

/// "\"nightly\" is held by pid 4711 (backup.sh) for 3 min: \"weekly full\"", as far as it is known.
std::string refusal(holdfast_dict* dict, const LockOptions& options);

/// The same of another machine of the cluster: what the agent has answered to HOLDFAST_ASK_HOLDER; empty: nothing.
std::string refusal_elsewhere(const LockOptions& options, const Answer& answer);

}  // namespace holdfast::cli
