// Makes, in a separate process, the texts that answer requests, from the state of a world.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace holdfast::serve {

/// Documents by name: "metrics", "openmetrics", "dictionaries", "dictionary/NAME", "locks", "histograms" and
/// "contention"; ask_doctor() makes "doctor". If the world cannot be read, "error" contains a message. In this case the
/// only other documents are metrics that count the dictionaries that programs cannot open. kTooLarge exists if
/// documents are omitted because they would exceed kDocumentMax.
using Documents = std::map<std::string, std::string>;
inline constexpr const char* kTooLarge = "too large";

/// Returns the seconds since 1970.
double unix_time();

/// `keys`: how many of the most contended keys of each dictionary to include in the metrics.
Documents look_at_world(std::uint32_t keys);
Documents ask_doctor();

}  // namespace holdfast::serve
