// Tests reads without a lock, which rely on the reuse epoch (src/dict/shard.cc, arena.cc, repair.cc).
#include "weak/epoch.h"

namespace holdfast::weak {
namespace {

struct Reading : EpochOrders {
  Ordering link_store{this, "link_store", kRelease};          // commit()
  Ordering link_load{this, "link_load", kAcquire};            // Shard::read
  Ordering allocate_fence{this, "allocate_fence", kRelease};  // ShardGuard
  Ordering lock{this, "lock", kAcquire};                      // Shmtx::lock_fast
  Precaution repair_begins_with_epoch{this, "repair_begins_with_epoch"};
  Precaution cut_entries_keep_next{this, "cut_entries_keep_next"};  // until a repair advances the epoch a second time
  Precaution epoch_after_cut{this, "epoch_after_cut"};
};

constexpr Value kGarbage = 99;
constexpr Value kOldBlock = 1;
constexpr Value kNewBlock = 2;
constexpr Value kOldValue = 10;
constexpr Value kNewValue = 20;

/// The chain of one bucket: a link, and the two blocks to which it may lead.
struct Chain {
  Program program;
  Epoch epoch{program.location("epoch")};
  Location link = program.location("link", kOldBlock);
  Location old_value = program.location("old block", kOldValue);
  Location new_value = program.location("new block");
  Location mutex = program.location("mutex", 1);

  /// The holder of the mutex deletes the key and frees the block.
  void remove(const Reading& how) {
    program.thread([*this, how](Thread& t) {
      t.store(link, 0, how.link_store);
      epoch.advance(how, t, 1);
      unlock(t, mutex, 1);
    });
  }

  /// The next holder of the mutex takes the block.
  void allocate(const Reading& how, Thread& t) const {
    lock(t, mutex, 2, how.lock);
    t.fence(how.allocate_fence);
  }

  /// Adds one Shard::read of the key. Returns the whole program.
  Program read_meanwhile(const Reading& how) {
    program.thread([*this, how](Thread& t) {
      const Value before = epoch.load(how, t);
      const Value block = t.load(link, how.link_load);
      Value value = 0;
      if (block == kOldBlock) value = t.load(old_value, kRelaxed);
      if (block == kNewBlock) value = t.load(new_value, kRelaxed);
      t.require(epoch.unchanged_since(how, t, before));
      const Value stored = block == kOldBlock ? kOldValue : kNewValue;
      t.claim(block == 0 || value == stored, "a read in an unchanged epoch returns a stored value");
    });
    return program;
  }
};

/// Models set() over an entry: the new block is filled and linked, and the old block is freed and overwritten.
Program replacing(const Reading& how) {
  Chain chain;
  chain.program.thread([=](Thread& t) {
    t.store(chain.new_value, kNewValue, kRelaxed);
    if (!how.epoch_after_cut) chain.epoch.advance(how, t, 1);
    t.store(chain.link, kNewBlock, how.link_store);
    if (how.epoch_after_cut) chain.epoch.advance(how, t, 1);
    t.store(chain.old_value, kGarbage, kRelaxed);
  });
  return chain.read_meanwhile(how);
}

/// One process deletes the key and frees the block. The next holder of the mutex, a different process, takes the block.
Program reusing_by_another_process(const Reading& how) {
  Chain chain;
  chain.remove(how);
  chain.program.thread([=](Thread& t) {
    chain.allocate(how, t);
    t.store(chain.old_value, kGarbage, kRelaxed);
  });
  return chain.read_meanwhile(how);
}

/// Like reusing_by_another_process(), but the block is put back into the chain, under the same key, with a different
/// value.
Program reusing_for_the_same_key(const Reading& how) {
  Chain chain;
  const Location second_word = chain.program.location("second word of the old block", kOldValue);
  chain.remove(how);
  chain.program.thread([=](Thread& t) {
    chain.allocate(how, t);
    t.store(chain.old_value, kNewValue, kRelaxed);
    t.store(second_word, kNewValue, kRelaxed);
    t.store(chain.link, kOldBlock, how.link_store);
  });
  chain.program.thread([=](Thread& t) {
    const Value before = chain.epoch.load(how, t);
    t.require(t.load(chain.link, how.link_load) == kOldBlock);
    const Value first = t.load(chain.old_value, kRelaxed);
    const Value second = t.load(second_word, kRelaxed);
    t.require(chain.epoch.unchanged_since(how, t, before));
    t.claim(first == second, "all words that are read belong to one value");
  });
  return chain.program;
}

/// Two entries of a chain. The link behind the first entry changes.
struct Walk {
  Program program;
  Epoch epoch{program.location("epoch")};
  Location link = program.location("link", 1);
  Location next = program.location("next of the first", 2);

  /// Adds one Shard::read of a key in the second entry. Returns the whole program.
  Program read_meanwhile(const Reading& how, const char* claim) {
    program.thread([*this, how, claim](Thread& t) {
      const Value before = epoch.load(how, t);
      Value block = t.load(link, how.link_load);
      if (block == 1) block = t.load(next, how.link_load);
      t.require(epoch.unchanged_since(how, t, before));
      t.claim(block == 2, claim);
    });
    return program;
  }
};

/// A walk passes an entry that is being deleted. The entry behind it is not deleted.
Program walking_past_a_deletion(const Reading& how) {
  Walk walk;
  walk.program.thread([=](Thread& t) {
    t.store(walk.link, 2, how.link_store);
    walk.epoch.advance(how, t, 1);
    t.store(walk.next, 0, kRelaxed);
  });
  return walk.read_meanwhile(how, "the entry behind a deleted entry is found");
}

/// A writer is killed after it has unlinked a block, and before it advances the epoch. The process that takes over the
/// mutex repairs the shard and overwrites the block.
Program repairing_after_a_death(const Reading& how) {
  Chain chain;
  const Location slot = chain.program.location("record lock of the slot", 1);
  chain.program.thread([=](Thread& t) {
    t.store(chain.link, 0, how.link_store);
    t.store(slot, 0, kRelease);  // the kernel orders all the dead process's stores before this
  });
  chain.program.thread([=](Thread& t) {
    t.require(t.load(slot, kAcquire) == 0);
    if (how.repair_begins_with_epoch) chain.epoch.advance(how, t, 1);
    t.store(chain.old_value, kGarbage, kRelaxed);
  });
  return chain.read_meanwhile(how);
}

/// A repair unlinks an entry. A reader at this entry continues with the following entry.
Program cutting_in_a_repair(const Reading& how) {
  Walk walk;
  walk.program.thread([=](Thread& t) {
    walk.epoch.advance(how, t, 1);
    t.store(walk.link, 2, how.link_store);
    if (!how.cut_entries_keep_next) t.store(walk.next, 0, kRelaxed);
    walk.epoch.advance(how, t, 2);
    t.store(walk.next, 0, kRelaxed);
  });
  return walk.read_meanwhile(how, "the entry behind a cut entry is found");
}

std::vector<Program> programs(const Reading& how) {
  return {replacing(how),
          reusing_by_another_process(how),
          reusing_for_the_same_key(how),
          walking_past_a_deletion(how),
          repairing_after_a_death(how),
          cutting_in_a_repair(how)};
}

TEST(weak_reader, a_read_in_an_unchanged_epoch_is_whole_and_each_ordering_is_needed) { expect_proof(programs); }

TEST(weak_reader, the_fence_when_a_block_is_taken_matters_only_with_three_processes) {
  Reading without;
  without.allocate_fence.relax();
  EXPECT_TRUE(explore(replacing(without)).holds());
  EXPECT_FALSE(explore(reusing_by_another_process(without)).holds());
  EXPECT_TRUE(explore(reusing_by_another_process({})).holds());
}

TEST(weak_reader, the_sources_contain_the_modelled_lines) {
  expect_quotes({
      {"src/base/atomic.h", "where.store(value, kRelease);"},
      {"src/dict/arena.cc",
       "header_.reuse_epoch.store(header_.reuse_epoch.load(kRelaxed) + 1, kRelease);\n"
       "std::atomic_thread_fence(kRelease);"},
      {"src/dict/guard.h", "std::atomic_thread_fence(kRelease);"},
      {"src/dict/repair.cc",
       "header.reuse_epoch.store(header.reuse_epoch.load(kRelaxed) + 1, kRelease);\n"
       "std::atomic_thread_fence(kRelease);"},
      {"src/dict/shard.h", "std::uint64_t epoch() const noexcept { return header_->reuse_epoch.load(kAcquire); }"},
      {"src/dict/shard.cc", "walk_to_key(key, kAcquire, position);"},
      {"src/dict/shard.h", "std::uint32_t block = link->load(order);"},
      {"src/dict/shard.h", "link = &e.next;\nblock = link->load(order);"},
      {"src/dict/shard.h", "walk_chain(key.short_hash(), granules(), order, position.link, at);"},
      {"src/dict/shard.h", "std::atomic_thread_fence(kAcquire);\nreturn header_->reuse_epoch.load(kRelaxed) == epoch;"},
      {"src/dict/shard_read.h", "const std::uint64_t start = epoch();"},
      {"src/dict/shard_read.h", "walk_chain(key.short_hash(), kPlainSteps, kAcquire, link, "},
  });
}

}  // namespace
}  // namespace holdfast::weak
