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

/// The history counts waits by their duration. The page's heat map has one row for each upper bound, in seconds.
inline constexpr std::size_t kWaitRows = 12;
inline constexpr std::array<double, kWaitRows> kWaitBounds{
    1e-5, 1e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, std::numeric_limits<double>::infinity()};

/// Says whether a sample contains the locks of a dictionary. unread: the locks were not read.
enum class Locks : std::uint32_t { unread, incomplete, known };

/// The state of a dictionary, as bytes without padding. Counts start at the creation of the dictionary.
struct SampledDictionary {
  std::array<char, 256> name{};  // ends with a zero byte
  std::uint64_t file = 0;        // the file's inode, which changes if the dictionary is created again
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;
  std::array<std::uint64_t, kWaitRows> waits{};
  double longest_hold = -1;  // the longest present hold in seconds; negative if there is none
  double longest_wait = -1;
  std::uint32_t used = 0;  // the used part of the memory, per mille
  Locks locks = Locks::unread;
  std::uint32_t held = 0;
  std::uint32_t waiters = 0;
};
static_assert(HOLDFAST_NAME_MAX < sizeof SampledDictionary::name);

/// A lock for which a process has waited for at least kLongWait.
struct LongWait {
  double waited = 0;  // the longest wait, in seconds
  double held = -1;   // seconds; negative if nobody holds the lock
  std::uint64_t waiters = 0;
  std::string lock{};  // the lock's dictionary, key and holder as JSON
};
inline constexpr double kLongWait = 1;
/// The maximum number of long waits in a sample. If there are more, the sample contains the longest.
inline constexpr std::size_t kLongWaits = 5;

struct Sample {
  std::vector<SampledDictionary> dictionaries;  // sorted by name
  std::vector<LongWait> long_waits;
  std::uint64_t left_out = 0;
};

/// The maximum number of dictionaries in a sample. If there are more, the sample contains the first, in the order of
/// names.
inline constexpr std::size_t kDictionariesSampled = 1000;
/// If a dictionary has more entries, only thorough samples contain its locks, because all entries must be read to find
/// them.
inline constexpr std::uint64_t kEntriesRead = 10000;

std::string to_bytes(const Sample& sample);
/// Unpacks a sample. Returns nothing if the bytes are incomplete.
std::optional<Sample> parse_sample(std::string_view bytes);

/// Gathers a sample. Returns it as the document kSample, or returns the document "error".
Documents gather_sample(bool is_thorough);
inline constexpr const char* kSample = "sample";

}  // namespace holdfast::serve
