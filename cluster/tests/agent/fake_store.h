// A simulated cluster store in virtual time. It is linearizable, and has revisions, leases and watches. Requests and
// answers may be lost, late or duplicated, at random or on demand.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/schedule.h"
#include "agent/store.h"

namespace holdfast::test {

/// The probabilities of faults for one request or one notification.
struct StoreFaults {
  double lost_request = 0;
  double lost_answer = 0;
  double late = 0;  // executed up to 5 s after it was sent
  double doubled = 0;
  double no_leader = 0;
  double lost_ring = 0;
  double late_ring = 0;
  double doubled_ring = 0;
};

/// The fate of a request.
enum class Fate { done, lost_request, lost_answer, late, doubled, no_leader };

class FakeStore {
 public:
  explicit FakeStore(Schedule& schedule) : schedule_(schedule) {}

  /// The client gives up after this time (µs).
  static constexpr Microseconds kPatience = 1'000'000;

  StoreFaults faults;

  // --- requests, executed immediately ---
  agent::Answer apply(const agent::Change& change);
  agent::LeaseAnswer grant(std::int64_t ttl_s);
  agent::LeaseAnswer keep_alive(agent::LeaseId lease);
  agent::Answer revoke(agent::LeaseId lease);
  agent::LeaseAnswer keys_of(agent::LeaseId lease);

  const std::map<std::string, agent::Record>& records() const { return records_; }
  std::vector<agent::LeaseId> leases() const;
  /// Revisions continue from this number.
  void skip_to(agent::Revision revision) { revision_ = revision; }
  /// Calls `call` with each put and deletion, in the form in which a watch on all keys would report it.
  void observe(std::function<void(const agent::Record&)> call) { observer_ = std::move(call); }

 private:
  struct Lease {
    std::int64_t ttl_s = 0;
    Microseconds end = 0;
    std::set<std::string> keys;
  };

  bool holds(const agent::Guard& guard) const;
  bool is_alive(const std::vector<agent::Step>& steps) const;
  void put(const agent::Step& step, agent::Revision revision);
  bool erase(const std::string& key);
  std::vector<agent::Record> read(const agent::Step& step) const;
  void expire(agent::LeaseId lease);

  Schedule& schedule_;
  agent::Revision revision_ = 1;
  agent::LeaseId last_lease_ = 0x1000;
  std::map<std::string, agent::Record> records_;
  std::map<agent::LeaseId, Lease> leases_;
  std::function<void(const agent::Record&)> observer_;

  friend class FakeClient;
  std::map<class FakeClient*, std::function<void(const agent::Record&)>> watchers_;
};

/// One agent's connection to the store. After this object is destroyed, no callback runs, but the store still executes
/// the requests that were sent.
class FakeClient : public agent::Store {
 public:
  /// `called` runs after each callback.
  FakeClient(FakeStore& store, Schedule& schedule, std::function<void()> called);
  ~FakeClient() override;
  FakeClient(const FakeClient&) = delete;
  FakeClient& operator=(const FakeClient&) = delete;

  void transact(agent::Change change, std::function<void(const agent::Answer&)> done) override;
  void grant(std::int64_t ttl_s, std::function<void(const agent::LeaseAnswer&)> done) override;
  void keep_alive(agent::LeaseId lease, std::function<void(const agent::LeaseAnswer&)> done) override;
  void revoke(agent::LeaseId lease, std::function<void(const agent::Answer&)> done) override;
  void keys_of(agent::LeaseId lease, std::function<void(const agent::LeaseAnswer&)> done) override;
  void watch(const std::string& key, std::function<void(const agent::Record&)> rung) override;

  /// Until `when`, no message reaches the store or comes from it.
  void cut_until(Microseconds when) { cut_until_ = when; }
  /// Delays callbacks until `when`, as if the agent were stopped.
  void stop_until(Microseconds when) { stopped_until_ = when; }
  /// Decides the fate of a transaction, if the function is set and returns a fate.
  std::function<std::optional<Fate>(const agent::Change&)> fate;
  /// Whether notifications reach the agent.
  bool hears = true;
  std::uint64_t requests = 0;

 private:
  template <class Result>
  void send(Fate fate, std::function<Result()> work, std::function<void(const Result&)> done);
  template <class Result>
  void answer(Microseconds delay, Result result, std::shared_ptr<bool> open, std::function<void(const Result&)> done);
  void callback(Microseconds delay, std::function<void()> call);
  Fate roll();
  Microseconds hop();
  bool cut() const { return schedule_.now() < cut_until_; }

  FakeStore& store_;
  Schedule& schedule_;
  std::function<void()> called_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  Microseconds cut_until_ = 0;
  Microseconds stopped_until_ = 0;
  std::string watched_;
};

}  // namespace holdfast::test
