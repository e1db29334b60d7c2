// Reports the holders of a lock or of permits, and the reasons why they hold it. find_holders() takes the mutex and is
// exact for one moment. peek_holders() takes no mutex, and is for monitors that call it repeatedly.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/status.h"
#include "dict/dictionary.h"
#include "lock/request.h"

namespace holdfast {

/// A holder at one moment.
struct HolderInfo {
  Lease lease;  // the fencing token is 0 while the grant is incomplete (dict/lock_word.h)
  HeldKind kind = HeldKind::lock;
  std::uint64_t since_ns = 0;
  std::uint64_t end_ms = 0;                   // dict/expiry.h: 0 means never
  std::uint32_t permits = 1;                  // kAllPermits: an rwlock's writer
  std::array<char, kReasonMax + 1> reason{};  // ends with a zero byte
  std::uint64_t revision = 0;  // in a cluster: the revision of the store at which this machine got the lock

  // The fields below describe the holder's process. If the slot already belongs to another process, only `liveness` is
  // known.
  Liveness liveness = Liveness::dead;
  std::uint32_t pid = 0;
  std::uint32_t worker = 0;
  std::array<char, 16> program{};  // ends with a zero byte
};

struct HolderCount {
  std::uint32_t holders = 0;
  std::uint32_t waiters = 0;  // including watchers
};

/// Writes the holders, the oldest first. If not all fit, writes those that have held longest. Includes dead holders,
/// with `liveness` dead. Excludes holders whose lease has ended. Returns ok, timeout, busy or removed.
Code find_holders(Dictionary& dictionary, std::string_view key, std::span<HolderInfo> holders, HolderCount& count,
                  std::uint64_t patience_ns = kMutexPatienceNs) noexcept;

struct WaiterInfo {
  Token owner = kNobody;         // the waiting process, which may be dead
  std::uint64_t arrival_ns = 0;  // when the wait began
  std::uint32_t want = 0;        // number of permits that the waiter wants; 1 for a lock
  bool watches = false;          // it only waits for the end of the grant, and does not want the lock
};

/// Writes, without the mutex, as many holders and waiters as fit: the holders that have held longest, the oldest first;
/// the waiters in the order of their queue; and then the watchers. `liveness` is unknown, because the kernel is not
/// asked. Returns ok, also for an unknown key; timeout (the entry changed at each attempt), corrupt or removed.
// Holders are read like values (dict/shard.h), so the call either sees all of them at one moment or fails. The queues
// are only hints: a waiter that arrives or leaves at that moment may be missed, or appear in the wrong position.
Code peek_holders(Dictionary& dictionary, std::string_view key, std::span<HolderInfo> holders,
                  std::span<WaiterInfo> waiters, HolderCount& count) noexcept;

/// Sorts the holders, the oldest grant first. REQUIRES: `count` grants were written into `holders` as a ring, from the
/// youngest to the oldest.
void put_in_order(std::span<HolderInfo> holders, std::uint32_t count) noexcept;

/// Fills in the description of the holder's process from its slot, if the slot still belongs to that process.
void describe_process(World& world, HolderInfo& holder) noexcept;

/// Stores the reason why the lease is held; an empty text removes the reason. Returns ok, not_owner, no_memory (the old
/// reason stays), timeout, busy or removed. REQUIRES: `reason` has at most kReasonMax bytes.
Code explain(Dictionary& dictionary, std::string_view key, const Lease& lease, std::string_view reason) noexcept;

}  // namespace holdfast
