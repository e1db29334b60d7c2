// A store that counts what is asked of another one, and how long its answers take.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "agent/clock.h"
#include "agent/latency.h"
#include "agent/store.h"

namespace holdfast::agent {

/// They only grow.
struct StoreCounters {
  std::uint64_t requests = 0;    // of all kinds; repetitions at other servers do not count
  std::uint64_t refused = 0;     // the store said no
  std::uint64_t unanswered = 0;  // it said nothing in time
  std::uint64_t rings = 0;       // events of the watch
};

class MeasuredStore final : public Store {
 public:
  MeasuredStore(Store& store, const Clock& clock) : store_(store), clock_(clock) {}

  void transact(Change change, std::function<void(const Answer&)> done) override;
  void grant(std::int64_t ttl_s, std::function<void(const LeaseAnswer&)> done) override;
  void keep_alive(LeaseId lease, std::function<void(const LeaseAnswer&)> done) override;
  void revoke(LeaseId lease, std::function<void(const Answer&)> done) override;
  void keys_of(LeaseId lease, std::function<void(const LeaseAnswer&)> done) override;
  void watch(const std::string& key, std::function<void(const Record&)> rung) override;

  const StoreCounters& counters() const { return counters_; }
  /// Of the requests that were answered or refused.
  const Latency& latency() const { return latency_; }

 private:
  void note(const Answer& answer, std::int64_t sent_us);
  std::function<void(const Answer&)> noting(std::function<void(const Answer&)> done);
  std::function<void(const LeaseAnswer&)> noting(std::function<void(const LeaseAnswer&)> done);

  Store& store_;
  const Clock& clock_;
  StoreCounters counters_;
  Latency latency_;
};

}  // namespace holdfast::agent
