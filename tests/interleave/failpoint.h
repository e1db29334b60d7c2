// Makes a test process run code, or pause, at a failpoint (base/failpoint.h).
#pragma once

#include <functional>
#include <string>

#include "support/process.h"

namespace holdfast::test {

/// Runs `action` once, when this process next reaches the failpoint.
void at_failpoint(const std::string& name, std::function<void()> action);

/// Holds this process when it next reaches the failpoint: the process reports "at NAME" and waits for a line.
void pause_at(const std::string& name, Channel& channel);

}  // namespace holdfast::test
