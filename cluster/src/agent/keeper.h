// The lease of this machine at the store, on which all its locks hang, and its deadline in shared memory.
//
// The deadline lies before the moment at which the store may end the lease: it counts from before the keepalive was
// sent, for 0.99 of the lease's time (clocks may run apart by 1 %), less a margin. Renewal is a compare-and-swap from
// the deadline that was read, so a lease that anyone saw lost stays lost, whatever the store answers later.
//
// Lost is a lease when its deadline passes, when the store says that it is gone, when its bell is deleted, or when the
// wall clock leaps against BOOTTIME: then this machine's memory may be a copy of another's, or be put back to a state
// of long ago, and the lease another machine's too. Lost it is also when the store was put back to an earlier state,
// which may know nothing of locks that this machine has. After that: a new lease, and with it a new epoch.
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

/// Until when a lease may be relied on that was granted or kept alive by a request sent at `sent`.
Milliseconds deadline_of(Milliseconds sent, std::int64_t ttl_s);

/// So far may the wall clock leap.
inline constexpr Milliseconds kLeapMax = 1000;

class Keeper {
 public:
  struct Listener {
    std::function<void(LeaseId, Epoch)> begun;
    /// The lease of an earlier agent, the keys that hang on it, and the locks that stand.
    std::function<void(LeaseId, Epoch, const std::vector<std::string>&, const std::vector<LockName>&)> adopted;
    std::function<void()> lost;
    std::function<void(const Record&)> rung;
  };

  Keeper(Store& store, Machine& machine, const Clock& clock, const Keys& keys, const Settings& settings,
         Listener listener);

  /// Goes on with the lease in shared memory, if it is alive; else asks for one.
  void start();
  void step();
  Milliseconds due() const;
  /// The store said that a lease is gone: asks about this machine's as soon as it can.
  void suspect() { next_ = 0; }
  /// The store is in trouble: asks it now and then for a change that changes nothing.
  void probe();
  /// The store was put back to an earlier state, which is `why` the lease is lost, if there is one.
  void store_went_back(const std::string& why);
  /// Ends the lease, and asks for no other.
  void stop(const std::function<void()>& done);

  /// Whether there is a lease, and begun() or adopted() was told.
  bool alive() const { return state_ == State::alive && !adopting_; }
  /// Whether there is the lease of an earlier agent, and it is not known yet what hangs on it.
  bool adopting() const { return adopting_; }
  std::uint64_t losses() const { return losses_; }
  /// Of the last one.
  const std::string& why_lost() const { return why_lost_; }
  /// Why there is no lease, or none that is renewed; empty: it is not known yet.
  const std::string& sentence() const { return sentence_; }

 private:
  enum class State { stopped, none, asking, alive };
  /// A lease that was lost, to be ended at the store lest others wait for it.
  struct Old {
    LeaseId lease = 0;
    Milliseconds until = 0;  // then it has ended by itself
    Milliseconds next = 0;
    bool asked = false;
  };

  void acquire();
  void announce(LeaseId lease, Milliseconds deadline);
  void begin(LeaseId lease, Milliseconds deadline);
  /// Puts the machine's document.
  Step introduce(LeaseId lease, Epoch epoch) const;
  void renew();
  void renewed(Milliseconds sent, Milliseconds from, const LeaseAnswer& answer);
  void adopt();
  /// `end`: of the lease, at the latest.
  void adopt_keys(const std::vector<std::string>& keys, Milliseconds end);
  void watch();
  /// `why`: for people.
  void lose(const std::string& why);
  /// As lose(), but leaves the lease at the store to its end: it may be another machine's. False: as Machine::lose().
  bool drop(const std::string& why);
  /// That the deadline has passed, and what the store said last.
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
  bool adopting_ = false;      // its keys are still to be read
  std::uint64_t attempt_ = 0;  // answers of earlier ones do not count
  bool running_ = false;       // a request about the lease
  Milliseconds asked_ = 0;     // when it was sent
  LeaseId lease_ = 0;
  std::int64_t ttl_s_ = 0;
  Milliseconds next_ = 0;
  Milliseconds back_off_ = 0;
  Milliseconds next_probe_ = 0;
  bool probing_ = false;
  Milliseconds wall_offset_ = 0;  // at the last look, and by how much it may be too large
  Milliseconds stopped_ = 0;
  std::vector<Old> old_;
  std::uint64_t losses_ = 0;
  std::string sentence_;
  std::string why_lost_;
};

}  // namespace holdfast::agent
