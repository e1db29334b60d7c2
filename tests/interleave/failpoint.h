// Actions of a test's process at a failpoint (base/failpoint.h).
#pragma once

#include <functional>
#include <string>

#include "support/process.h"

namespace holdfast::test {

/// Runs `action` once, the next time that this process reaches the failpoint.
void at_failpoint(const std::string& name, std::function<void()> action);

/// Says "at NAME" and waits for a line, the next time that this process reaches the failpoint.
void pause_at(const std::string& name, Channel& channel);

}  // namespace holdfast::test
