// The session of a dictionary that belongs to a cluster. The session says how long this machine may rely on the locks
// that it has at the cluster's store, and how the machine's processes reach the agent.
//
// The agent has one lease at the store. `word` contains the epoch, which identifies the lease, and a deadline. The
// store does not end the lease before the deadline, which the agent keeps extending. If any process finds that the
// deadline has passed, it marks the session as lost. The loss is final, because the next lease has a new epoch. So two
// processes of this machine can disagree about a lock only for the time that it takes to read the clock, even without
// an agent.
//
// The clock is CLOCK_BOOTTIME, because the store's time continues while this machine is suspended.
//
// `wants` contains hints: the hashes of keys that have waiters, but whose locks this machine does not have. If a hint
// is lost, the lock is delayed until the agent's next poll.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/atomic.h"
#include "base/token.h"
#include "dict/gate.h"
#include "dict/segment.h"

namespace holdfast {

class World;

inline constexpr std::size_t kWants = 16;
/// This bit is set in each hint, so that no hint is 0. No arena has enough shards and buckets to use this bit of a
/// hash.
inline constexpr std::uint64_t kWantBit = std::uint64_t{1} << 63;

/// The gate's fields in a dictionary's header page (dict/gate.h). docs/format.md lists the offsets of the fields that
/// observers read.
struct alignas(64) ClusterFields {
  std::array<char, kClusterNameMax + 1> name;  // as in GateHeader
  std::uint64_t name_seal;                     // the complement of the name's XXH3 with seed 0; 0: no name

  Word64 word;     // SessionWord
  Word64 lease;    // the lease of that epoch at the store
  Word64 agent;    // the agent's Token; a hint
  Word32 waiter;   // the agent's waiter, which processes notify; a hint
  Word32 missed;   // not 0 if `wants` was full
  Word32 trouble;  // StoreTrouble

  alignas(64) std::array<Word64, kWants> wants;  // the index of a hash is the hash modulo kWants
};
static_assert(sizeof(ClusterFields) == sizeof(GateHeader));

/// The reason why no new lock is granted while the session lasts. Locks that are held remain held.
enum class StoreTrouble : std::uint32_t {
  none,
  unanswered,  // the store does not answer
  no_room,     // the store's database is full
  no_leader,
  denied,    // the agent's user lacks permission
  refused,   // the store refuses the lock for another reason
  draining,  // the agent itself takes no new locks
};

/// The epoch in bits 63 to 48, and the deadline (CLOCK_BOOTTIME, ms) in bits 47 to 0. The deadline is 0 once the
/// session is lost.
struct SessionWord {
  std::uint64_t bits;

  static constexpr int kEpochShift = 48;
  static constexpr std::uint64_t kDeadlineMask = (std::uint64_t{1} << kEpochShift) - 1;

  static constexpr SessionWord make(std::uint16_t epoch, std::uint64_t deadline_ms) noexcept {
    return {std::uint64_t{epoch} << kEpochShift | (deadline_ms & kDeadlineMask)};
  }
  constexpr std::uint16_t epoch() const noexcept { return static_cast<std::uint16_t>(bits >> kEpochShift); }
  constexpr std::uint64_t deadline_ms() const noexcept { return bits & kDeadlineMask; }
  constexpr bool lost() const noexcept { return deadline_ms() == 0; }
  constexpr SessionWord as_lost() const noexcept { return make(epoch(), 0); }
  constexpr bool operator==(const SessionWord&) const = default;
};

inline ClusterFields& cluster_fields(DictionaryHeader& header) noexcept {
  return reinterpret_cast<ClusterFields&>(header.gate);
}

std::uint64_t boottime_ms() noexcept;

class Session {
 public:
  explicit Session(ClusterFields& fields) noexcept : fields_(fields) {}
  /// REQUIRES: the dictionary has a gate.
  explicit Session(const Segment& segment) noexcept : Session(cluster_fields(segment.header())) {}

  /// Returns the current state. If the deadline has passed, marks the session as lost.
  SessionWord now() const noexcept;
  /// Returns the current state for an observer, without marking anything.
  SessionWord seen() const noexcept;

  // --- for the agent ---

  /// Moves the deadline forward or back. Returns false if the session has changed since `from` was read, because it was
  /// lost.
  bool renew(SessionWord from, std::uint64_t deadline_ms) const noexcept;
  /// Ends the session if it still has this epoch.
  void lose(std::uint16_t epoch) const noexcept;
  /// Begins a new session. Returns false if the session has changed since `last` was read, because a later agent has
  /// begun its own session. REQUIRES: `last` is lost, and no lock stands in `epoch`.
  bool begin(SessionWord last, std::uint16_t epoch, std::uint64_t lease, std::uint64_t deadline_ms) const noexcept;
  /// Returns the lease of the epoch that the caller has seen, or of a later epoch.
  std::uint64_t lease() const noexcept;
  /// Sets the agent, and the waiter through which processes notify it. Returns false if the agent is no longer
  /// `before`.
  bool attend(Token before, Token agent, std::uint32_t waiter) const noexcept;
  Token agent() const noexcept { return fields_.agent.load(kAcquire); }  // pairs with attend()
  void note(StoreTrouble trouble) const noexcept;
  /// Moves the hints to `hashes`, and returns their number. A number larger than kWants means that hints were missed,
  /// and all locks must be checked.
  std::size_t take_wants(std::span<std::uint64_t, kWants> hashes) const noexcept;

  // --- for contenders ---

  /// Returns the trouble that the agent has recorded. An invalid value was overwritten, and counts as `none`.
  StoreTrouble trouble() const noexcept;

  /// Notifies the agent that the key with this hash is wanted. Does nothing if the agent has not read an earlier
  /// notification yet.
  void want(World& world, std::uint64_t hash) const noexcept;

 private:
  ClusterFields& fields_;
};

}  // namespace holdfast
