#include "sync/mailbox.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "platform/platform.h"
#include "world/process_table.h"
#include "world/world.h"

namespace holdfast {

namespace {

constexpr std::uint32_t kAsleep = 1;
constexpr std::uint32_t kOnePost = 2;

// The bits of ProcessSlot::mail_state.
constexpr std::uint32_t kMailArrived = 1;
constexpr std::uint32_t kMailOverflowed = 2;

// Sleeps in a process without an identity, which has no mailbox. The sleep is short, because nobody can end it early.
// No benchmark covers kLongestNs; mailbox_test.cc has such a process.
bool sleep_without_mailbox(std::uint64_t deadline_ns) noexcept {
  constexpr std::uint64_t kLongestNs = 10 * kNsPerMs;
  const std::uint64_t end_ns = std::min(deadline_ns, platform::monotonic_ns() + kLongestNs);
  platform::sleep_until(end_ns);
  return platform::monotonic_ns() >= end_ns;
}

constexpr std::uint32_t posts(std::uint32_t word) noexcept { return word & ~kAsleep; }

ProcessSlot* own_slot(World& world) noexcept {
  const Token token = world.token();
  return token == kNobody ? nullptr : world.slot(token);
}

/// Puts the waiter into an entry. Returns false if every entry is taken.
bool deposit(ProcessSlot& slot, std::uint32_t waiter) noexcept {
  for (std::uint32_t i = 0; i < kMailboxEntries; ++i) {
    // Start at the entry that belongs to the number, so that a waiter that is posted twice is found immediately, and
    // uses only one entry.
    std::atomic<std::uint32_t>& entry = slot.mail[(waiter + i) % kMailboxEntries];
    std::uint32_t found = entry.load(std::memory_order_relaxed);
    if (found == waiter) return true;
    // Relaxed: mail_state publishes it.
    if (found == 0 && entry.compare_exchange_strong(found, waiter, std::memory_order_relaxed)) return true;
    if (found == waiter) return true;
  }
  return false;
}

void notify(ProcessSlot& slot) noexcept {
  std::uint32_t word = slot.signal.load(std::memory_order_relaxed);
  // Release: pairs with the acquire in mailbox_value(). A reader that sees this post finds its mail.
  while (!slot.signal.compare_exchange_weak(word, posts(word) + kOnePost, std::memory_order_release,
                                            std::memory_order_relaxed)) {
  }
  // Wake all threads, because the waiter may belong to any thread.
  if ((word & kAsleep) != 0) platform::futex_wake(slot.signal, std::numeric_limits<int>::max());
}

void tell_all(ProcessSlot& slot) noexcept {
  // Release: pairs with the acquire in collect_mail(). The reader then sees all changes that were made before this.
  slot.mail_state.fetch_or(kMailOverflowed, std::memory_order_release);
  notify(slot);
}

}  // namespace

void post(World& world, Token to, std::uint32_t waiter) noexcept {
  ProcessSlot* const slot = world.slot(to);
  // If the slot gets another owner after this, that owner gets a harmless hint.
  if (slot == nullptr) return;
  // This fence pairs with the fence in collect_mail(). If deposit() finds an older entry of this waiter that another
  // thread is taking right now, that thread sees what this process changed before it posted.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  // Release: pairs with the acquire in collect_mail(), which then finds the entry.
  slot->mail_state.fetch_or(deposit(*slot, waiter) ? kMailArrived : kMailOverflowed, std::memory_order_release);

  notify(*slot);
}

void post_to_all(World& world, Token to) noexcept {
  if (ProcessSlot* const slot = world.slot(to)) tell_all(*slot);
}

void post_to_everyone(World& world) noexcept {
  for (std::uint32_t i = 0; i < kSlots; ++i)
    if (ProcessSlot* const slot = world.slot_at(i)) tell_all(*slot);
}

void post_to_slots(World& world, std::uint64_t slots) noexcept {
  for (; slots != 0; slots &= slots - 1) {
    for (auto i = static_cast<std::uint32_t>(std::countr_zero(slots)); i < kSlots; i += 64)
      if (ProcessSlot* const slot = world.slot_at(i)) tell_all(*slot);
  }
}

void wake_own_threads(World& world) noexcept {
  if (ProcessSlot* const slot = own_slot(world)) notify(*slot);
}

Mail collect_mail(World& world, std::span<std::uint32_t> waiters) noexcept {
  ProcessSlot* const slot = own_slot(world);
  if (slot == nullptr || slot->mail_state.load(std::memory_order_relaxed) == 0) return {.count = 0, .all = false};
  // Clear the state before reading the entries, so that mail that arrives in the meantime sets it again.
  const std::uint32_t state = slot->mail_state.exchange(0, std::memory_order_acquire);
  Mail mail{.count = 0, .all = (state & kMailOverflowed) != 0};
  for (std::atomic<std::uint32_t>& entry : slot->mail) {
    if (entry.load(std::memory_order_relaxed) == 0) continue;
    if (mail.count == waiters.size()) {
      slot->mail_state.fetch_or(kMailArrived, std::memory_order_relaxed);  // the remaining mail stays for the next call
      break;
    }
    // Another thread of this process may have taken the entry first.
    if (const std::uint32_t waiter = entry.exchange(0, std::memory_order_relaxed)) waiters[mail.count++] = waiter;
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);  // pairs with the one in post()
  return mail;
}

std::uint32_t mailbox_value(World& world) noexcept {
  const ProcessSlot* const slot = own_slot(world);
  // Acquire: pairs with the release in post().
  return slot == nullptr ? 0 : slot->signal.load(std::memory_order_acquire);
}

bool sleep_on_mailbox(World& world, std::uint32_t seen, std::uint64_t deadline_ns) noexcept {
  ProcessSlot* const slot = own_slot(world);
  if (slot == nullptr) return sleep_without_mailbox(deadline_ns);
  std::uint32_t word = slot->signal.load(std::memory_order_relaxed);
  do {
    if (posts(word) != posts(seen)) return true;
  } while ((word & kAsleep) == 0 &&
           !slot->signal.compare_exchange_weak(word, word | kAsleep, std::memory_order_relaxed));
  // A later post changes the word, so the kernel then does not let this thread sleep.
  return sleep_on_word(slot->signal, word | kAsleep, deadline_ns);
}

bool sleep_on_word(const std::atomic<std::uint32_t>& word, std::uint32_t seen, std::uint64_t deadline_ns) noexcept {
  switch (platform::futex_wait(word, seen, deadline_ns)) {
    case platform::WaitResult::failed:
      return sleep_without_mailbox(deadline_ns);
    case platform::WaitResult::interrupted:
      return false;
    default:
      return true;
  }
}

}  // namespace holdfast
