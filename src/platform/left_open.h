// Descriptors that a host may close behind our back, at their end: the number may belong to another file by then.
#pragma once

#include "platform/platform.h"

namespace holdfast::platform {

/// Closes the descriptor if it is of that file. If the kernel does not say, the next close_what_is_left() asks again.
/// Nothing to do for -1. Keeps errno.
void close_if_file(int fd, const FileId& id) noexcept;
/// Runs before each try for a record lock.
void close_what_is_left() noexcept;

}  // namespace holdfast::platform
