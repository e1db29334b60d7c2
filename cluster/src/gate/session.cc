#include "gate/session.h"

#include "base/time.h"
#include "platform/platform.h"
#include "sync/mailbox.h"

namespace holdfast {

std::uint64_t boottime_ms() noexcept { return platform::boottime_ns() / kNsPerMs; }

// The loads are relaxed, because their order does not matter. A stale deadline belongs to the same lease, and is
// earlier. Once a session is lost, this machine has no lock of its epoch any longer, whatever values a process reads
// from the other words.
SessionWord Session::now() const noexcept {
  SessionWord word{fields_.word.load(kRelaxed)};
  while (!word.lost() && boottime_ms() >= word.deadline_ms())
    if (fields_.word.compare_exchange_weak(word.bits, word.as_lost().bits, kRelaxed)) return word.as_lost();
  return word;
}

SessionWord Session::seen() const noexcept {
  const SessionWord word{fields_.word.load(kRelaxed)};
  return boottime_ms() >= word.deadline_ms() ? word.as_lost() : word;
}

bool Session::renew(SessionWord from, std::uint64_t deadline_ms) const noexcept {
  if (from.lost() || boottime_ms() >= from.deadline_ms()) return false;
  std::uint64_t expected = from.bits;
  return fields_.word.compare_exchange_strong(expected, SessionWord::make(from.epoch(), deadline_ms).bits, kRelaxed);
}

void Session::lose(std::uint16_t epoch) const noexcept {
  SessionWord word{fields_.word.load(kRelaxed)};
  while (word.epoch() == epoch && !word.lost())
    if (fields_.word.compare_exchange_weak(word.bits, word.as_lost().bits, kRelaxed)) return;
}

// Writes the lease first, while the session is lost, so that an agent that adopts the session finds the lease of that
// epoch. But an agent that is stopped here may later write its lease into its successor's session. So before an agent
// that adopts a session moves the deadline, it reads from the store which keys are attached to the lease
// (agent/keeper.h).
bool Session::begin(SessionWord last, std::uint16_t epoch, std::uint64_t lease,
                    std::uint64_t deadline_ms) const noexcept {
  std::uint64_t expected = last.bits;
  const SessionWord next = SessionWord::make(epoch, deadline_ms);
  if (!fields_.word.compare_exchange_strong(expected, next.as_lost().bits, kRelaxed)) return false;
  fields_.lease.store(lease, kRelaxed);
  expected = next.as_lost().bits;
  // Release: pairs with the fence in lease().
  return fields_.word.compare_exchange_strong(expected, next.bits, std::memory_order_release, kRelaxed);
}

std::uint64_t Session::lease() const noexcept {
  std::atomic_thread_fence(kAcquire);
  return fields_.lease.load(kRelaxed);
}

// Writes the agent first. The waiter is a hint, and may be wrong until the remaining agent corrects it. The memory
// order is acquire-release, so that an agent that sees a different agent here also sees which dictionaries that agent
// has already taken over.
bool Session::attend(Token before, Token agent, std::uint32_t waiter) const noexcept {
  if (!fields_.agent.compare_exchange_strong(before, agent, std::memory_order_acq_rel, kRelaxed)) return false;
  fields_.waiter.store(waiter, kRelaxed);
  return true;
}

// This access is relaxed, because only a message and the reason for a failed wait depend on it. If the value is
// overwritten, the next call repairs it.
void Session::note(StoreTrouble trouble) const noexcept {
  const auto number = static_cast<std::uint32_t>(trouble);
  if (fields_.trouble.load(kRelaxed) != number) fields_.trouble.store(number, kRelaxed);
}

StoreTrouble Session::trouble() const noexcept {
  const auto trouble = static_cast<StoreTrouble>(fields_.trouble.load(kRelaxed));
  return trouble <= StoreTrouble::draining ? trouble : StoreTrouble::none;
}

// Takes `missed` first, so that if a later hint finds no room, the next call sees that it was missed.
std::size_t Session::take_wants(std::span<std::uint64_t, kWants> hashes) const noexcept {
  const bool missed = fields_.missed.exchange(0, kAcquire) != 0;
  std::size_t count = 0;
  for (Word64& want : fields_.wants)
    if (const std::uint64_t hash = want.exchange(0, kAcquire); hash != 0) hashes[count++] = hash;
  return missed ? kWants + 1 : count;
}

// This store and the store to `missed` are release stores, so that the agent, which checks the lock after it has taken
// the hint, sees the queued waiter.
void Session::want(World& world, std::uint64_t hash) const noexcept {
  const std::uint64_t wanted = hash | kWantBit;
  Word64& place = fields_.wants[hash % kWants];
  std::uint64_t there = 0;
  if (!place.compare_exchange_strong(there, wanted, kRelease, kRelaxed)) {
    if (there == wanted) return;
    if (fields_.missed.exchange(1, kRelease) != 0) return;
  }
  const Token agent = fields_.agent.load(kAcquire);
  if (agent != kNobody) post(world, agent, fields_.waiter.load(kRelaxed));
}

}  // namespace holdfast
