// The process that ends a hold when the command has ended, whatever became of all others. Where its parent lives, it
// leaves that to the parent for a second.
#pragma once

#include <sys/types.h>

#include <string>

namespace holdfast::cli {

/// Starts the guard of a child that holds by the descriptor `hold`, and gives its process id. Nothing is wrong without
/// one (0): then only the caller and the command are left to end the hold. REQUIRES: the child is not reaped yet.
pid_t start_guard(pid_t child, int hold, const std::string& key);

/// Whether the guard has come before its parent.
bool has_ended_hold(pid_t guard);

/// For the parent that has ended the hold itself. Leaves no zombie to a parent that does not reap.
void end_guard(pid_t guard);

}  // namespace holdfast::cli
