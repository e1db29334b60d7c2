#include "serve/families.h"

#include <fmt/format.h>

#include <cmath>
#include <string_view>

namespace holdfast::serve {

namespace {

constexpr std::string_view kTotal = "_total";

/// Returns the text of a label. Keys and names may contain any bytes, but labels must be UTF-8, so '%' and non-ASCII
/// bytes become %XX.
std::string label_value(std::string_view text) {
  std::string value;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n')
      value += "\\n";
    else if (c == '\\' || c == '"')
      value += {'\\', c};
    else if (byte < ' ' || byte > '~' || c == '%')
      value += fmt::format("%{:02X}", byte);
    else
      value += c;
  }
  return value;
}

std::string in_text(const Labels& labels) {
  std::string text;
  for (const auto& [name, value] : labels)
    text += fmt::format(R"({}{}="{}")", text.empty() ? "" : ",", name, label_value(value));
  return text;
}

std::string number(double value) {
  constexpr double kExact = 9007199254740992.0;
  return value == std::floor(value) && value < kExact ? fmt::format("{:.0f}", value) : fmt::format("{:.9g}", value);
}

std::string sample(const std::string& name, const std::string& labels, double value) {
  return fmt::format("{}{} {}\n", name, labels.empty() ? "" : "{" + labels + "}", number(value));
}

std::string histogram(const std::string& name, const std::string& labels, const Folded& value) {
  const auto count = static_cast<double>(value.count);
  std::string text;
  for (const auto& [bound, within] : value.within)
    text += sample(name + "_bucket", fmt::format(R"({},le="{:.9g}")", labels, bound), static_cast<double>(within));
  return text + sample(name + "_bucket", labels + R"(,le="+Inf")", count) + sample(name + "_sum", labels, value.sum) +
         sample(name + "_count", labels, count);
}

}  // namespace

void Metrics::add(const std::string& family, const Labels& labels, double value) {
  numbers_[family][in_text(labels)] += value;  // long keys are truncated, so different keys may have the same labels
}

void Metrics::add(const std::string& family, const Labels& labels, Folded value) {
  histograms_[family][in_text(labels)] = std::move(value);
}

std::string Metrics::text(const std::vector<Family>& families, MetricsFormat format) const {
  std::string text;
  for (const Family& family : families) {
    const std::string name = family.name;
    const auto numbers = numbers_.find(name);
    const auto histograms = histograms_.find(name);
    if (numbers == numbers_.end() && histograms == histograms_.end()) continue;
    // OpenMetrics omits "_total" from the family name of a counter.
    const bool is_cut = format == MetricsFormat::openmetrics && name.ends_with(kTotal);
    const std::string title = is_cut ? name.substr(0, name.size() - kTotal.size()) : name;
    text += fmt::format("# HELP {} {}\n# TYPE {} {}\n", title, family.help, title, family.type);
    if (numbers != numbers_.end())
      for (const auto& [labels, value] : numbers->second) text += sample(name, labels, value);
    if (histograms != histograms_.end())
      for (const auto& [labels, value] : histograms->second) text += histogram(name, labels, value);
  }
  return format == MetricsFormat::openmetrics ? text + "# EOF\n" : text;
}

}  // namespace holdfast::serve
