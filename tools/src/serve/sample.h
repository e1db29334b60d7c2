// One sample of a world for the history. The gatherer's process takes the sample, and sends it as bytes.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast.h"
#include "serve/documents.h"
#include "serve/view.h"

namespace holdfast::serve {

/// Upper bounds in seconds, by which the history counts waits. The heat map of the page has a row for each.
inline constexpr std::size_t kWaitRows = 12;
inline constexpr std::array<double, kWaitRows> kWaitBounds{
    1e-5, 1e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, std::numeric_limits<double>::infinity()};

/// Whether a sample contains the locks of a dictionary. unread: the locks were not read.
enum class Locks : std::uint32_t { unread, incomplete, known };

/// The state of a dictionary, as bytes without padding. Counts are since the dictionary was created.
struct SampledDictionary {
  std::array<char, 256> name{};  // ends with a zero
  std::uint64_t file = 0;        // its inode; a dictionary that was created again has a different one
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;
  std::array<std::uint64_t, kWaitRows> waits{};
  double longest_hold = -1;  // of the present holds, in seconds; negative if there is none
  double longest_wait = -1;
  std::uint32_t used = 0;  // per mille
  Locks locks = Locks::unread;
  std::uint32_t held = 0;
  std::uint32_t waiters = 0;
};
static_assert(HOLDFAST_NAME_MAX < sizeof SampledDictionary::name);

/// A lock that a process has waited for at least kLongWait.
struct LongWait {
  double waited = 0;  // in seconds, of the process that has waited longest
  double held = -1;   // negative if nobody holds the lock
  std::uint64_t waiters = 0;
  std::string lock{};  // JSON: its dictionary, key and holder
};
inline constexpr double kLongWait = 1;
/// The most long waits in a sample, which contains the longest ones.
inline constexpr std::size_t kLongWaits = 5;

struct Sample {
  std::vector<SampledDictionary> dictionaries;  // sorted by name
  std::vector<LongWait> long_waits;
  std::uint64_t left_out = 0;
};

/// The most dictionaries in a sample: the first ones in the order of their names.
inline constexpr std::size_t kDictionariesSampled = 1000;
/// In a dictionary with more entries, only thorough samples read the locks, because this means reading all entries.
inline constexpr std::uint64_t kEntriesRead = 10000;

std::string to_bytes(const Sample& sample);
/// Unpacks a sample. Returns nothing if the bytes are incomplete.
std::optional<Sample> parse_sample(std::string_view bytes);

/// Gathers a sample as the document kSample, or "error".
Documents gather_sample(bool is_thorough);
inline constexpr const char* kSample = "sample";

}  // namespace holdfast::serve
