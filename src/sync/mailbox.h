// The mailbox of a process: how other processes tell it that some of its waiters may go on.
//
// Each process slot has a mailbox: entries for waiter numbers, and a futex word, `signal`, to sleep on. Both are hints.
// A sender that dies between writing the two loses a wake-up; the waiter's bounded sleep makes that good. A full
// mailbox says: look at all waiters.
//
// The signal word: bit 0   ASLEEP: a thread of the owner may sleep on it; set by the sleeper, cleared by the sender
//                  31..1   count of posts; a change ends the sleep
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/token.h"

namespace holdfast {

class World;

/// Posts `waiter` (not 0) to the process `to`: puts it into its mailbox and wakes its sleeping threads. Does nothing
/// if that process is gone. Costs no system call if none of its threads sleeps.
void post(World& world, Token to, std::uint32_t waiter) noexcept;

/// Posts to all waiters of that process: each looks at what it waits for.
void post_to_all(World& world, Token to) noexcept;

/// Does so for all processes of the world. For what happens rarely: it goes over all slots.
void post_to_everyone(World& world) noexcept;

/// Ends the sleeps of this process's threads without any mail.
void wake_own_threads(World& world) noexcept;

/// What was in the mailbox of this process.
struct Mail {
  std::size_t count;  // numbers written to `waiters`
  bool all;           // the mailbox overflowed, or its content made no sense: any waiter may have been meant
};
/// Empties the mailbox of this process into `waiters`; what does not fit stays for the next call.
Mail collect_mail(World& world, std::span<std::uint32_t> waiters) noexcept;

/// The value to pass to sleep_on_mailbox(). Read it before the last collect_mail(): a post in between then ends the
/// sleep.
std::uint32_t mailbox_value(World& world) noexcept;
/// Sleeps until somebody posts after `seen` was read, a signal comes, or the deadline (CLOCK_MONOTONIC, ns) passes.
/// False if a signal ended the sleep.
bool sleep_on_mailbox(World& world, std::uint32_t seen, std::uint64_t deadline_ns) noexcept;
/// Sleeps in the same way on any futex word, as long as it is `seen` and nothing wakes the sleepers on it.
bool sleep_on_word(const std::atomic<std::uint32_t>& word, std::uint32_t seen, std::uint64_t deadline_ns) noexcept;

}  // namespace holdfast
