// Tests the mutex of a shard (src/sync/shmtx.h, shmtx.cc), of the kinds futex and spin.
#include "weak/protocol.h"

#include <array>

namespace holdfast::weak {
namespace {

struct Locking : Protocol {
  Ordering take{this, "take", kAcquire};            // Shmtx::lock_fast
  Ordering give{this, "give", kRelease};            // Shmtx::unlock, unlock_slow
  Precaution exact{this, "exact"};                  // take_from_dead compares with the word that was judged
  Precaution marks{this, "marks"};                  // set_waiters_bit before a sleep
  Precaution kernel_orders{this, "kernel_orders"};  // the kernel releases a record lock after all its owner's stores
};

constexpr Value kWaiters = 1 << 8;

/// There are three processes, one of which may die. Each of them adds one to the data that the mutex guards.
Program excluding(const Locking& how) {
  Program program;
  const Location word = program.location("word");
  const Location guarded = program.location("guarded");
  for (Value me = 1; me <= 3; ++me) {
    program.thread([=](Thread& t) {
      lock(t, word, me, how.take);
      const Value before = t.load(guarded, kRelaxed);
      t.store(guarded, before + 1, kRelaxed);
      static constexpr std::array kNames{"", "a", "b", "c"};
      t.observe(kNames[me], before);
      unlock(t, word, me, how.give);
    });
  }
  program.finally("each owner sees all changes of earlier owners", [](const Outcome& outcome) {
    std::set<Value> values;
    for (const auto& [name, value] : outcome) values.insert(value);
    return values.size() == outcome.size() && (values.empty() || *values.rbegin() == values.size() - 1);
  });
  return program;
}

/// The owner dies while it holds the mutex. Two processes detect its death, and try to take over the mutex.
Program taking_over(const Locking& how) {
  Program program;
  const Location word = program.location("word", 1);
  const Location slot = program.location("record lock of the slot", 1);
  const Location guarded = program.location("guarded");
  program.thread([=](Thread& t) {
    t.store(guarded, 1, kRelaxed);
    t.store(slot, 0, how.kernel_orders ? kRelease : kRelaxed);
  });
  for (Value me = 2; me <= 3; ++me) {
    program.thread([=](Thread& t) {
      Value seen = t.load(word, kRelaxed);
      if (seen == 0) {
        lock(t, word, me, how.take);
      } else {
        t.require(seen == 1 && t.load(slot, how.kernel_orders ? kAcquire : kRelaxed) == 0);
        if (how.exact)
          t.require(t.compare_exchange(word, seen, me, how.take));
        else
          t.exchange(word, me, how.take);
      }
      const Value before = t.load(guarded, kRelaxed);
      t.store(guarded, before + 1, kRelaxed);
      t.claim(before != 0, "the process that takes over sees the dead owner's changes");
      t.observe(me == 2 ? "b" : "c", before);
      unlock(t, word, me, how.give);
    });
  }
  program.finally("one process takes over, and the next sees its changes",
                  [](const Outcome& outcome) { return outcome.size() < 2 || outcome.at("b") != outcome.at("c"); });
  return program;
}

/// A waiter sets the waiters bit and goes to sleep. The kernel compares the word while it holds the lock of the futex's
/// hash bucket.
Program waking(const Locking& how) {
  Program program;
  const Location word = program.location("word", 1);
  const Location bucket = program.location("the kernel's lock of the futex");
  const Location asleep = program.location("asleep");
  const auto in_kernel = [=](Thread& t, const std::function<void()>& what) {
    lock(t, bucket, 1);
    what();
    t.store(bucket, 0, kRelease);
  };
  program.thread([=](Thread& t) {
    Value seen = t.load(word, kRelaxed);
    t.compare_exchange(word, seen, 0, how.give);
    if (seen != 1) t.require(t.compare_exchange(word, seen, 0, how.give));
    t.observe("unlocked", 1);
    if ((seen & kWaiters) != 0) in_kernel(t, [&] { t.observe("woken", t.load(asleep, kRelaxed)); });
    t.observe("unlock ended", 1);
  });
  program.thread([=](Thread& t) {
    Value seen = t.load(word, kRelaxed);
    t.require(seen == 1);
    if (how.marks) {
      t.require(t.compare_exchange(word, seen, seen | kWaiters, kRelaxed));
      seen |= kWaiters;
    }
    in_kernel(t, [&] {
      t.require(t.load(word, kRelaxed) == seen);
      t.store(asleep, 1, kRelaxed);
    });
    t.observe("sleeps", 1);
  });
  program.finally("a process that sleeps on a released mutex is being woken", [](const Outcome& outcome) {
    if (!outcome.contains("sleeps") || !outcome.contains("unlock ended")) return true;
    return outcome.contains("woken") && outcome.at("woken") == 1;
  });
  return program;
}

std::vector<Program> programs(const Locking& how) { return {excluding(how), taking_over(how), waking(how)}; }

TEST(weak_mutex, it_excludes_and_loses_no_wake_up_and_each_ordering_is_needed) { expect_proof(programs); }

TEST(weak_mutex, the_sources_contain_the_modelled_lines) {
  expect_quotes({
      {"src/sync/shmtx.h",
       "state_->word.compare_exchange_strong(expected, 0, std::memory_order_release, std::memory_order_relaxed)"},
      {"src/sync/shmtx.h", "state_->word.compare_exchange_strong(seen, desired | waiters, std::memory_order_acq_rel,"},
      // A process that may have slept keeps the waiters bit for other sleepers. tests/model shows what would otherwise
      // happen to these sleepers.
      {"src/sync/shmtx.cc", "if (take(0, waiters)) return LockResult::acquired;"},
      {"src/sync/shmtx.cc",
       "state_->word.compare_exchange_weak(seen, 0, std::memory_order_release, std::memory_order_relaxed)"},
      {"src/sync/shmtx.cc",
       "state_->word.compare_exchange_strong(seen, seen | kShmtxWaiters, std::memory_order_relaxed);"},
  });
}

}  // namespace
}  // namespace holdfast::weak
