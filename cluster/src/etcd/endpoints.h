// Which of several endpoints to ask: the one that worked last. After a failure the next in turn; when all have failed
// in a row, with growing pauses between them.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace holdfast::etcd {

/// Pauses between attempts: the double of the last one, less up to half of it by chance, so that many clients of a
/// server that comes back do not come at once.
class Backoff {
 public:
  /// No row shows these two: none has a server that is away.
  static constexpr std::int64_t kFirstMs = 20;
  static constexpr std::int64_t kLongestMs = 1000;

  explicit Backoff(std::uint64_t seed) : random_(seed) {}
  std::int64_t next_ms();
  void reset() noexcept { step_ms_ = kFirstMs; }

 private:
  std::int64_t step_ms_ = kFirstMs;
  std::mt19937_64 random_;
};

class Endpoints {
 public:
  /// REQUIRES: at least one.
  Endpoints(std::vector<std::string> urls, std::uint64_t seed);

  std::size_t size() const noexcept { return urls_.size(); }
  std::size_t current() const noexcept { return current_; }
  const std::string& url(std::size_t index) const { return urls_[index]; }

  /// How long to wait until the current one may be asked.
  std::int64_t pause_ms(std::int64_t now_ms) const noexcept {
    return now_ms < not_before_ms_ ? not_before_ms_ - now_ms : 0;
  }
  void worked(std::size_t index) noexcept;
  /// Only of the current one: others have been left already. `took_ms`: of the attempt, which counts as a part of the
  /// pause after it.
  void failed(std::size_t index, std::int64_t now_ms, std::int64_t took_ms = 0);

 private:
  std::vector<std::string> urls_;  // without a slash at the end
  std::size_t current_ = 0;
  std::size_t failures_ = 0;  // in a row
  std::int64_t not_before_ms_ = 0;
  Backoff backoff_;
};

}  // namespace holdfast::etcd
