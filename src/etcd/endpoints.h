// Which of several endpoints to ask: the one that worked last. After a failure the next in turn; when all have failed
// in a row, with growing pauses between them.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::etcd {

/// Pauses between attempts: the double of the last one, less up to half of it by chance, so that many clients of a
/// server that comes back do not come at once.
class Backoff {
 public:
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
  /// REQUIRES: at least one. `lease_ms`: see is_of_cluster().
  Endpoints(std::vector<std::string> urls, std::uint64_t seed, std::int64_t lease_ms = 0);

  std::size_t size() const noexcept { return urls_.size(); }
  std::size_t current() const noexcept { return current_; }
  const std::string& url(std::size_t index) const { return urls_[index]; }

  /// How long to wait until the current one may be asked.
  std::int64_t pause_ms(std::int64_t now_ms) const noexcept {
    return now_ms < not_before_ms_ ? not_before_ms_ - now_ms : 0;
  }
  void worked(std::size_t index) noexcept;
  /// Only of the current one: others have been left already.
  void failed(std::size_t index, std::int64_t now_ms);

  /// Of which cluster an endpoint says that it is. False: of another one than that which answered last, so what it says
  /// does not count. A cluster that was made anew is another one, too: it counts at the endpoint that answered last,
  /// and at the others once nobody has answered for so long that no lease is left.
  bool is_of_cluster(std::size_t index, std::string_view cluster, std::int64_t now_ms);
  /// The endpoint that answered last.
  const std::string& known_member() const { return urls_[member_]; }

 private:
  std::vector<std::string> urls_;  // without a slash at the end
  const std::int64_t lease_ms_;
  std::string cluster_;  // of the endpoint that answered last, and when
  std::size_t member_ = 0;
  std::int64_t answered_ms_ = 0;
  std::size_t current_ = 0;
  std::size_t failures_ = 0;  // in a row
  std::int64_t not_before_ms_ = 0;
  Backoff backoff_;
};

}  // namespace holdfast::etcd
