// The holders of a lock or of permits, and their reasons: for people. find_holders() has the mutex, and is exact, as of
// one instant. peek_holders() needs no mutex, for monitors that peek again and again.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/status.h"
#include "dict/dictionary.h"
#include "lock/request.h"

namespace holdfast {

/// A holder, as it was found at one instant.
struct HolderInfo {
  Lease lease;  // its number is 0 while the grant is incomplete (dict/lock_word.h)
  HeldKind kind = HeldKind::lock;
  std::uint64_t since_ns = 0;
  std::uint64_t end_ms = 0;                   // dict/expiry.h: 0 is never
  std::uint32_t permits = 1;                  // kAllPermits: a rwlock, to write
  std::array<char, kReasonMax + 1> reason{};  // ends with a zero byte
  std::uint64_t revision = 0;  // of a lock of a cluster: that of the store with which this machine got it

  // About its process; only `liveness` is known once its slot has another owner.
  Liveness liveness = Liveness::dead;
  std::uint32_t pid = 0;
  std::uint32_t worker = 0;
  std::array<char, 16> program{};  // ends with a zero byte
};

struct HolderCount {
  std::uint32_t holders = 0;
  std::uint32_t waiters = 0;  // watchers included
};

/// Writes as many of the holders as there is room for: those that have held longest, the oldest first. A dead holder is
/// among them, with `liveness` dead; a holder is not if its lease is over. ok, timeout, busy, removed.
Code find_holders(Dictionary& dictionary, std::string_view key, std::span<HolderInfo> holders, HolderCount& count,
                  std::uint64_t patience_ns = kMutexPatienceNs) noexcept;

struct WaiterInfo {
  Token owner = kNobody;         // its process, which may be dead
  std::uint64_t arrival_ns = 0;  // when the wait began
  std::uint32_t want = 0;        // permits that it wants, 1 for a lock
  bool watches = false;          // it waits for the end of the grant, and does not want the lock
};

/// Writes, without the mutex, as many holders and waiters as there is room for: the holders that have held longest, the
/// oldest first, and the waiters in the order of their queue, then watchers. `liveness` is unknown: the kernel is not
/// asked. ok, also for a key that nothing is known of; timeout (it changed each time), corrupt, removed.
// Holders are seen as of one instant, or there is no answer: they are read as values are (dict/shard.h). Queues are
// hints: a waiter that comes or leaves at that moment may be missed, or seen in the wrong place.
Code peek_holders(Dictionary& dictionary, std::string_view key, std::span<HolderInfo> holders,
                  std::span<WaiterInfo> waiters, HolderCount& count) noexcept;

/// Puts the oldest grant first, of `count` that were written from the youngest to the oldest, round and round.
void put_in_order(std::span<HolderInfo> holders, std::uint32_t count) noexcept;

/// Fills what the slot of the holder's process says, if that is still its own.
void describe_process(World& world, HolderInfo& holder) noexcept;

/// Stores the reason why the lease is held; an empty text takes it back. ok, not_owner, no_memory (nothing changed),
/// timeout, busy, removed. REQUIRES: `reason` has at most kReasonMax bytes.
Code explain(Dictionary& dictionary, std::string_view key, const Lease& lease, std::string_view reason) noexcept;

}  // namespace holdfast
