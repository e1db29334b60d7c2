// Tests that the words of a lock's grant can be read without the mutex (read_grant in src/dict/lock_word.h).
#include "weak/protocol.h"

namespace holdfast::weak {
namespace {

struct Granting : Protocol {
  Ordering fast_fence{this, "fast_fence", kRelease};  // try_lock_fast, after the compare-and-swap
  Ordering slow_fence{this, "slow_fence", kRelease};  // LockEntry::grant
  Ordering granted_store{this, "granted_store", kRelease};
  Ordering word_load{this, "word_load", kAcquire};
  Ordering granted_load{this, "granted_load", kAcquire};
  Ordering check_fence{this, "check_fence", kAcquire};
  Precaution lock_is_freed_first{this, "lock_is_freed_first"};
  Precaution granted_is_last{this, "granted_is_last"};
  Precaution incomplete_has_no_fields{this, "incomplete_has_no_fields"};
  Precaution word_is_read_twice{this, "word_is_read_twice"};
};

constexpr Value kMutexOwned = 1U << 16;
constexpr Value word_of(Value owner, Value turn) { return owner << 8 | turn; }

/// At first, process 1 has the lock, with turn 1. Grant n has the expiry n and the task n. The upper half of a grant's
/// token is the number of its block, which is 1 for grants under the mutex from turn 2 on, and 0 otherwise.
struct Entry {
  Program program;
  Location word = program.location("word", word_of(1, 1));
  Location granted = program.location("granted", 1);
  Location number = program.location("upper half of the number");
  Location task = program.location("task", 1);
  Location expiry = program.location("expiry", 1);

  void fill(const Granting& how, Thread& t, Value turn) const {
    if (!how.granted_is_last) t.store(granted, turn, how.granted_store);
    t.store(task, turn, kRelaxed);
    t.store(expiry, turn, kRelaxed);
    if (how.granted_is_last) t.store(granted, turn, how.granted_store);
  }
};

/// Models read_grant.
Program reading(const Granting& how, Entry entry, Value high_of_second) {
  entry.program.thread([=](Thread& t) {
    const Value word = t.load(entry.word, how.word_load) & ~kMutexOwned;
    const Value granted = t.load(entry.granted, how.granted_load);
    const Value high = t.load(entry.number, kRelaxed);
    const Value task = t.load(entry.task, kRelaxed);
    const Value expiry = t.load(entry.expiry, kRelaxed);
    t.fence(how.check_fence);
    if (how.word_is_read_twice) t.require((t.load(entry.word, kRelaxed) & ~kMutexOwned) == word);
    const Value turn = word & 0xFF;
    t.require(word >> 8 != 0);
    t.claim(high == (turn == 1 ? 0 : high_of_second), "the number belongs to the grant");
    if (how.incomplete_has_no_fields) t.require(granted == turn);
    t.claim(task == turn, "the task belongs to the grant");
    t.claim(expiry == turn, "the expiry belongs to the grant");
  });
  return entry.program;
}

/// The owner releases the lock, and the same process or another process takes it without the mutex.
Program granting_on_the_fast_path(const Granting& how, Value next_owner) {
  const Entry entry;
  Entry shared = entry;
  const auto release = [=](Thread& t) {
    Value mine = word_of(1, 1);
    t.compare_exchange(entry.word, mine, word_of(0, 1), kRelease);
  };
  const auto take = [=](Thread& t) {
    Value free = word_of(0, 1);
    t.require(t.load(entry.word, kAcquire) == free);
    t.require(t.compare_exchange(entry.word, free, word_of(next_owner, 2), kAcquire));
    t.fence(how.fast_fence);
    entry.fill(how, t, 2);
  };
  if (next_owner == 1) {
    shared.program.thread([=](Thread& t) {
      release(t);
      take(t);
    });
  } else {
    shared.program.thread(release);
    shared.program.thread(take);
  }
  return reading(how, shared, 0);
}

/// The lock is taken over under the mutex, and a new block of numbers begins.
Program granting_under_the_mutex(const Granting& how) {
  const Entry entry;
  Entry shared = entry;
  shared.program.thread([=](Thread& t) {
    t.fetch_or(entry.word, kMutexOwned, kAcqRel);
    if (how.lock_is_freed_first) t.store(entry.word, word_of(0, 1) | kMutexOwned, kRelease);
    t.fence(how.slow_fence);
    t.store(entry.number, 1, kRelaxed);
    entry.fill(how, t, 2);
    t.store(entry.word, word_of(2, 2) | kMutexOwned, kRelease);
    t.store(entry.word, word_of(2, 2), kRelease);
  });
  return reading(how, shared, 1);
}

std::vector<Program> programs(const Granting& how) {
  return {granting_on_the_fast_path(how, 2), granting_on_the_fast_path(how, 1), granting_under_the_mutex(how)};
}

TEST(weak_lock, words_read_together_belong_to_one_grant_and_each_ordering_is_needed) { expect_proof(programs); }

TEST(weak_lock, the_sources_contain_the_modelled_lines) {
  expect_quotes({
      {"src/dict/lock_word.h",
       "seen.word = load_word_of(lock, kAcquire);\nseen.complete = is_complete(lock, seen.word);"},
      {"src/dict/lock_word.h", "return lock.granted.load(kAcquire) == word.turn();"},
      {"src/dict/lock_word.h",
       "std::atomic_thread_fence(kAcquire);\nreturn load_word_of(lock).unowned() == seen.word.unowned();"},
      {"src/dict/lock_word.h",
       "commit(lock.word, LockWord::make(LockWord::kFreeOwner, load_word_of(lock).turn()).mutex_owned().bits);"},
      {"src/lock/fast_path.cc", "std::atomic_thread_fence(kRelease);"},
      {"src/lock/fast_path.cc", "commit(lock.granted, found.word.turn() + 1);"},
      {"src/lock/lock_entry.h", "std::atomic_thread_fence(kRelease);"},
      {"src/lock/lock_entry.h", "fields.granted.store(turn, kRelease);"},
      {"src/lock/lock_entry.h", "commit(fields.word, LockWord::make(owner_bits(owner), turn).mutex_owned().bits);"},
      {"src/lock/lock_entry.h", "commit(entry.expiry, expiry_word(end_ms, flush));"},
  });
}

}  // namespace
}  // namespace holdfast::weak
