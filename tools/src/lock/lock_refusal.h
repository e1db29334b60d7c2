// Describes the holders of a lock, for the messages of `holdfast lock`.
#pragma once

#include <string>
#include <vector>

#include "cli/output.h"
#include "cluster/question.h"
#include "holdfast.h"
#include "lock/lock_options.h"

namespace holdfast::cli {

/// Returns a text such as "\"nightly\" has been held by pid 4711 (backup.sh) for 3 min: \"weekly full\"", without the
/// parts that are unknown. The key and the reason may be elided. Skips the holder with the lease `own`.
std::vector<Part> refusal(holdfast_dict* dict, const LockOptions& options, const holdfast_lease* own = nullptr);
/// Returns the quoted key as a part of a line.
Part key_part(const LockOptions& options);

/// Returns such a text for a holder on another machine of the cluster, from the agent's answer to HOLDFAST_ASK_HOLDER.
/// Returns an empty string if the holder is unknown.
std::string refusal_elsewhere(const LockOptions& options, const Answer& answer);

}  // namespace holdfast::cli
