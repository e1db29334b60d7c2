// Tests the mailbox and its signal word (src/sync/mailbox.cc), and a parker's sleep on them (src/wait/parking_lot.cc).
#include "weak/protocol.h"

namespace holdfast::weak {
namespace {

struct Posting : Protocol {
  Ordering deposit_fence{this, "deposit_fence", kSeqCst, {kRelaxed, kAcqRel}};  // post
  Ordering collect_fence{this, "collect_fence", kSeqCst, {kRelaxed, kAcqRel}};  // collect_mail
  Ordering arrived{this, "arrived", kRelease};                                  // post: mail_state
  Ordering collect{this, "collect", kAcquire};                                  // collect_mail: mail_state
  Ordering notify{this, "notify", kRelease};                                    // notify
  Ordering mailbox_value{this, "mailbox_value", kAcquire};                      // mailbox_value
  Precaution value_before_mail{this, "value_before_mail"};                      // Parker::sleep
  Precaution marks_sleep{this, "marks_sleep"};                                  // sleep_on_mailbox
  Precaution notify_after_mail{this, "notify_after_mail"};                      // post
  Precaution state_before_entries{this, "state_before_entries"};                // collect_mail
};

constexpr Value kAsleep = 1;
constexpr Value kOnePost = 2;
constexpr Value kWaiter = 7;

/// A process slot whose mailbox has one entry, and the event for which its waiter waits.
struct Slot {
  Program program;
  Location thing = program.location("what is waited for");
  Location entry = program.location("entry");
  Location state = program.location("mail_state");
  Location signal = program.location("signal");

  /// Models notify. Returns whether the sleeper may have to be woken.
  bool notify(const Posting& how, Thread& t) const {
    Value word = t.load(signal, kRelaxed);
    while (!t.compare_exchange(signal, word, (word & ~kAsleep) + kOnePost, how.notify)) {
    }
    return (word & kAsleep) != 0;
  }

  /// Models post. Returns whether it found an older letter to the same waiter, which it left there.
  bool deposit(const Posting& how, Thread& t) const {
    t.fence(how.deposit_fence);
    Value found = t.load(entry, kRelaxed);
    const bool older = found == kWaiter || !t.compare_exchange(entry, found, kWaiter, kRelaxed);
    t.fetch_or(state, 1, how.arrived);
    return older;
  }

  /// Models collect_mail. Returns whether there was any mail.
  bool collect(const Posting& how, Thread& t) const {
    if (t.load(state, kRelaxed) == 0) return false;
    bool any = false;
    const auto take_entry = [&] { any = t.load(entry, kRelaxed) != 0 && t.exchange(entry, 0, kRelaxed) != 0; };
    if (!how.state_before_entries) take_entry();
    t.exchange(state, 0, how.collect);
    if (how.state_before_entries) take_entry();
    t.fence(how.collect_fence);
    return any;
  }

  /// Models sleep_on_mailbox. Returns whether the kernel lets the thread sleep.
  bool sleep(const Posting& how, Thread& t, Value seen) const {
    Value word = t.load(signal, kRelaxed);
    do {
      if ((word & ~kAsleep) != (seen & ~kAsleep)) return false;
    } while (how.marks_sleep && (word & kAsleep) == 0 && !t.compare_exchange(signal, word, word | kAsleep, kRelaxed));
    return t.load(signal, kRelaxed) == (how.marks_sleep ? word | kAsleep : word);
  }
};

/// Posts one letter to a process that polls once and goes to sleep.
Program posting_to_a_sleeper(const Posting& how) {
  Slot slot;
  slot.program.thread([=](Thread& t) {
    bool woken = !how.notify_after_mail && slot.notify(how, t);
    slot.deposit(how, t);
    if (how.notify_after_mail) woken = slot.notify(how, t);
    t.observe("woken", woken ? 1 : 0);
  });
  slot.program.thread([=](Thread& t) {
    Value seen = how.value_before_mail ? t.load(slot.signal, how.mailbox_value) : 0;
    t.require(!slot.collect(how, t));
    if (!how.value_before_mail) seen = t.load(slot.signal, how.mailbox_value);
    t.observe("sleeps", slot.sleep(how, t, seen) ? 1 : 0);
  });
  slot.program.finally("a process that sleeps although it has mail is woken", [](const Outcome& outcome) {
    return !outcome.contains("sleeps") || outcome.at("sleeps") == 0 || outcome.at("woken") == 1;
  });
  return slot.program;
}

/// Posts a second letter to the same waiter while the first is being collected.
Program finding_an_older_letter(const Posting& how) {
  Slot slot;
  slot.program.thread([=](Thread& t) { slot.deposit(how, t); });
  slot.program.thread([=](Thread& t) {
    t.store(slot.thing, 1, kRelaxed);
    t.observe("found older", slot.deposit(how, t) ? 1 : 0);
  });
  slot.program.thread([=](Thread& t) {
    const bool any = slot.collect(how, t);
    t.require(any);
    t.observe("saw", t.load(slot.thing, kRelaxed));
  });
  slot.program.finally("a second letter that was not added counts as collected with the first",
                       [](const Outcome& outcome) {
                         if (!outcome.contains("saw") || outcome.at("found older") == 0) return true;
                         return outcome.at("saw") == 1;
                       });
  return slot.program;
}

/// The collector of a letter must see all changes before the letter was sent, even without the fences.
Program collecting(const Posting& how) {
  Slot slot;
  slot.program.thread([=](Thread& t) {
    t.store(slot.thing, 1, kRelaxed);
    slot.deposit(how, t);
  });
  slot.program.thread([=](Thread& t) {
    t.require(slot.collect(how, t));
    t.claim(t.load(slot.thing, kRelaxed) == 1, "the collector of a letter sees the change that it reports");
  });
  return slot.program;
}

/// The state of the mail is cleared before the entries are read, so mail that arrives in between sets the state again.
Program arriving_while_collected(const Posting& how) {
  Slot slot;
  const Location sent = slot.program.location("letters sent");
  for (int i = 0; i < 2; ++i)
    slot.program.thread([=](Thread& t) {
      slot.deposit(how, t);
      t.fetch_add(sent, 1, kAcqRel);
    });
  slot.program.thread([=](Thread& t) {
    slot.collect(how, t);
    t.require(t.load(sent, kAcquire) == 2);
    const bool empty = t.load(slot.entry, kRelaxed) == 0;
    t.claim(empty || t.load(slot.state, kRelaxed) != 0, "a mailbox with a letter does not count as empty");
  });
  return slot.program;
}

std::vector<Program> programs(const Posting& how) {
  return {posting_to_a_sleeper(how), finding_an_older_letter(how), collecting(how), arriving_while_collected(how)};
}

TEST(weak_mailbox, no_wake_up_is_lost_and_each_ordering_is_needed) { expect_proof(programs); }

TEST(weak_mailbox, the_sources_contain_the_modelled_lines) {
  expect_quotes({
      {"src/sync/mailbox.cc",
       "slot.signal.compare_exchange_weak(word, posts(word) + kOnePost, std::memory_order_release,"},
      {"src/sync/mailbox.cc", "std::atomic_thread_fence(std::memory_order_seq_cst);  // pairs with the one in post()"},
      {"src/sync/mailbox.cc",
       "slot->mail_state.fetch_or(deposit(*slot, waiter) ? kMailArrived : kMailOverflowed, "
       "std::memory_order_release);"},
      {"src/sync/mailbox.cc", "slot->mail_state.exchange(0, std::memory_order_acquire);"},
      {"src/sync/mailbox.cc", "return slot == nullptr ? 0 : slot->signal.load(std::memory_order_acquire);"},
  });
}

}  // namespace
}  // namespace holdfast::weak
