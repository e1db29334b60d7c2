// Checks whether a dictionary is intact, and reports the result. The check takes no mutex and changes nothing.
//
// It copies each shard into private memory, and audits the copy (dict/repair.h). A copy may be torn while other
// processes change the shard. So a fault counts only if nothing that the audit reads changed during the copy. Nothing
// changed if the mutex was free before and after the copy, and the header is the same, because each change of the
// structure changes a count in the header.
#pragma once

#include "base/status.h"
#include "dict/dictionary.h"
#include "holdfast.h"

namespace holdfast {

/// Counts the shards by their state. Returns ok, removed or no_memory. Takes about a millisecond for each shard, or 50
/// ms for a busy shard.
Code check(Dictionary& dictionary, holdfast_health& health);

}  // namespace holdfast
