// The output of `holdfast top --batch --json`, which is one object for each refresh.
#pragma once

#include "inspect/json.h"
#include "look/top_view.h"

namespace holdfast::cli {

/// Converts the rows of both tables, in the order in which the tables show them.
inspect::Json to_json(const TopView& view);

}  // namespace holdfast::cli
