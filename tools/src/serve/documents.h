// Makes the texts that answer requests from the state of a world. Runs in a separate process.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace holdfast::serve {

/// Documents, indexed by name. The names are "metrics", "openmetrics", "dictionaries", "dictionary/NAME", "locks",
/// "histograms" and "contention"; ask_doctor() makes "doctor". If the world cannot be read, "error" contains a message.
/// In this case, the only other documents are metrics, which count the dictionaries that programs cannot open. A
/// document named kTooLarge means that documents were omitted because they would exceed kDocumentMax.
using Documents = std::map<std::string, std::string>;
inline constexpr const char* kTooLarge = "too large";

/// Returns the seconds since 1970.
double unix_time();

/// `keys`: how many of each dictionary's most contended keys to include metrics for.
Documents look_at_world(std::uint32_t keys);
Documents ask_doctor();

}  // namespace holdfast::serve
