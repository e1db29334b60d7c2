// Makes the metrics. They have the same families and labels as the metrics from lua/resty/holdfast/prometheus.lua, so
// that one dashboard works for both.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "holdfast.h"
#include "serve/view.h"

namespace holdfast::serve {

enum class MetricsFormat { prometheus, openmetrics };

/// `keys`: how many of each dictionary's most contended keys to include metrics for.
std::string metrics_of(const View& view, std::uint32_t keys, MetricsFormat format);

/// Returns the recorded beginning of the key.
inline std::string key_of(const holdfast_contended& contended) {
  const auto kept = std::min<std::size_t>(contended.key_length, sizeof contended.key);
  return {static_cast<const char*>(contended.key), kept};
}

}  // namespace holdfast::serve
