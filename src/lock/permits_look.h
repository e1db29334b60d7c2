// A look at all holders of permits, where there are many: each attempt that is refused would take too long.
//
// With many holders an attempt names only some of them. When a look is due (PermitsEntry::claim_look), one attempt of
// all processes looks at all holders, a part at a time; the mutex is released in between. It takes out the records that
// do not count and finds the owners to ask the kernel about. So a holder that has died, or a lease that has ended, is
// found by the attempts that miss its permits: with n holders an end is found up to n / 1024 ms late, a death up to n /
// 64 ms late, both at most 1 s, plus the time until the next attempt.
#pragma once

#include <string_view>

#include "base/token_set.h"
#include "dict/dictionary.h"
#include "lock/wait_step.h"

namespace holdfast {

/// Looks at all holders of the key; `dead`: owners that were found dead. Names the owners of others in `blocked_by`, at
/// another place each time if there are too many. Returns whether it took out any record. REQUIRES: the caller has
/// claimed the look; it does not hold the shard's mutex.
bool look_at_many(Dictionary& dictionary, std::string_view key, const TokenSet& dead, BlockedBy& blocked_by) noexcept;

}  // namespace holdfast
