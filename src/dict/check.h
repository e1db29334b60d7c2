// Checks whether a dictionary is intact, for people. Takes no mutex and changes nothing.
//
// It copies a shard into private memory, and audits the copy (dict/repair.h). While others change the shard, a copy may
// be torn. So a fault counts only if nothing that the audit reads has changed during the copy: the mutex was free
// before and after, and the header is the same. Each change of the structure changes a count in the header.
#pragma once

#include "base/status.h"
#include "dict/dictionary.h"
#include "holdfast.h"

namespace holdfast {

/// Returns ok, removed or no_memory, and counts the shards. Takes about a millisecond for each shard, and 1/20 s for a
/// busy one.
Code check(Dictionary& dictionary, holdfast_health& health);

}  // namespace holdfast
