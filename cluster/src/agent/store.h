// The agent's interface to a cluster's store: a linearizable map of keys to values with leases, guarded transactions
// and a watch on one key. It does not depend on etcd (cluster/src/etcd), or on the meaning of keys.
//
// Calls return immediately. Each callback runs once, later, from the agent's event loop. There is only one thread.
// Requests may be queued before they are sent, except for requests that keep the session alive.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace holdfast::agent {

/// The number of a change of the store, which grows with each change. 0 means that the key does not exist.
using Revision = std::int64_t;
/// The id of a lease. 0 means none.
using LeaseId = std::int64_t;

struct Record {
  std::string key;
  std::string value;
  Revision created = 0;   // when the key was created
  Revision modified = 0;  // when it was last put
  LeaseId lease = 0;
};

/// A condition of a transaction: the revision at which the key, or every key with the prefix, was created
/// or last changed. For a prefix, 0 means that there is no such key.
struct Guard {
  enum class Of { created, modified };
  Of of = Of::created;
  std::string key;
  Revision revision = 0;
  bool prefix = false;

  static Guard absent(std::string key) { return {Of::created, std::move(key), 0, false}; }
  static Guard none_below(std::string prefix) { return {Of::created, std::move(prefix), 0, true}; }
  static Guard created(std::string key, Revision revision) { return {Of::created, std::move(key), revision, false}; }
  static Guard unchanged(std::string key, Revision revision) { return {Of::modified, std::move(key), revision, false}; }
};

/// One step of a transaction. Reads see the effects of earlier steps.
struct Step {
  enum class Kind { put, erase, get, oldest };
  Kind kind = Kind::get;
  std::string key;         // `oldest`: the prefix
  std::string value;       // for `put`
  LeaseId lease = 0;       // for `put`
  std::int64_t limit = 1;  // `oldest`: how many keys to read, in the order of their creation; 0: all

  static Step put(std::string key, std::string value, LeaseId lease) {
    return {Kind::put, std::move(key), std::move(value), lease, 1};
  }
  static Step erase(std::string key) { return {Kind::erase, std::move(key), {}, 0, 1}; }
  static Step get(std::string key) { return {Kind::get, std::move(key), {}, 0, 1}; }
  static Step oldest(std::string prefix, std::int64_t limit) { return {Kind::oldest, std::move(prefix), {}, 0, limit}; }
};

/// A transaction: executes `then` if all guards hold, and `otherwise` if not.
struct Change {
  std::vector<Guard> guards;
  std::vector<Step> then;
  std::vector<Step> otherwise;

  /// The session itself depends on this change, so it is sent before all queued requests.
  bool urgent = false;
  /// Called when this change is about to be sent. If it returns false, the change is not sent, and its callback does
  /// not run. Empty: the change is always sent.
  std::function<bool()> wanted{};
};

enum class Outcome {
  answered,
  refused,  // the request was not executed: see `fault`
  unknown,  // no answer: the request may have been executed, or be executed later, or never
};

/// Why the store refused.
enum class Fault {
  none,
  no_lease,   // the lease is gone
  no_space,   // the database is full
  no_leader,  // the store has no majority
  denied,     // wrong user, password, token or certificate
  too_large,  // the request is too large
  compacted,  // the revision was compacted
  other,
};

struct Answer {
  Outcome outcome = Outcome::unknown;
  Fault fault = Fault::none;
  std::string sentence;                    // for people; empty if answered
  Revision revision = 0;                   // of the store when it answered; for a change, the revision of the change
  bool guarded = false;                    // for a transaction: whether the guards held
  std::vector<std::vector<Record>> found;  // for a transaction: results of each get and oldest that ran, in order
  std::int64_t queued_us = 0;              // how long it was queued here before it was sent
};

/// Returns whether the store would also refuse the request for any other key, because it is full, has no leader, or
/// denies changes.
inline bool is_refused_to_all(const Answer& answer) {
  return answer.outcome == Outcome::refused && (answer.fault == Fault::no_space || answer.fault == Fault::no_leader ||
                                                answer.fault == Fault::denied || answer.fault == Fault::other);
}

struct LeaseAnswer {
  Answer answer;
  LeaseId lease = 0;
  std::int64_t ttl_s = 0;         // 0: the lease is gone
  std::vector<std::string> keys;  // for keys_of()
};

class Store {
 public:
  virtual ~Store() = default;

  virtual void transact(Change change, std::function<void(const Answer&)> done) = 0;
  virtual void grant(std::int64_t ttl_s, std::function<void(const LeaseAnswer&)> done) = 0;
  virtual void keep_alive(LeaseId lease, std::function<void(const LeaseAnswer&)> done) = 0;
  virtual void revoke(LeaseId lease, std::function<void(const Answer&)> done) = 0;
  /// Reads the keys attached to the lease, and its remaining time.
  virtual void keys_of(LeaseId lease, std::function<void(const LeaseAnswer&)> done) = 0;

  /// Watches the key instead of the previously watched one. Calls `rung` with each put of the key, and with a record of
  /// revision 0 when the key is deleted. Events may be lost or late, or arrive before the answer to the transaction
  /// that caused them. The store itself renews the watch.
  virtual void watch(const std::string& key, std::function<void(const Record&)> rung) = 0;
};

}  // namespace holdfast::agent
