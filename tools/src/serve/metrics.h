// The metrics, with the families of lua/resty/holdfast/prometheus.lua and its labels: one dashboard serves both.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "holdfast.h"
#include "serve/view.h"

namespace holdfast::serve {

enum class MetricsFormat { prometheus, openmetrics };

/// `keys`: of each dictionary so many with the most contention.
std::string metrics_of(const View& view, std::uint32_t keys, MetricsFormat format);

/// As far as it was kept.
inline std::string key_of(const holdfast_contended& contended) {
  const auto kept = std::min<std::size_t>(contended.key_length, sizeof contended.key);
  return {static_cast<const char*>(contended.key), kept};
}

}  // namespace holdfast::serve
