// The quiet way: takes and releases a lock by one compare-and-swap, without the mutex of the shard. dict/lock_word.h
// has the rules.
//
// All calls give up whenever there is anything to consider: the lock is held, somebody waits, the key has no lock yet,
// the memory of the shard changed meanwhile. Then nothing has changed, and the way through the mutex decides.
#pragma once

#include <string_view>

#include "base/token.h"
#include "dict/dictionary.h"
#include "lock/lease.h"

namespace holdfast {

enum class Quiet {
  taken,
  held,  // for certain: by a process that lives, as the kernel is asked, and has not expired
  unclear,
};

/// Takes the lock if it is free and nobody waits. `self`: this process's token.
Quiet lock_quietly(Dictionary& dictionary, std::string_view key, Token self, double exptime, std::uint32_t holder_task,
                   Lease& lease) noexcept;

/// As lock_quietly(), but looks again and again for the end of a grant of another process, for about `pauses` of the
/// processor; some more where that may be worth it. Gives up at once if anybody waits. Sets `refused` if it was held at
/// one of the looks.
bool spin_quietly(Dictionary& dictionary, std::string_view key, Token self, const Request& request, int pauses,
                  Lease& lease, bool& refused) noexcept;

bool is_held_for_certain(Dictionary& dictionary, std::string_view key) noexcept;

/// Releases the lease if nobody waits. REQUIRES: it is of this process.
bool unlock_quietly(Dictionary& dictionary, std::string_view key, const Lease& lease) noexcept;

}  // namespace holdfast
