// Several locks for one command: `holdfast lock KEY --also KEY ... COMMAND`.
//
// Each lock has its own `holdfast lock` process. The first process takes its lock and executes the second `holdfast
// lock` instead of the command, and so on; the last process runs the command. So every lock has a guard, and the end of
// one lock ends the whole job. The locks are taken in the order of their keys, as resty_lock:all() does, so that such
// commands cannot deadlock.
#pragma once

#include <string>
#include <vector>

#include "lock/lock_options.h"

namespace holdfast::cli {

/// Removes duplicate keys, and moves the smallest key to `key` and the others to `also`, in order.
void put_keys_in_order(LockOptions& options);

/// Returns the words to execute while the lock is held: the command, or another `holdfast lock` if there are more keys.
/// That `holdfast lock` must not wait longer than `options.timeout` after `options.start`.
std::vector<std::string> words_under_lock(const LockOptions& options);

}  // namespace holdfast::cli
