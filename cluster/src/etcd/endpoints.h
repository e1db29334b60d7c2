// Chooses one of several endpoints: the endpoint that worked last. After a failure, chooses the next endpoint. Once all
// endpoints have failed in succession, there is a pause before each attempt, and the pauses grow.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace holdfast::etcd {

/// Computes the pauses between attempts. Each pause is twice the previous one, minus a random part of up to half. So
/// when a server is available again, its clients do not all try at the same time.
class Backoff {
 public:
  /// No benchmark depends on these two constants, because none has an unreachable server.
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
  /// REQUIRES: at least one URL.
  Endpoints(std::vector<std::string> urls, std::uint64_t seed);

  std::size_t size() const noexcept { return urls_.size(); }
  std::size_t current() const noexcept { return current_; }
  const std::string& url(std::size_t index) const { return urls_[index]; }

  /// Returns how long to wait before using the current endpoint.
  std::int64_t pause_ms(std::int64_t now_ms) const noexcept {
    return now_ms < not_before_ms_ ? not_before_ms_ - now_ms : 0;
  }
  void worked(std::size_t index) noexcept;
  /// Records a failure, and chooses another endpoint. Ignores a failure of an endpoint that is no longer used.
  /// `took_ms`: the duration of the attempt, which is subtracted from the pause after the attempt.
  void failed(std::size_t index, std::int64_t now_ms, std::int64_t took_ms = 0);

 private:
  std::vector<std::string> urls_;  // without a slash at the end
  std::size_t current_ = 0;
  std::size_t failures_ = 0;  // consecutive failures
  std::int64_t not_before_ms_ = 0;
  Backoff backoff_;
};

}  // namespace holdfast::etcd
