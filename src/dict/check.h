// Whether a dictionary is in order, for people: a look at each shard that takes no mutex and changes nothing.
//
// A shard is copied into private memory, and the copy is audited (dict/audit.h). While others change the shard, a copy
// may be torn, so a fault counts only in one during which nothing was changed that the audit looks at: the mutex was
// free before and after, and the header is the same. Each change of the structure changes a count there.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "base/token.h"
#include "dict/dictionary.h"

namespace holdfast {

/// Counts of shards.
struct Health {
  std::uint32_t used = 0;       // that were ever used
  std::uint32_t damaged = 0;    // that contradict themselves
  std::uint32_t uncertain = 0;  // that were changed during each look
  // Of those, mutexes that were held during each look:
  std::uint32_t held = 0;          // by a process that is inside
  std::uint32_t held_by_dead = 0;  // by a dead one: the next change of the shard repairs it
  std::uint32_t held_by_idle = 0;  // by one that is not inside, so the word was overwritten: as by a dead one
  Token holder = kNobody;          // one of these processes
};

/// ok, removed, no_memory. Takes about a millisecond for each shard, and a twentieth of a second for one that is busy.
Code check(Dictionary& dictionary, Health& health);

}  // namespace holdfast
