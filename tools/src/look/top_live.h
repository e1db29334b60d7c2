// The loop of `holdfast top` on a terminal. It reads the world, draws, and handles keys and signals, all in one thread.
#pragma once

#include <functional>

#include "base/status.h"
#include "inspect/snapshot.h"
#include "look/top_view.h"

namespace holdfast::cli {

using TakeSnapshot = std::function<Expected<inspect::Snapshot>()>;

/// Runs until the user quits. Returns the exit status. If TERM, HUP or QUIT ends the loop, does not return but ends the
/// process by this signal.
int run_top_live(TopView& view, const TakeSnapshot& take, bool colours);

}  // namespace holdfast::cli
