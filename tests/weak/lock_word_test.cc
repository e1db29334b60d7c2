// Tests a lock's word, which is taken and released without the shard's mutex (src/dict/lock_word.h,
// src/lock/fast_path.cc).
//
// lock_test.cc tests reads of a grant without the mutex.
#include "weak/epoch.h"

namespace holdfast::weak {
namespace {

struct Word : EpochOrders {
  Word() {
    for (const char* part : {"epoch_store", "epoch_load", "check_fence"}) leave_out(part);
  }

  Ordering take{this, "take", kAcquire};  // try_lock_fast
  Precaution looks_after{this, "looks_after"};
  Ordering give{this, "give", kRelease};  // unlock_fast
  Order word_load = kAcquire;             // LockRef::load
  Ordering granted_store{this, "granted_store", kRelease};
  Ordering granted_load{this, "granted_load", kAcquire};  // is_complete
  Precaution incomplete_is_held{this, "incomplete_is_held"};
  Precaution aborted_grant_is_dropped{this, "aborted_grant_is_dropped"};
  Ordering take_over{this, "take_over", kAcqRel};
  Ordering release_word{this, "release_word", kRelease};
  Precaution takes_over_before_it_judges{this, "takes_over_before_it_judges"};
  Precaution old_memory_stays_owned{this, "old_memory_stays_owned"};
};

constexpr Value kMutexOwned = 1U << 16;

/// Owner 0 means that the lock is free.
constexpr Value word_of(Value owner, Value turn) { return owner << 8 | turn; }
constexpr Value owner_of(Value word) { return (word & ~kMutexOwned) >> 8; }
constexpr Value turn_of(Value word) { return word & 0xFF; }

/// A lock that process 1 holds with turn 1, unless `is_free`. The expiry of turn n is n.
struct Lock {
  explicit Lock(bool is_free = false) : word(program.location("word", word_of(is_free ? 0 : 1, 1))) {}

  Program program;
  Location word;
  Location granted = program.location("granted", 1);
  Location expiry = program.location("expiry", 1);
  Location guarded = program.location("guarded");
  Location mutex = program.location("mutex", 1);
  Epoch epoch{program.location("epoch")};

  void fill(const Word& how, Thread& t, Value turn) const {
    t.store(expiry, turn, kRelaxed);
    t.store(granted, turn, how.granted_store);
  }
  /// Takes the lock and returns the turn, or stops the thread.
  Value take(const Word& how, Thread& t, Value me) const {
    Value seen = t.load(word, how.word_load);
    t.require(owner_of(seen) == 0 && (seen & kMutexOwned) == 0);
    const Value turn = turn_of(seen) + 1;
    t.require(t.compare_exchange(word, seen, word_of(me, turn), how.take));
    return turn;
  }
  void give(const Word& how, Thread& t, Value me, Value turn) const {
    Value mine = word_of(me, turn);
    t.compare_exchange(word, mine, word_of(0, turn), how.give);
  }
  /// Takes over the word under the mutex, and returns the word that was found.
  Value take_over(const Word& how, Thread& t) const {
    return t.fetch_or(word, kMutexOwned, how.take_over) & ~kMutexOwned;
  }
};

/// The lock has several owners. The first owner releases the lock. Then one process takes it under the mutex, and
/// another process takes it without the mutex, in any order.
Program excluding(const Word& how, bool without_the_mutex) {
  const Lock lock;
  Program program = lock.program;
  const auto enter = [=](Thread& t, Value turn) {
    const Value before = t.load(lock.guarded, kRelaxed);
    t.store(lock.guarded, before + 1, kRelaxed);
    t.claim(before == turn - 1, "an owner sees all changes of earlier owners");
  };
  program.thread([=](Thread& t) {
    t.store(lock.guarded, 1, kRelaxed);
    lock.give(how, t, 1, 1);
  });
  program.thread([=](Thread& t) {
    Value turn = 0;
    if (without_the_mutex) {
      turn = lock.take(how, t, 2);
      enter(t, turn);
      lock.give(how, t, 2, turn);
    } else {
      const Value seen = lock.take_over(how, t);
      t.require(owner_of(seen) == 0);
      turn = turn_of(seen) + 1;
      t.store(lock.word, word_of(2, turn) | kMutexOwned, kRelease);
      enter(t, turn);
      t.store(lock.word, word_of(0, turn) | kMutexOwned, kRelease);
      t.store(lock.word, word_of(0, turn), how.release_word);
    }
  });
  program.thread([=](Thread& t) {
    const Value turn = lock.take(how, t, 3);
    enter(t, turn);
    lock.give(how, t, 3, turn);
  });
  return program;
}

/// Grant 1 has expired when it ends, but grant 2 has not. The owner of the mutex must not mistake grant 2 for an
/// expired grant, and must not move the entry before grant 2's owner has written the last field.
Program judging(const Word& how) {
  const Lock lock;
  Program program = lock.program;
  program.thread([=](Thread& t) {
    lock.give(how, t, 1, 1);
    lock.fill(how, t, lock.take(how, t, 1));
  });
  program.thread([=](Thread& t) {
    const Value seen = lock.take_over(how, t);
    t.require(owner_of(seen) == 1);
    if (how.incomplete_is_held) t.require(t.load(lock.granted, how.granted_load) == turn_of(seen));
    t.claim(t.load(lock.expiry, kRelaxed) == turn_of(seen), "the expiry that is judged or copied belongs to the grant");
  });
  return program;
}

/// A process dies while it grants the lock under the mutex, after it has stored `granted` and before it stores the
/// word. So the grant is undone, and the next grant has the same turn.
Program aborting(const Word& how) {
  const Lock lock(true);
  Program program = lock.program;
  program.thread([=](Thread& t) {
    t.require(owner_of(lock.take_over(how, t)) == 0);
    t.store(lock.expiry, 9, kRelaxed);
    t.store(lock.granted, 2, kRelease);
    // The process dies here. The next owner of the mutex calls release_word().
    if (how.aborted_grant_is_dropped) t.store(lock.granted, 1, kRelaxed);
    t.store(lock.word, word_of(0, 1), how.release_word);
    unlock(t, lock.mutex, 1);
  });
  program.thread([=](Thread& t) { lock.fill(how, t, lock.take(how, t, 2)); });
  program.thread([=](Thread& t) {
    holdfast::weak::lock(t, lock.mutex, 2);
    const Value seen = lock.take_over(how, t);
    t.require(owner_of(seen) == 2);
    t.require(t.load(lock.granted, how.granted_load) == turn_of(seen));
    t.claim(t.load(lock.expiry, kRelaxed) == turn_of(seen), "the fields of an aborted grant count for no other grant");
  });
  return program;
}

/// The entry of a free lock is unlinked from its chain. Its memory is reused for a different lock, or for a value with
/// the same bits as the word. Then a process that found the lock earlier tries to take it. `again`: this process has
/// taken and released the lock since then (lock_again).
Program reusing(const Word& how, Value next_content, bool again = false) {
  const Lock lock(true);
  Program program = lock.program;
  const Location link = program.location("link", 1);
  program.thread([=](Thread& t) {
    const Value seen = how.takes_over_before_it_judges ? lock.take_over(how, t) : t.load(lock.word, kAcquire);
    t.require(owner_of(seen) == 0);
    if (!how.old_memory_stays_owned) t.store(lock.word, seen, kRelease);
    t.store(link, 0, kRelease);
    lock.epoch.advance(how, t, 1);
    t.store(lock.word, next_content, kRelaxed);
  });
  program.thread([=](Thread& t) {
    const Value before = lock.epoch.load(how, t);
    t.require(t.load(link, kAcquire) == 1);
    for (const Value turn : again ? std::vector<Value>{2, 3} : std::vector<Value>{2}) {
      if (turn == 3) lock.give(how, t, 2, 2);
      Value seen = t.load(lock.word, how.word_load);
      t.require(seen == word_of(0, turn - 1) && lock.epoch.unchanged_since(how, t, before));
      t.require(t.compare_exchange(lock.word, seen, word_of(2, turn), how.take));
      if (how.looks_after) t.require(lock.epoch.unchanged_since(how, t, before));
    }
    t.claim(t.load(link, kRelaxed) == 1, "a lock that was cut from its chain is not taken");
  });
  return program;
}

/// There is a waiter, and a release lets others pass. Two processes take and release the lock without the mutex, in any
/// order. Each must see the waiter, because only then it checks whether its release may still pass the waiter.
Program passing(const Word& how) {
  const Lock lock;
  Program program = lock.program;
  const Location queue = program.location("queue");
  program.thread([=](Thread& t) {
    lock.take_over(how, t);
    t.store(queue, 1, kRelaxed);
    t.store(lock.word, word_of(0, 1) | kMutexOwned, kRelease);
    t.store(lock.word, word_of(0, 1), how.release_word);
  });
  for (const Value me : {2U, 3U}) {
    program.thread([=](Thread& t) {
      const Value turn = lock.take(how, t, me);
      t.claim(t.load(queue, kRelaxed) == 1, "a process that passes a waiter sees the waiter");
      lock.give(how, t, me, turn);
    });
  }
  return program;
}

std::vector<Program> programs(const Word& how) {
  return {excluding(how, true),
          excluding(how, false),
          judging(how),
          aborting(how),
          reusing(how, word_of(0, 7)),
          reusing(how, word_of(0, 1)),
          reusing(how, word_of(0, 2), true),
          passing(how)};
}

TEST(weak_lock_word, it_excludes_and_only_complete_grants_are_judged_and_each_ordering_is_needed) {
  expect_proof(programs);
}

// Between the load and the compare-and-swap, a death may undo a grant, so that the word is the same again. So the
// compare-and-swap must acquire, but the load need not.
TEST(weak_lock_word, the_load_before_an_acquiring_swap_need_not_acquire) {
  Word word;
  word.word_load = kRelaxed;
  const Findings findings = explore_all(programs(word));
  EXPECT_TRUE(findings.holds()) << findings.text();
}

TEST(weak_lock_word, the_sources_contain_the_modelled_lines) {
  expect_quotes({
      {"src/lock/fast_path.cc",
       "word = load_word_of(*lock, kAcquire);\nHOLDFAST_FAILPOINT(\"fast_path.loaded\");\n"
       "return shard->unchanged_since(epoch);"},
      {"src/lock/fast_path.cc", "found.epoch = bound.epoch;"},
      {"src/lock/fast_path.cc",
       "if (!lock.word.compare_exchange_strong(expected, mine, std::memory_order_acquire, kRelaxed)) return "
       "Fast::lost;"},
      {"src/lock/fast_path.cc",
       "if (counts && (found.shard->unchanged_since(found.epoch) || is_still_there(key, found.copy(), mine)))"},
      {"src/lock/fast_path.cc", "commit(lock.granted, found.word.turn() + 1);"},
      {"src/lock/fast_path.cc",
       "const std::uint64_t mine = LockWord::make(LockWord::kFreeOwner, turn).bits;\n"
       "if (!lock.word.compare_exchange_strong(expected, mine, std::memory_order_release, kRelaxed)) return false;"},
      {"src/lock/fast_path.cc", "if (has_waiters(lock) && !may_pass(found.copy())) [[unlikely]]\nreturn false;"},
      {"src/dict/lock_word.h", "return lock.granted.load(kAcquire) == word.turn();"},
      {"src/dict/lock_word.h", "lock.word.fetch_or(LockWord::kMutexOwned, std::memory_order_acq_rel)"},
      {"src/dict/lock_word.h",
       "if (word.is_free()) lock.granted.store(word.turn(), kRelaxed);\ncommit(lock.word, word.unowned().bits);"},
  });
}

}  // namespace
}  // namespace holdfast::weak
