// Keeps the last hour of a world, for people who open the page after something has happened. Samples are stored as the
// text that clients get. About 60 samples form a chunk, which can be read without earlier chunks. The oldest chunks are
// dropped. A sample contains only values that have changed, so an idle dictionary takes no space. Times are
// CLOCK_BOOTTIME seconds since the server's start, so that steps of the wall clock do not matter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "serve/gatherer.h"
#include "serve/sample.h"

namespace holdfast::serve {

/// The maximum size of all samples, in bytes. The whole history takes less than 8 MB.
inline constexpr std::size_t kHistoryMax = std::size_t{6} << 20;
inline constexpr double kHistorySeconds = 3600;
inline constexpr std::size_t kHistorySamples = 3600;
inline constexpr std::size_t kChunkSamples = 60;

class History {
 public:
  /// `now`: CLOCK_BOOTTIME in seconds. `time`: the seconds since 1970.
  History(double now, double time) : start_(now), started_(time) {}

  void add(double now, const Sample& sample);
  /// Adds a sample which says that the world could not be read.
  void add_unknown(double now);
  /// Records that nothing is known about the time since the last sample, because the machine or the server slept.
  void add_gap();
  /// Returns whether the next sample should be thorough, because it begins a chunk.
  bool wants_thorough() const noexcept { return open_samples_ == 0; }
  /// Returns the seconds until the next sample. This is one second, or more if an hour of such samples would be too
  /// large.
  double pause() const noexcept;

  /// Returns the chunks that contain samples from this number on. Together, the returned texts are one JSON text.
  std::vector<Text> texts_from(std::uint64_t number, double now, double time);
  /// Returns whether the history still contains this text.
  bool has(const Text& text) const noexcept;

 private:
  /// The times at which the longest hold and the longest wait began.
  struct Since {
    double hold = 0;
    double wait = 0;
  };
  /// The counts of a dictionary at the last sample, and the state that clients know from the open chunk.
  struct Known {
    SampledDictionary last;
    Since since{};
    std::string locks{};  // the locks as text; empty if they have not been read yet
    std::string state{};
    int id = -1;  // the id in the open chunk; negative if the dictionary is not in the chunk yet
    std::uint64_t seen = 0;
  };
  struct Chunk {
    std::uint64_t last = 0;  // the number of its last sample
    double time = 0;         // the time of its last sample
    std::size_t samples = 0;
    Text text;
  };

  static std::string locks_of(Known& known, double time);
  std::string changes_of(const SampledDictionary& now, double time);
  std::string long_waits_in_text(const std::vector<LongWait>& waits, double time);
  void append(double time, const std::string& rest);
  void close_chunk();
  void drop_old(double time);

  double start_;
  double started_;
  std::deque<Chunk> chunks_;
  std::size_t size_ = 0;  // the size of all texts in chunks_
  std::string open_;      // the samples of the open chunk
  std::size_t open_samples_ = 0;
  Text open_text_;  // null until a client requests it
  std::map<std::string, Known> known_;
  int next_id_ = 0;
  std::map<std::string, Since> long_waits_;  // the long waits of the last sample, by their locks' JSON
  std::string long_waits_text_;
  std::uint64_t number_ = 0;  // the number of the last sample
  double last_time_ = 0;
  std::uint64_t left_out_ = 0;
};

}  // namespace holdfast::serve
