// The words of a lock's grant, read without the mutex (src/lock/lock_entry.h, Shard::copy_lock, blocker_of_lock).
#include "weak/protocol.h"

namespace holdfast::weak {
namespace {

struct Granting {
  Order sequence_store = kRelease;
  Order task_store = kRelease;
  Order adoption_store = kRelease;
  Order expiry_store = kRelease;
  Order owner_store = kRelease;  // commit()
  Order sequence_load = kAcquire;
  Order owner_load = kAcquire;
  Order task_load = kAcquire;
  Order expiry_load = kAcquire;
  bool owner_is_cleared_first = true;
  bool owner_is_last = true;
  bool sequence_is_read_twice = true;
};

/// Grant n has the fencing number n, the task n or none, and the expiry n.
struct Entry {
  Program program;
  Location owner = program.location("owner", 1);
  Location sequence = program.location("sequence", 1);
  Location task = program.location("task", 1);
  Location expiry = program.location("expiry", 1);
  Location mutex = program.location("mutex", 1);

  void grant(const Granting& how, Thread& t, Value to, Value number, Value holder) const {
    if (how.owner_is_cleared_first) t.store(owner, 0, how.owner_store);
    if (!how.owner_is_last) t.store(owner, to, how.owner_store);
    t.store(sequence, number, how.sequence_store);
    t.store(task, holder, how.task_store);
    t.store(expiry, number, how.expiry_store);
    if (how.owner_is_last) t.store(owner, to, how.owner_store);
  }

  /// One process takes the lock again that it gives back; then another takes it over, and if it `adopts`, it says
  /// only after that which of its coroutines is the holder.
  void write(const Granting& how, bool adopts) {
    program.thread([*this, how](Thread& t) {
      grant(how, t, 1, 2, 2);
      unlock(t, mutex, 1);
    });
    program.thread([*this, how, adopts](Thread& t) {
      lock(t, mutex, 2);
      grant(how, t, 2, 3, adopts ? 0 : 3);
      if (adopts) t.store(task, 3, how.adoption_store);
    });
  }
};

Value owner_of(Value number) { return number == 3 ? 2 : 1; }

/// Shard::copy_lock.
Program looking_up_a_holder(const Granting& how) {
  Entry entry;
  entry.write(how, false);
  entry.program.thread([=](Thread& t) {
    const Value sequence = t.load(entry.sequence, how.sequence_load);
    const Value owner = t.load(entry.owner, how.owner_load);
    t.require(owner != 0);
    const Value expiry = t.load(entry.expiry, how.expiry_load);
    if (how.sequence_is_read_twice) t.require(t.load(entry.sequence, kRelaxed) == sequence);
    t.claim(owner == owner_of(sequence), "the owner is that of the fencing number");
    t.claim(expiry == sequence, "the expiry is that of the fencing number");
  });
  return entry.program;
}

/// blocker_of_lock, which reads the task too.
Program searching_for_a_circle(const Granting& how, bool adopts) {
  Entry entry;
  entry.write(how, adopts);
  entry.program.thread([=](Thread& t) {
    const Value sequence = t.load(entry.sequence, how.sequence_load);
    const Value owner = t.load(entry.owner, how.owner_load);
    const Value task = t.load(entry.task, how.task_load);
    if (how.sequence_is_read_twice) t.require(t.load(entry.sequence, kAcquire) == sequence);
    t.require(owner != 0);
    t.claim(owner == owner_of(sequence), "the owner is that of the fencing number");
    t.claim(task == sequence || (adopts && task == 0), "the task is that of the fencing number");
  });
  return entry.program;
}

std::vector<Program> programs(const Granting& how) {
  return {looking_up_a_holder(how), searching_for_a_circle(how, false), searching_for_a_circle(how, true)};
}

TEST(weak_lock, what_is_read_together_is_of_one_grant_and_each_ordering_is_needed) {
  expect_proof(programs,
               PARTS(&Granting::sequence_store, &Granting::task_store, &Granting::adoption_store,
                     &Granting::expiry_store, &Granting::owner_store, &Granting::sequence_load, &Granting::owner_load,
                     &Granting::task_load, &Granting::expiry_load),
               PARTS(&Granting::owner_is_cleared_first, &Granting::owner_is_last, &Granting::sequence_is_read_twice));
}

TEST(weak_lock, the_sources_say_what_is_modelled) {
  expect_quotes({
      {"src/lock/lock_entry.h", "fields.sequence.store(sequence, kRelease);"},
      {"src/lock/lock_entry.h",
       "void name_holder(std::uint32_t task) const noexcept { fields.task.store(task, kRelease); }"},
      {"src/lock/lock_entry.h", "entry.expiry.store(expiry_word(end_ms, segment.flush_epoch()), kRelease);"},
      {"src/lock/lock_entry.h", "commit(fields.owner, owner);"},
      {"src/lock/lock_entry.h", "commit(fields.owner, kNobody);"},
      {"src/dict/shard.cc", "out.sequence = lock.sequence.load(kAcquire);\nout.bits = lock.owner.load(kAcquire);"},
      {"src/dict/shard.cc",
       "out.expiry = view.entry->expiry.load(kAcquire);\n"
       "return lock.sequence.load(kRelaxed) == out.sequence ? Read::found : Read::torn;"},
      {"src/lock/acquire.cc",
       "const std::uint64_t sequence = fields.sequence.load(kAcquire);\n"
       "const Token owner = fields.owner.load(kAcquire);\n"
       "const std::uint32_t task = fields.task.load(kAcquire);"},
  });
}

}  // namespace
}  // namespace holdfast::weak
