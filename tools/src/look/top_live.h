// The loop of `holdfast top` on a terminal: looks, draws, keys and signals, one after the other in one thread.
#pragma once

#include <string>
#include <vector>

#include "look/top_view.h"

namespace holdfast::cli {

/// Until it is quit. The exit status; after TERM, HUP and QUIT the process ends by that signal instead.
int run_top_live(TopView& view, const std::string& directory, const std::vector<std::string>& names, bool colours);

}  // namespace holdfast::cli
