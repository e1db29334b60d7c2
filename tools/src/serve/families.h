// Writes families of metrics as text for Prometheus and OpenMetrics.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "serve/metrics.h"

namespace holdfast::serve {

struct Family {
  const char* name;
  const char* type;  // "gauge", "counter", "histogram"
  const char* help;
};

/// Labels with their values.
using Labels = std::vector<std::pair<const char*, std::string>>;

/// The number of values up to each bound in seconds, and the total.
struct Folded {
  std::vector<std::pair<double, std::uint64_t>> within;
  std::uint64_t count = 0;
  double sum = 0;
};

class Metrics {
 public:
  void add(const std::string& family, const Labels& labels, double value);
  void add(const std::string& family, const Labels& labels, Folded value);
  /// Returns the text of the families in this order. Omits families without samples.
  std::string text(const std::vector<Family>& families, MetricsFormat format) const;

 private:
  // By the text of the labels, which also determines their order.
  std::map<std::string, std::map<std::string, double>> numbers_;
  std::map<std::string, std::map<std::string, Folded>> histograms_;
};

}  // namespace holdfast::serve
