// Standing: whether this machine has a lock of a cluster, so that its processes may take it.
//
// A lock stands in an epoch of the session (gate/session.h): the agent says so when the store has given the lock to
// this machine. While it stands, its processes hand it on among themselves as any lock. It no longer stands when the
// deadline of the session passes, for all processes at the same moment, or when the agent withdraws it, which needs the
// lock itself: as an ordinary fair waiter the agent lets the present holder and those before it finish.
//
// A lock that does not stand is granted to nobody, and its holder, if it has one, holds nothing: its machine has lost
// the lock. Contenders queue, and tell the agent. The store of `standing` is the commit of all that the agent does.
//
// Fencing numbers count from the base that the agent gives: the revision of the store in which this machine got the
// lock. They rise over all machines, for each key.
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

/// Grants that have a number of one base.
inline constexpr int kGrantBits = 14;
inline constexpr std::uint32_t kGrantsMax = (1U << kGrantBits) - 1;
/// Fencing numbers stay below 2^53, so that a number of Lua holds them.
inline constexpr std::uint64_t kRevisionMax = (std::uint64_t{1} << (53 - kGrantBits)) - 1;

/// What the gate keeps behind the fields of a lock (dict/gate.h).
struct StandingFields {
  Word64 standing;    // the session's epoch in which this machine has the lock, and kStands; 0: it does not have it
  Word64 base;        // fencing number that the numbers of its grants count from
  Word64 refused_ns;  // when waiters were last sent away (CLOCK_MONOTONIC); 0: they were not
  Word32 grants;      // since `base`
  Word32 refusal;     // why: a Code, from which it follows which they are
};
static_assert(sizeof(StandingFields) == sizeof(GateFields));

inline StandingFields& standing_fields(GateFields& fields) noexcept {
  return reinterpret_cast<StandingFields&>(fields);
}
inline const StandingFields& standing_fields(const GateFields& fields) noexcept {
  return reinterpret_cast<const StandingFields&>(fields);
}

/// What StandingFields::standing says of an epoch.
constexpr std::uint64_t standing_in(std::uint16_t epoch) noexcept {
  constexpr std::uint64_t kStands = 1U << 16;
  return kStands | epoch;
}
/// Whether this machine has the lock in that session.
inline bool stands_in(const StandingFields& fields, SessionWord now) noexcept {
  return !now.lost() && fields.standing.load(kAcquire) == standing_in(now.epoch());
}

// --- for the agent ---
//
// `patience_ns`: how long a call may wait for a process that is stopped inside the shard; then timeout, and nothing is
// changed or known.

struct LockState {
  bool stands = false;
  bool held = false;
  bool waited_for = false;   // by a process that waits for its turn
  bool tried_for = false;    // by one that only tries
  Token first = kNobody;     // the first process that waits
  std::uint32_t grants = 0;  // numbers given from the present base
};

/// Gives the lock to this machine: it stands in the epoch, with numbers from revision · 2^14. What was granted in
/// another epoch ends; what was granted in this one stays. Wakes the first waiter. REQUIRES: the lock still stands from
/// that revision (state_of_lock()), or never did: an entry that was made anew does not know which numbers it gave. ok,
/// exists (a value), invalid (revision), not_owner (another agent attends the session by now), no_memory, too_large,
/// timeout, busy, removed, system.
Code stand(Dictionary& dictionary, std::string_view key, std::uint16_t epoch, std::uint64_t revision,
           std::uint64_t patience_ns = kMutexPatienceNs) noexcept;
/// Takes the lock from this machine and releases the lease, which is the agent's. Wakes nobody. not_owner: the agent
/// does not hold it; also the codes of unlock().
Code withdraw(Dictionary& dictionary, std::string_view key, Lease& lease,
              std::uint64_t patience_ns = kMutexPatienceNs) noexcept;
/// The same if nobody holds it or waits for it, and ends a grant that has run out; else locked.
Code withdraw_idle(Dictionary& dictionary, std::string_view key, std::uint64_t patience_ns = kMutexPatienceNs) noexcept;
/// Ends the agent's wait for a lock, and its lease if it has one; hands on what was granted to it. Else the lock would
/// seem to be wanted here, or to be held.
Code leave_standing(Dictionary& dictionary, std::string_view key, const Waiter& waiter, const Lease& lease,
                    std::uint64_t patience_ns = kMutexPatienceNs) noexcept;
/// Ends the waits of those that only try, with `why`: elsewhere (another machine has the lock), or unavailable (the
/// store does not answer); or all waits: unsupported (the store cannot have such a lock). Those that come later wait
/// for the next answer.
Code refuse(Dictionary& dictionary, std::string_view key, Code why,
            std::uint64_t patience_ns = kMutexPatienceNs) noexcept;
/// The lock is not this machine's any more: nobody holds it from now on, nor is granted it.
Code drop(Dictionary& dictionary, std::string_view key, std::uint64_t patience_ns = kMutexPatienceNs) noexcept;
/// not_found: there is no such lock, so it does not stand.
Code state_of_lock(Dictionary& dictionary, std::string_view key, LockState& state,
                   std::uint64_t patience_ns = kMutexPatienceNs) noexcept;

/// The owners of the lock and of the waiters for it, `count` of them. too_large: there are more than fit. Also the
/// codes of state_of_lock().
Code users_of_lock(Dictionary& dictionary, std::string_view key, std::span<Token> users, std::size_t& count,
                   std::uint64_t patience_ns = kMutexPatienceNs) noexcept;

/// The keys that are waited for and do not stand, each once: a hint. `hashes`: of Session::take_wants(), or empty: look
/// at all.
std::vector<std::string> wanted_keys(Dictionary& dictionary, std::span<const std::uint64_t> hashes);
/// The keys that stand in that epoch, all of them; nothing if they change too fast to be told.
std::optional<std::vector<std::string>> standing_keys(Dictionary& dictionary, std::uint16_t epoch);

}  // namespace holdfast
