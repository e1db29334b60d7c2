// Makes the texts that answer requests from the state of a world. A separate process makes them.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace holdfast::serve {

/// Documents by name: "metrics", "openmetrics", "dictionaries", "dictionary/NAME", "locks", "histograms" and
/// "contention"; ask_doctor() makes "doctor". If the world cannot be read, "error" has a message. Then there are no
/// other documents, except metrics that count the dictionaries that programs cannot open. kTooLarge is present if
/// documents are omitted because they would exceed kDocumentMax.
using Documents = std::map<std::string, std::string>;
inline constexpr const char* kTooLarge = "too large";

/// Returns the seconds since 1970.
double unix_time();

/// `keys` is the number of the most contended keys per dictionary to include in the metrics.
Documents look_at_world(std::uint32_t keys);
Documents ask_doctor();

}  // namespace holdfast::serve
