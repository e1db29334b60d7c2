// A lock word without the shard's mutex: a cell that is taken by one compare-and-swap, before its fields.
//
// The word names the owner and the turn, which grows with each grant. The fields of turn t mean something only while
// `granted` is t. No source stands for this yet; it is the proof that such a lock can be built.
#include "weak/protocol.h"

namespace holdfast::weak {
namespace {

struct Cell {
  Order word_load = kAcquire;
  Order take = kAcquire;
  Order give = kRelease;
  Order field_fence = kRelease;  // between the compare-and-swap and the fields
  Order granted_store = kRelease;
  Order granted_load = kAcquire;
  Order check_fence = kAcquire;  // between the fields and the second look at the word
  Order generation_store = kRelaxed;
  bool looks_twice = true;
  bool generation_after_word = true;
  bool expiry_needs_granted = true;
  bool recycling_takes_a_turn = true;
};

/// Owner 0 is nobody.
constexpr Value word_of(Value owner, Value turn) { return owner << 8 | turn; }
constexpr Value owner_of(Value word) { return word >> 8; }
constexpr Value turn_of(Value word) { return word & 0xFF; }

struct Shared {
  Program program;
  Location word = program.location("word", word_of(1, 1));
  Location granted = program.location("granted", 1);
  Location expiry = program.location("expiry", 1);
  Location generation = program.location("generation", 1);
  Location guarded = program.location("guarded");

  void fill(const Cell& how, Thread& t, Value turn) const {
    t.fence(how.field_fence);
    t.store(expiry, turn, kRelaxed);
    t.store(granted, turn, how.granted_store);
  }
  /// Gives the turn, or goes no further.
  Value lock(const Cell& how, Thread& t, Value me) const {
    Value seen = t.load(word, how.word_load);
    t.require(owner_of(seen) == 0);
    const Value turn = turn_of(seen) + 1;
    t.require(t.compare_exchange(word, seen, word_of(me, turn), how.take));
    fill(how, t, turn);
    return turn;
  }
  void unlock(const Cell& how, Thread& t, Value me, Value turn) const {
    Value mine = word_of(me, turn);
    t.compare_exchange(word, mine, word_of(0, turn), how.give);
  }
};

/// A lock, by another owner, of what is just given back; somebody reads its owner.
Program looking_up_a_holder(const Cell& how) {
  Shared shared;
  shared.program.thread([=](Thread& t) { shared.unlock(how, t, 1, 1); });
  shared.program.thread([=](Thread& t) {
    const Value turn = shared.lock(how, t, 2);
    shared.unlock(how, t, 2, turn);
  });
  shared.program.thread([=](Thread& t) {
    const Value word = t.load(shared.word, kRelaxed);
    t.require(owner_of(word) != 0 && t.load(shared.granted, how.granted_load) == turn_of(word));
    const Value expiry = t.load(shared.expiry, kRelaxed);
    t.fence(how.check_fence);
    if (how.looks_twice) t.require(t.load(shared.word, kRelaxed) == word);
    t.claim(expiry == turn_of(word), "the expiry is that of the grant");
  });
  return shared.program;
}

/// Two owners, one after the other.
Program excluding(const Cell& how) {
  Shared shared;
  shared.program.thread([=](Thread& t) {
    t.store(shared.guarded, 1, kRelaxed);
    shared.unlock(how, t, 1, 1);
  });
  for (Value me = 2; me <= 3; ++me)
    shared.program.thread([=](Thread& t) {
      const Value turn = shared.lock(how, t, me);
      const Value before = t.load(shared.guarded, kRelaxed);
      t.store(shared.guarded, before + 1, kRelaxed);
      t.claim(before == turn - 1, "the one inside sees what was done before");
      shared.unlock(how, t, me, turn);
    });
  return shared.program;
}

/// Grant 1 has expired when it ends; grant 2 has not. Nobody takes grant 2 for an expired one.
Program taking_over_what_has_expired(const Cell& how) {
  Shared shared;
  shared.program.thread([=](Thread& t) {
    shared.unlock(how, t, 1, 1);
    shared.lock(how, t, 1);
  });
  shared.program.thread([=](Thread& t) {
    Value seen = t.load(shared.word, kAcquire);
    t.require(owner_of(seen) == 1);
    if (how.expiry_needs_granted) t.require(t.load(shared.granted, how.granted_load) == turn_of(seen));
    t.require(t.load(shared.expiry, kRelaxed) == 1);
    const Value turn = turn_of(seen);
    t.require(t.compare_exchange(shared.word, seen, word_of(3, turn + 1), how.take));
    t.claim(turn == 1, "what has not expired is not taken over");
  });
  return shared.program;
}

/// A cell is given to another key while a process comes that read its number for the old one.
Program recycling(const Cell& how) {
  Shared shared;
  shared.program.thread([=](Thread& t) {
    shared.unlock(how, t, 1, 1);
    Value free = word_of(0, 1);
    const Value next = how.recycling_takes_a_turn ? 2 : 1;
    t.require(t.compare_exchange(shared.word, free, word_of(9, next), kAcquire));  // owned while it is recycled
    t.store(shared.generation, 2, how.generation_store);
    Value mine = word_of(9, next);
    t.compare_exchange(shared.word, mine, word_of(0, next), how.give);
  });
  shared.program.thread([=](Thread& t) {
    if (!how.generation_after_word) t.require(t.load(shared.generation, kRelaxed) == 1);
    Value seen = t.load(shared.word, how.word_load);
    if (how.generation_after_word) t.require(t.load(shared.generation, kRelaxed) == 1);
    t.require(owner_of(seen) == 0);
    t.require(t.compare_exchange(shared.word, seen, word_of(2, turn_of(seen) + 1), how.take));
    t.claim(t.load(shared.generation, kRelaxed) == 1, "a cell that is another key's is not taken");
  });
  return shared.program;
}

std::vector<Program> programs(const Cell& how) {
  return {looking_up_a_holder(how), excluding(how), taking_over_what_has_expired(how), recycling(how)};
}

TEST(weak_lock_word, a_cell_excludes_and_its_fields_are_of_one_grant_and_each_ordering_is_needed) {
  expect_proof(programs,
               PARTS(&Cell::word_load, &Cell::give, &Cell::field_fence, &Cell::granted_store, &Cell::granted_load,
                     &Cell::check_fence),
               PARTS(&Cell::looks_twice, &Cell::generation_after_word, &Cell::expiry_needs_granted,
                     &Cell::recycling_takes_a_turn));
}

// The compare-and-swap succeeds only on the very value that was loaded with acquire.
TEST(weak_lock_word, the_swap_itself_need_not_acquire_after_the_load_did) {
  Cell cell;
  cell.take = kRelaxed;
  const Findings findings = explore_all(programs(cell));
  EXPECT_TRUE(findings.holds()) << findings.text();
}

}  // namespace
}  // namespace holdfast::weak
