// Wraps a store. Counts the requests, and measures how long the answers take. Notices when the store was restored to an
// earlier state, and when it is in trouble.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "agent/clock.h"
#include "agent/machine.h"
#include "agent/store.h"

namespace holdfast::agent {

/// A histogram of request times. For each bound, it counts the requests that took no longer than the bound, because
/// metrics need this form.
class Latency {
 public:
  /// The bounds, in microseconds. A request within one building takes a few hundred microseconds. A request that takes
  /// longer than the last bound counts only in the total.
  static constexpr std::array<std::int64_t, 12> kBounds{250,    500,    1'000,   2'000,   5'000,   10'000,
                                                        20'000, 50'000, 100'000, 200'000, 500'000, 1'000'000};

  void add(std::int64_t us) noexcept {
    ++count_;
    sum_us_ += us;
    const auto* const bound = std::lower_bound(kBounds.begin(), kBounds.end(), us);
    if (bound != kBounds.end()) ++counts_[static_cast<std::size_t>(bound - kBounds.begin())];
  }

  std::uint64_t count() const noexcept { return count_; }
  std::int64_t sum_us() const noexcept { return sum_us_; }
  /// Returns how many requests took no longer than kBounds[index].
  std::uint64_t within(std::size_t index) const noexcept {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i <= index; ++i) sum += counts_[i];
    return sum;
  }

 private:
  std::uint64_t count_ = 0;
  std::int64_t sum_us_ = 0;
  std::array<std::uint64_t, kBounds.size()> counts_{};
};

/// These counters only grow.
struct StoreCounters {
  std::uint64_t requests = 0;    // requests of all kinds, without repetitions at other servers
  std::uint64_t refused = 0;     // requests that the store refused
  std::uint64_t unanswered = 0;  // requests that the store did not answer in time
  std::uint64_t rings = 0;       // events of the watch
};

class MeasuredStore final : public Store {
 public:
  /// `went_back` is called with two revisions, the larger one first, when the answer to a transaction has a smaller
  /// revision than an answer that arrived before the transaction was sent. This happens only if the store was restored
  /// to an earlier state.
  using WentBack = std::function<void(Revision, Revision)>;

  MeasuredStore(Store& store, const Clock& clock, WentBack went_back)
      : store_(store), clock_(clock), went_back_(std::move(went_back)) {}

  void transact(Change change, std::function<void(const Answer&)> done) override;
  void grant(std::int64_t ttl_s, std::function<void(const LeaseAnswer&)> done) override;
  void keep_alive(LeaseId lease, std::function<void(const LeaseAnswer&)> done) override;
  void revoke(LeaseId lease, std::function<void(const Answer&)> done) override;
  void keys_of(LeaseId lease, std::function<void(const LeaseAnswer&)> done) override;
  void watch(const std::string& key, std::function<void(const Record&)> rung) override;

  const StoreCounters& counters() const { return counters_; }
  /// Returns the times from the sending of a request to its answer or refusal. Waits before the sending are counted
  /// separately.
  const Latency& latency() const { return latency_; }
  std::int64_t queued_us() const { return queued_us_; }

  /// Returns the trouble that made the last change fail, or none if it succeeded. Reads do not count, because a store
  /// still answers them if it is full or denies changes.
  Trouble trouble() const { return trouble_; }
  /// Returns when the trouble was last determined.
  Milliseconds judged_ms() const { return judged_ms_; }
  /// Returns the store's own message, or an empty string if there is no trouble.
  const std::string& sentence() const { return sentence_; }

 private:
  void judge(const Answer& answer, bool has_put);
  void note(const Answer& answer, std::int64_t sent_us);
  std::function<void(const Answer&)> noting(std::function<void(const Answer&)> done);
  std::function<void(const LeaseAnswer&)> noting(std::function<void(const LeaseAnswer&)> done);
  void follow(Revision before, std::uint64_t times_back, Revision now);

  Store& store_;
  const Clock& clock_;
  const WentBack went_back_;
  Revision newest_ = 0;           // the newest revision in an answer since the store was last restored
  std::uint64_t times_back_ = 0;  // the number of restores; answers to requests before the last one are ignored
  Trouble trouble_ = Trouble::none;
  std::string sentence_;
  Milliseconds judged_ms_ = 0;
  StoreCounters counters_;
  Latency latency_;
  std::int64_t queued_us_ = 0;
};

}  // namespace holdfast::agent
