// What ps(1) shows of this process.
#pragma once

#include <string>

namespace holdfast::cli {

/// Has the environment moved away from behind the command line, where a title needs its room. Afterwards `values` are
/// not to be read any more. To be called once, before there are threads.
void make_room_for_title(int count, char** values) noexcept;

/// Shows it instead of the command line, as much of it as there is room for. Each process has its own, also after fork.
void set_title(const std::string& title) noexcept;

}  // namespace holdfast::cli
