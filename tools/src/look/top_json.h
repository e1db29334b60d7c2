// What `holdfast top --batch --json` prints: one look at a world as an object.
#pragma once

#include "inspect/json.h"
#include "look/top_view.h"

namespace holdfast::cli {

/// Rows are those of the tables, in their order.
inspect::Json to_json(const TopView& view);

}  // namespace holdfast::cli
