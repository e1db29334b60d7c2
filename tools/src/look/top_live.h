// The loop of `holdfast top` on a terminal: reads the world, draws, and handles keys and signals, all in one thread.
#pragma once

#include <functional>

#include "base/status.h"
#include "inspect/snapshot.h"
#include "look/top_view.h"

namespace holdfast::cli {

using TakeSnapshot = std::function<Expected<inspect::Snapshot>()>;

/// Runs until the user quits. Returns the exit status. After TERM, HUP or QUIT, the process is terminated by that
/// signal instead.
int run_top_live(TopView& view, const TakeSnapshot& take, bool colours);

}  // namespace holdfast::cli
