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

/// A histogram with fewer buckets: the number of values up to each bound in seconds, and the number and sum of all
/// values.
struct Folded {
  std::vector<std::pair<double, std::uint64_t>> within;
  std::uint64_t count = 0;
  double sum = 0;
};

class Metrics {
 public:
  void add(const std::string& family, const Labels& labels, double value);
  void add(const std::string& family, const Labels& labels, Folded value);
  /// Returns the text of the families, in the order of `families`. Omits families without samples.
  std::string text(const std::vector<Family>& families, MetricsFormat format) const;

 private:
  // The values of each family, indexed and sorted by the text of their labels.
  std::map<std::string, std::map<std::string, double>> numbers_;
  std::map<std::string, std::map<std::string, Folded>> histograms_;
};

}  // namespace holdfast::serve
