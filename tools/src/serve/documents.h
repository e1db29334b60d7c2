// The state of a world as the texts that requests get. A separate process makes them.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace holdfast::serve {

/// By name: "metrics", "openmetrics", "dictionaries", "dictionary/NAME", "locks", "histograms", "contention"; from the
/// doctor "doctor". If the world cannot be read, "error" has a message; then there are no other documents, except
/// metrics that count the dictionaries that programs cannot open. kTooLarge is present if some documents are left out
/// because they would exceed kDocumentMax.
using Documents = std::map<std::string, std::string>;
inline constexpr const char* kTooLarge = "too large";

/// `keys`: how many of the most contended keys of each dictionary are among the metrics.
Documents look_at_world(std::uint32_t keys);
Documents ask_doctor();

}  // namespace holdfast::serve
