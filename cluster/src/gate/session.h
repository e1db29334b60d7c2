// The session of a dictionary with locks that reach over machines: until when this machine may count on what it has at
// the cluster's store, and how its processes reach the agent.
//
// The agent has one lease at the store. `word` is the epoch, which names that lease, and the deadline, before which the
// store does not end it. The agent moves the deadline on; every process that finds it passed marks the session as lost.
// That is final: the next lease is another epoch. So no two processes of this machine disagree about a lock for longer
// than a look at the clock takes, and none of them needs the agent for it.
//
// The clock is CLOCK_BOOTTIME: the store's time goes on while this machine is suspended.
//
// `wants` are hints: hashes of keys that somebody waits for and that this machine does not have. A hint that is lost
// costs the agent's next poll.
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
/// Set in each hint, which so is never 0. No arena has so many shards and buckets that the bit decides about the place.
inline constexpr std::uint64_t kWantBit = std::uint64_t{1} << 63;

/// What the gate keeps in a dictionary's header page (dict/gate.h); docs/format.md has the same byte by byte.
struct alignas(64) ClusterFields {
  std::array<char, kClusterNameMax + 1> name;  // as in GateHeader
  std::uint64_t name_seal;

  Word64 word;     // SessionWord
  Word64 lease;    // at the store, of that epoch
  Word64 agent;    // Token of the agent; a hint
  Word32 waiter;   // the agent's waiter to post to; a hint
  Word32 missed;   // not 0: there was no room in `wants`
  Word32 trouble;  // StoreTrouble

  alignas(64) std::array<Word64, kWants> wants;
};
static_assert(sizeof(ClusterFields) == sizeof(GateHeader));

/// The reason why no new lock is granted though the session lasts. Held locks stay held.
enum class StoreTrouble : std::uint32_t {
  none,
  unanswered,  // the store says nothing
  no_room,     // its database is full
  no_leader,
  denied,    // what the agent's user may not do
  refused,   // for another reason
  draining,  // not the store: the agent takes no new locks
};

/// epoch · deadline: bits 63..48 the epoch; bits 47..0 the deadline (CLOCK_BOOTTIME, ms), 0 once the session is lost.
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

  /// As it is now: lost, if the deadline has passed. Marks that.
  SessionWord now() const noexcept;
  /// The same, and marks nothing: for observers.
  SessionWord seen() const noexcept;

  // --- for the agent ---

  /// Moves the deadline on, or back. False if the session is not `from` any more: it was lost meanwhile.
  bool renew(SessionWord from, std::uint64_t deadline_ms) const noexcept;
  /// Ends it, if it is still of this epoch.
  void lose(std::uint16_t epoch) const noexcept;
  /// Begins another one. False if the session is not `last` any more: a later agent has begun its own. REQUIRES: `last`
  /// is lost, and no lock stands in `epoch`.
  bool begin(SessionWord last, std::uint16_t epoch, std::uint64_t lease, std::uint64_t deadline_ms) const noexcept;
  /// Of the epoch that was seen before, or of a later one.
  std::uint64_t lease() const noexcept;
  /// Where processes reach the agent from now on. False if it is not that of `before` any more.
  bool attend(Token before, Token agent, std::uint32_t waiter) const noexcept;
  Token agent() const noexcept { return fields_.agent.load(kAcquire); }  // pairs with attend()
  void note(StoreTrouble trouble) const noexcept;
  /// Moves the hints to `hashes`, and returns how many there are; more than fit if some were missed: look at all locks.
  std::size_t take_wants(std::span<std::uint64_t, kWants> hashes) const noexcept;

  // --- for contenders ---

  /// As the agent has noted it. What is none of these was overwritten, and is `none`.
  StoreTrouble trouble() const noexcept;

  /// Tells the agent that the key with that hash is wanted. Does nothing if it was told and has not looked yet.
  void want(World& world, std::uint64_t hash) const noexcept;

 private:
  ClusterFields& fields_;
};

}  // namespace holdfast
