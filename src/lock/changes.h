// Waits until a key has changed (dict/versions.h). The waiter is not in a queue. Instead, a process that changes the
// key posts to the waiter's process.
#pragma once

#include <string_view>

#include "base/status.h"
#include "dict/dictionary.h"
#include "lock/wait_step.h"

namespace holdfast {

/// Takes one step of a wait. Returns ok, with the new version, if the key's version is no longer `version.number`. If
/// `version.deaths` is set, the second step always returns ok, because a process may have died since the first step.
/// After unchanged, sleep for at most `sleep` seconds, then call again, or end the wait with Parker::end(). The other
/// codes end the wait: unsupported (the dictionary has no versions), removed, no_memory, system, or invalid (there is
/// no such waiter).
Code watch_changes(Dictionary& dictionary, std::string_view key, const WaitStep& step, Version& version) noexcept;

/// Waits in the same way, and blocks the calling thread for up to `timeout` seconds. A timeout of more than kLongest
/// has no limit. Throws std::bad_alloc, and std::runtime_error if the process has too many waiters.
Code wait_for_change(Dictionary& dictionary, std::string_view key, double timeout, Version& version);

}  // namespace holdfast
