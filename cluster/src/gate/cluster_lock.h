// Records whether this machine owns a lock of a cluster, so that its processes may take the lock.
//
// A lock *stands* in an epoch of the session (gate/session.h) once the store has given it to this machine and the agent
// has recorded this. As long as the lock stands, the machine's processes take it and pass it on like any other lock.
// The lock no longer stands when the session's deadline passes, at the same moment for all processes, or when the agent
// withdraws the lock. To withdraw a lock, the agent first takes it as an ordinary waiter, so that the holder and
// earlier waiters can finish.
//
// A lock that does not stand is not granted to anybody. If it still has a holder, the holder lost the lock when the
// machine lost it. Contenders queue, and notify the agent. The agent commits each change with its write to `standing`.
//
// Fencing tokens count from a base that the agent sets: the store's revision at which this machine got the lock. So the
// tokens of a key increase across all machines.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "dict/dictionary.h"
#include "dict/guard.h"
#include "gate/session.h"
#include "lock/lock_entry.h"
#include "lock/request.h"
#include "wait/watch.h"

namespace holdfast {

/// The binary logarithm of the number of grants for each base.
inline constexpr int kGrantBits = 14;
inline constexpr std::uint32_t kGrantsMax = (1U << kGrantBits) - 1;
/// Fencing tokens are less than 2^53, so that a Lua number can represent them.
inline constexpr std::uint64_t kRevisionMax = (std::uint64_t{1} << (53 - kGrantBits)) - 1;

/// The gate's fields, which follow the fields of a lock (dict/gate.h).
struct StandingFields {
  Word64 standing;    // the epoch in which this machine has the lock, and kStands; 0: it does not have the lock
  Word64 base;        // the fencing token from which grants count
  Word64 refused_ns;  // when waiters were last refused (CLOCK_MONOTONIC); 0: never
  Word32 grants;      // the number of grants since `base`
  Word32 refusal;     // the Code for which waiters were refused; it decides which waiters
};
static_assert(sizeof(StandingFields) == sizeof(GateFields));

inline StandingFields& standing_fields(GateFields& fields) noexcept {
  return reinterpret_cast<StandingFields&>(fields);
}
inline const StandingFields& standing_fields(const GateFields& fields) noexcept {
  return reinterpret_cast<const StandingFields&>(fields);
}

/// Returns the value of StandingFields::standing for an epoch.
constexpr std::uint64_t standing_in(std::uint16_t epoch) noexcept {
  constexpr std::uint64_t kStands = 1U << 16;
  return kStands | epoch;
}
/// Returns whether this machine has the lock in this session.
inline bool stands_in(const StandingFields& fields, SessionWord now) noexcept {
  return !now.lost() && fields.standing.load(kAcquire) == standing_in(now.epoch());
}

// --- for the agent ---
//
// `patience_ns`: how long a call waits for a process that is stopped inside the shard. After this time, the call
// returns timeout, and has no effect.

struct LockState {
  bool stands = false;
  bool held = false;
  bool waited_for = false;   // a process is in the queue
  bool tried_for = false;    // a process only tries
  Token first = kNobody;     // the first waiting process
  std::uint32_t grants = 0;  // the number of tokens given from the current base
};

/// Gives the lock to this machine. The lock then stands in the epoch, with tokens from revision · 2^14. Ends grants of
/// other epochs, but keeps grants of this epoch. Wakes the first waiter. An entry that was created again does not know
/// which tokens it has given out. REQUIRES: the lock still stands from this revision (state_of_lock()), or has never
/// stood at this revision. Returns ok, exists (a value), invalid (revision), not_owner (a later agent serves the
/// session now), no_memory, too_large, timeout, busy, removed, system.
Code stand(Dictionary& dictionary, std::string_view key, std::uint16_t epoch, std::uint64_t revision,
           std::uint64_t patience_ns = kMutexPatienceNs) noexcept;
/// Takes the lock from this machine, and releases the agent's lease. Does not wake waiters. Returns not_owner if the
/// agent does not hold the lease, or a code from unlock().
Code withdraw(Dictionary& dictionary, std::string_view key, Lease& lease,
              std::uint64_t patience_ns = kMutexPatienceNs) noexcept;
/// Takes the lock from this machine, and ends an expired grant, if nobody holds the lock or waits for it. Otherwise
/// returns locked.
Code withdraw_idle(Dictionary& dictionary, std::string_view key, std::uint64_t patience_ns = kMutexPatienceNs) noexcept;
/// Ends the agent's wait for a lock, and the agent's lease if it has one. If the lock was granted to the agent, it
/// passes to the next waiter. Without this call, the lock would seem to be wanted or held here.
Code leave_standing(Dictionary& dictionary, std::string_view key, const Waiter& waiter, const Lease& lease,
                    std::uint64_t patience_ns = kMutexPatienceNs) noexcept;
/// Ends waits with the reason `why`. elsewhere (another machine has the lock) and unavailable (the store does not
/// answer) end the waits of processes that only try. unsupported (the store cannot have such a lock) ends all waits.
/// Does not affect waits that begin later.
Code refuse(Dictionary& dictionary, std::string_view key, Code why,
            std::uint64_t patience_ns = kMutexPatienceNs) noexcept;
/// Records that this machine has lost the lock. From now on, no local process holds it or can get it.
Code drop(Dictionary& dictionary, std::string_view key, std::uint64_t patience_ns = kMutexPatienceNs) noexcept;
/// Reads the state of a lock. Returns not_found if the lock does not exist, and thus does not stand.
Code state_of_lock(Dictionary& dictionary, std::string_view key, LockState& state,
                   std::uint64_t patience_ns = kMutexPatienceNs) noexcept;

/// Finds the processes that hold the lock or wait for it, `count` in total. Returns too_large if they do not fit, or a
/// code from state_of_lock().
Code users_of_lock(Dictionary& dictionary, std::string_view key, std::span<Token> users, std::size_t& count,
                   std::uint64_t patience_ns = kMutexPatienceNs) noexcept;

/// Returns, as a hint, the keys that have waiters but do not stand, without duplicates. `hashes` come from
/// Session::take_wants(). If there are no hashes, checks all keys.
std::vector<std::string> wanted_keys(Dictionary& dictionary, std::span<const std::uint64_t> hashes);
/// Returns all keys that stand in this epoch, or nothing if they change too fast.
std::optional<std::vector<std::string>> standing_keys(Dictionary& dictionary, std::uint16_t epoch);

}  // namespace holdfast
