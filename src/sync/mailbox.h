// The bell: how one process tells another that some of its waiters may go on.
//
// Each process slot has a mailbox of waiter numbers and a futex word. Both are hints: a ringer that dies between the
// two loses a wake-up, which the waiter's bounded sleep makes good; a full mailbox says "look at all of them".
//
// The bell word:  bit 0   ASLEEP: a thread of the owner may sleep on it; set by the sleeper, cleared by the ringer
//                 31..1   count of rings; a change ends the sleep
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/token.h"

namespace holdfast {

class World;

/// Puts `waiter` (not 0) into the mailbox of that process and wakes it. Nothing happens if it is gone.
/// A process that does not sleep costs no system call.
void post(World& world, Token whom, std::uint32_t waiter) noexcept;

/// The same for all of its waiters: they look.
void post_to_all(World& world, Token whom) noexcept;

/// Ends the sleeps of this process's threads; there is no mail.
void wake_own_threads(World& world) noexcept;

/// What this process finds in its own mailbox.
struct Mail {
  std::size_t count;  // numbers written
  bool all;           // the mailbox overflowed or its content made no sense: every waiter may have been woken
};
Mail collect_mail(World& world, std::span<std::uint32_t> waiters) noexcept;

/// Value to pass to sleep_on_mailbox. Read it before looking for mail the last time: a ring in between ends the sleep.
std::uint32_t mailbox_value(World& world) noexcept;
/// Sleeps until the bell rings after `seen` was read, a signal comes, or the deadline (CLOCK_MONOTONIC, ns) passes.
/// False if it was a signal that ended it.
bool sleep_on_mailbox(World& world, std::uint32_t seen, std::uint64_t deadline_ns) noexcept;
/// The same on any word, while it is `seen`, until somebody wakes those who sleep on it.
bool sleep_on_word(const std::atomic<std::uint32_t>& word, std::uint32_t seen, std::uint64_t deadline_ns) noexcept;

}  // namespace holdfast
