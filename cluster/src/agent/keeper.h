// Keeps this machine's lease alive at the store, and keeps the lease's deadline in shared memory. All locks of the
// machine are attached to the lease.
//
// The deadline is always earlier than the time at which the store can end the lease. To get the deadline, the agent
// adds 0.99 of the lease's time (clocks may differ by 1 %), minus a margin, to the time at which it sent the keepalive.
// A renewal is a compare-and-swap from the deadline that was read. So once a process has seen that the lease is lost,
// it remains lost, whatever the store answers later.
//
// A lease is lost when
//
//   - its deadline passes, the store says that it is gone, or its notification key (agent/ring.h) is deleted;
//   - the wall clock leaps relative to CLOCK_BOOTTIME: this machine may be a clone or an old snapshot, and the lease
//     may also belong to another machine;
//   - the store was restored to an earlier state, which may not know this machine's locks.
//
// Then a new lease begins, with a new epoch.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "agent/clock.h"
#include "agent/keys.h"
#include "agent/machine.h"
#include "agent/settings.h"
#include "agent/store.h"

namespace holdfast::agent {

/// Returns the deadline of a lease that was granted or kept alive by a request sent at `sent`.
Milliseconds deadline_of(Milliseconds sent, std::int64_t ttl_s);

/// The maximum leap of the wall clock that is ignored.
inline constexpr Milliseconds kLeapMax = 1000;

class Keeper {
 public:
  struct Listener {
    std::function<void(LeaseId, Epoch)> begun;
    /// Called when the lease of an earlier agent was adopted, with the keys attached to the lease and the locks that
    /// stand.
    std::function<void(LeaseId, Epoch, const std::vector<std::string>&, const std::vector<LockName>&)> adopted;
    std::function<void()> lost;
    std::function<void(const Record&)> rung;
  };

  Keeper(Store& store, Machine& machine, const Clock& clock, const Keys& keys, const Settings& settings,
         Listener listener);

  /// Takes over the lease in shared memory if it is alive, otherwise requests a new lease.
  void start();
  void step();
  Milliseconds due() const;
  /// Checks this machine's lease as soon as possible. Call this when the store says that a lease is gone.
  void suspect() { next_ = 0; }
  /// While the store is in trouble, sends a change without effect from time to time, to notice the end of the trouble.
  void probe();
  /// Ends the lease, if there is one. Call this if the store was restored to an earlier state; `why` is the reason for
  /// people.
  void store_went_back(const std::string& why);
  /// Ends the lease, and does not request a new one.
  void stop(const std::function<void()>& done);

  /// Returns whether there is a lease, for which begun() or adopted() has already been called.
  bool alive() const { return state_ == State::alive && !adopting_; }
  /// Returns whether there is a lease of an earlier agent whose keys have not been read yet.
  bool adopting() const { return adopting_; }
  std::uint64_t losses() const { return losses_; }
  /// Returns the reason for the last loss of a lease.
  const std::string& why_lost() const { return why_lost_; }
  /// Returns the reason why there is no lease, or why it is not renewed. Returns an empty string if the reason is not
  /// known yet.
  const std::string& sentence() const { return sentence_; }

 private:
  enum class State { stopped, none, asking, alive };
  /// A lost lease. It must be ended at the store, because other machines may wait for its locks.
  struct Old {
    LeaseId lease = 0;
    Milliseconds until = 0;  // when the lease has certainly expired
    Milliseconds next = 0;
    bool asked = false;
  };

  void acquire();
  void announce(LeaseId lease, Milliseconds deadline);
  void begin(LeaseId lease, Milliseconds deadline);
  /// Returns the step that puts the machine's document.
  Step introduce(LeaseId lease, Epoch epoch) const;
  void renew();
  void renewed(Milliseconds sent, Milliseconds from, const LeaseAnswer& answer);
  void adopt();
  /// Takes over the keys of an earlier agent's lease. `end`: the latest time at which the store ends the lease.
  void adopt_keys(const std::vector<std::string>& keys, Milliseconds end);
  void watch();
  /// Loses the lease. `why` is the reason for people.
  void lose(const std::string& why);
  /// Does the same as lose(), but leaves the lease at the store until it expires, because the lease may belong to
  /// another machine. Returns the result of Machine::lose().
  bool drop(const std::string& why);
  /// Returns a message which says that the deadline has passed, with the last message from the store.
  std::string passed() const;
  void retry(const Answer& answer);
  void retire(LeaseId lease);
  void revoke_old();
  bool leaped();

  Store& store_;
  Machine& machine_;
  const Clock& clock_;
  const Keys& keys_;
  const Settings& settings_;
  Listener listener_;

  State state_ = State::stopped;
  bool adopting_ = false;      // the keys of the lease have not been read yet
  std::uint64_t attempt_ = 0;  // answers to earlier attempts are ignored
  bool running_ = false;       // a request for the lease is running
  Milliseconds asked_ = 0;     // when the request was sent
  LeaseId lease_ = 0;
  std::int64_t ttl_s_ = 0;
  Milliseconds next_ = 0;
  Milliseconds back_off_ = 0;
  Milliseconds next_probe_ = 0;
  bool probing_ = false;
  Milliseconds wall_offset_ = 0;  // at the last check; too large by at most the next field
  Milliseconds stopped_ = 0;
  std::vector<Old> old_;
  std::uint64_t losses_ = 0;
  std::string sentence_;
  std::string why_lost_;
};

}  // namespace holdfast::agent
