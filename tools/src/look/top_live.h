// The loop of `holdfast top` on a terminal: reads the world, draws, and handles keys and signals, all in one thread.
#pragma once

#include <string>
#include <vector>

#include "look/top_view.h"

namespace holdfast::cli {

/// Runs until the user quits. Returns the exit status. After TERM, HUP or QUIT, the process is terminated by that
/// signal instead.
int run_top_live(TopView& view, const std::string& directory, const std::vector<std::string>& names, bool colours);

}  // namespace holdfast::cli
