// The agent's interface to a cluster's store: a linearizable map of keys to values with leases, guarded transactions
// and a watch on one key. The interface depends neither on etcd (cluster/src/etcd) nor on the meaning of keys.
//
// Calls return immediately. Each callback runs once, later, from the agent's event loop. There is only one thread.
// Requests may be queued before they are sent, except requests that keep the session alive.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace holdfast::agent {

/// The number of a change of the store. It grows with each change. 0 means that the key does not exist.
using Revision = std::int64_t;
/// The id of a lease. 0 means that there is none.
using LeaseId = std::int64_t;

struct Record {
  std::string key;
  std::string value;
  Revision created = 0;   // when the key was created
  Revision modified = 0;  // when it was last put
  LeaseId lease = 0;
};

/// A condition of a transaction: the key, or every key with the prefix, was created or last changed at this revision.
/// For a prefix, 0 means that no key has the prefix.
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
  std::int64_t limit = 1;  // `oldest`: the number of keys to read, the oldest first; 0: all

  static Step put(std::string key, std::string value, LeaseId lease) {
    return {Kind::put, std::move(key), std::move(value), lease, 1};
  }
  static Step erase(std::string key) { return {Kind::erase, std::move(key), {}, 0, 1}; }
  static Step get(std::string key) { return {Kind::get, std::move(key), {}, 0, 1}; }
  static Step oldest(std::string prefix, std::int64_t limit) { return {Kind::oldest, std::move(prefix), {}, 0, limit}; }
};

/// A transaction. It executes `then` if all guards hold, otherwise `otherwise`.
struct Change {
  std::vector<Guard> guards;
  std::vector<Step> then;
  std::vector<Step> otherwise;

  /// True if the session itself depends on this change. The change is then sent before all queued requests.
  bool urgent = false;
  /// Called when this change is about to be sent. If the function returns false, the change is not sent, and the
  /// change's callback does not run. If this is empty, the change is always sent.
  std::function<bool()> wanted{};
};

enum class Outcome {
  answered,
  refused,  // the request was not executed; see `fault`
  unknown,  // no answer: the request may have been executed, or be executed later, or never
};

/// The reason why the store refused a request.
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
  std::string sentence;                    // a message for people; empty if answered
  Revision revision = 0;                   // the store's revision at the answer; for a change, the change's own
  bool guarded = false;                    // for a transaction: all guards held
  std::vector<std::vector<Record>> found;  // for a transaction: the results of each get and oldest, in order
  std::int64_t queued_us = 0;              // how long the request was queued before it was sent
};

/// Returns whether the store would also refuse this request for any other key, because the store is full, has no
/// leader, or denies changes.
inline bool is_refused_to_all(const Answer& answer) {
  return answer.outcome == Outcome::refused && (answer.fault == Fault::no_space || answer.fault == Fault::no_leader ||
                                                answer.fault == Fault::denied || answer.fault == Fault::other);
}

struct LeaseAnswer {
  Answer answer;
  LeaseId lease = 0;
  std::int64_t ttl_s = 0;         // 0: the lease is gone
  std::vector<std::string> keys;  // the result of keys_of()
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

  /// Watches the key instead of the previous key. Calls `rung` for each put of the key, and with a record of revision 0
  /// when the key is deleted. Events may be lost or late, or arrive before the answer to the transaction that caused
  /// them. If the watch ends, the store renews it.
  virtual void watch(const std::string& key, std::function<void(const Record&)> rung) = 0;
};

}  // namespace holdfast::agent
