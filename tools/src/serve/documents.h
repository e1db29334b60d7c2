// What there is to see of a world, as the texts that requests get. Made by a process that does nothing else.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace holdfast::serve {

/// By name: "metrics", "openmetrics", "dictionaries", "dictionary/NAME", "locks", "histograms", "contention"; of the
/// doctor "doctor". With "error", a sentence, where the world cannot be looked at; then there is nothing else, but for
/// metrics that count the dictionaries which programs are refused. With kTooLarge if some are left out since they would
/// be larger than kDocumentMax.
using Documents = std::map<std::string, std::string>;
inline constexpr const char* kTooLarge = "too large";

/// `keys`: of each dictionary so many with the most contention are among the metrics.
Documents look_at_world(std::uint32_t keys);
Documents ask_doctor();

}  // namespace holdfast::serve
