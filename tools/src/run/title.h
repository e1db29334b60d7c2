// Sets what ps(1) shows for this process.
#pragma once

#include <string>

namespace holdfast::cli {

/// Moves the environment, which follows the command line in memory, to make room for a title. Do not read `values`
/// afterwards. Call this once, before any thread is created.
void make_room_for_title(int count, char** values) noexcept;

/// Shows the title instead of the command line, truncated to the available room. Each process has its own title, even
/// after fork.
void set_title(const std::string& title) noexcept;

}  // namespace holdfast::cli
