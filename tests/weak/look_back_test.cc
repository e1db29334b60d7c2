// Tests how a reader of a large value checks, after its copy, whether the entry was in its chain during the whole copy.
//
// An entry contains the epoch in which it was filled. If the epoch has advanced during the copy, the copy counts only
// if the entry was filled before the copy began and a walk within one epoch now reaches it.
#include "weak/epoch.h"

namespace holdfast::weak {
namespace {

struct LookingBack : EpochOrders {
  Ordering section_fence{this, "section_fence", kRelease};  // after the mutex is taken
  Ordering link_store{this, "link_store", kRelease};
  Ordering link_load{this, "link_load", kAcquire};
  Precaution walks_again{this, "walks_again"};
  Precaution compares_stamps{this, "compares_stamps"};
};

constexpr Value kOld = 10;
constexpr Value kNew = 20;

/// A large value. The program starts in epoch 5, and the entry was filled in epoch 4.
struct LargeValue {
  Program program;
  Epoch epoch{program.location("epoch", 5)};
  Location link = program.location("link", 1);
  Location stamp = program.location("stamp", 4);
  Location first = program.location("first word", kOld);
  Location second = program.location("second word", kOld);
  Location mutex = program.location("mutex", 1);

  void fill(const LookingBack& how, Thread& t) const {
    t.store(stamp, t.load(epoch.word, kRelaxed), kRelaxed);
    t.store(first, kNew, kRelaxed);
    t.store(second, kNew, kRelaxed);
    t.store(link, 1, how.link_store);
  }
  /// Adds a read of the value. Returns the whole program.
  Program read_meanwhile(const LookingBack& how) {
    program.thread([*this, how](Thread& t) {
      const Value began = epoch.load(how, t);
      t.require(t.load(link, how.link_load) == 1);
      const Value one = t.load(first, kRelaxed);
      const Value two = t.load(second, kRelaxed);
      if (!epoch.unchanged_since(how, t, began)) {
        const Value now = epoch.load(how, t);
        if (how.walks_again) t.require(t.load(link, how.link_load) == 1);
        if (how.compares_stamps) t.require(t.load(stamp, kRelaxed) < began);
        t.require(epoch.unchanged_since(how, t, now));
      }
      t.claim(one == two, "all words that are read belong to one value");
    });
    return program;
  }
};

/// A neighbouring entry changes. Then the entry is deleted, and its block is reused for the same key.
Program replacing(const LookingBack& how) {
  LargeValue value;
  value.program.thread([=](Thread& t) {
    value.epoch.advance(how, t, 6);
    t.store(value.link, 0, how.link_store);
    value.epoch.advance(how, t, 7);
    value.fill(how, t);
  });
  return value.read_meanwhile(how);
}

/// Like replacing(), but a different process fills the block.
Program replacing_by_another_process(const LookingBack& how) {
  LargeValue value;
  value.program.thread([=](Thread& t) {
    t.store(value.link, 0, how.link_store);
    value.epoch.advance(how, t, 6);
    unlock(t, value.mutex, 1);
  });
  value.program.thread([=](Thread& t) {
    lock(t, value.mutex, 2);
    t.fence(how.section_fence);
    value.fill(how, t);
  });
  return value.read_meanwhile(how);
}

std::vector<Program> programs(const LookingBack& how) { return {replacing(how), replacing_by_another_process(how)}; }

TEST(weak_look_back, a_copy_that_counts_is_whole_and_each_part_is_needed) { expect_proof(programs); }

TEST(weak_look_back, the_sources_contain_the_modelled_lines) {
  expect_quotes({
      {"src/dict/guard.h", "std::atomic_thread_fence(kRelease);"},
      {"src/dict/shard.cc", "const std::uint64_t now = header_->reuse_epoch.load(kAcquire);"},
      {"src/dict/shard.cc", "return reached && same && age - 1 < kStampRange;"},
  });
}

}  // namespace
}  // namespace holdfast::weak
