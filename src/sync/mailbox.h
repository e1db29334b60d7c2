// The mailbox of a process, through which other processes notify it that some of its waiters may continue.
//
// Each process slot has a mailbox: entries for the numbers of waiters, and a futex word, `signal`, on which the
// process's threads sleep. Both are only hints. If a sender dies after it has written an entry and before it changes
// `signal`, a wake-up is lost, and the waiter wakes when its bounded sleep ends. If the mailbox is full, the process
// checks all its waiters.
//
// The signal word: bit 0   ASLEEP: a thread of the owner may be asleep; set by the sleeper, cleared by the sender
//                  31..1   count of posts; a change ends the sleep
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/token.h"

namespace holdfast {

class World;

/// Posts `waiter` (not 0) to the process `to`: puts it into the mailbox, and wakes the process's sleeping threads. Does
/// nothing if the process no longer exists. Does not make a system call if none of its threads sleeps.
void post(World& world, Token to, std::uint32_t waiter) noexcept;

/// Posts to all waiters of the process `to`, so that each waiter checks the object that it waits for.
void post_to_all(World& world, Token to) noexcept;

/// Posts to all waiters of all processes of the world (runtime directory). Call this rarely, because it walks over all
/// slots.
void post_to_everyone(World& world) noexcept;

/// Does the same for the process in each slot `s` for which bit `s % 64` of `slots` is set.
void post_to_slots(World& world, std::uint64_t slots) noexcept;

/// Ends the sleep of this process's threads without posting mail.
void wake_own_threads(World& world) noexcept;

/// The content of this process's mailbox.
struct Mail {
  std::size_t count;  // how many numbers were written to `waiters`
  bool all;           // the mailbox overflowed, or its content was invalid: any waiter may have been meant
};
/// Empties the mailbox of this process into `waiters`. Mail that does not fit stays for the next call.
Mail collect_mail(World& world, std::span<std::uint32_t> waiters) noexcept;

/// Returns the value to pass to sleep_on_mailbox(). Call this before the last collect_mail(), so that a post in between
/// ends the sleep.
std::uint32_t mailbox_value(World& world) noexcept;
/// Sleeps until another process posts after `seen` was read, a signal arrives, or the deadline (CLOCK_MONOTONIC, ns)
/// passes. Returns false if a signal ended the sleep.
bool sleep_on_mailbox(World& world, std::uint32_t seen, std::uint64_t deadline_ns) noexcept;
/// Sleeps in the same way on any futex word, as long as the word equals `seen` and nobody wakes its sleepers.
bool sleep_on_word(const std::atomic<std::uint32_t>& word, std::uint32_t seen, std::uint64_t deadline_ns) noexcept;

}  // namespace holdfast
