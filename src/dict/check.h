// Whether a dictionary is in order, for people: a look at each shard that takes no mutex and changes nothing.
//
// A shard is copied into private memory, and the copy is audited (dict/repair.h). While others change the shard, a copy
// may be torn, so a fault counts only in one during which nothing was changed that the audit looks at: the mutex was
// free before and after, and the header is the same. Each change of the structure changes a count there.
#pragma once

#include "base/status.h"
#include "dict/dictionary.h"
#include "holdfast.h"

namespace holdfast {

/// Counts the shards. ok, removed, no_memory. Takes about a millisecond for each shard, and a twentieth of a second for
/// one that is busy.
Code check(Dictionary& dictionary, holdfast_health& health);

}  // namespace holdfast
