// Actions of a test's process at a failpoint (base/failpoint.h).
#pragma once

#include <functional>
#include <string>

#include "support/process.h"

namespace holdfast::test {

/// The next time that this process reaches the failpoint, it runs `action` there, once.
void at_failpoint(const std::string& name, std::function<void()> action);

/// The next time that this process reaches the failpoint, it says "at NAME" and waits for a line.
void pause_at(const std::string& name, Channel& channel);

}  // namespace holdfast::test
