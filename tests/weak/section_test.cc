// Tests a mutex whose word was overwritten with the token of a live process that is not in a critical section.
//
// Each process keeps two counts: the number of critical sections that it has begun, which is also in the word, and the
// number of critical sections in which it is now. If another process finds that the process that the word names is not
// in any section, it takes over exactly the word that it has judged.
#include "weak/protocol.h"

namespace holdfast::weak {
namespace {

struct Counting : Protocol {
  Order begin = kRelaxed;
  Ordering take{this, "take", kAcqRel, {kAcquire}};
  Order give = kRelease;
  Ordering judge_fence{this, "judge_fence", kAcquire};
  // These two orderings make a section end in the count after its word is released. Without them, only executions with
  // load buffering go wrong, which this model forbids but aarch64 does not.
  Order end = kRelease;
  Order judge_load = kAcquire;
  Precaution numbered{this, "numbered"};
  Precaution counts_before_word{this, "counts_before_word"};
  Precaution counts_until_after_word{this, "counts_until_after_word"};
  Precaution exact{this, "exact"};
};

constexpr Value kOneBegun = 256;
constexpr Value kInside = kOneBegun - 1;

struct Mutex {
  Program program;
  Location word = program.location("word");
  Location sections = program.location("sections");

  /// Models one critical section of a thread of the process.
  void section(const Counting& how, Thread& t) const {
    Value number = how.counts_before_word ? (t.fetch_add(sections, kOneBegun + 1, how.begin) + kOneBegun) & ~kInside
                                          : (t.load(sections, kRelaxed) + kOneBegun) & ~kInside;
    const Value mine = (how.numbered ? number : 0) | 1;
    Value free = 0;
    t.require(t.compare_exchange(word, free, mine, how.take));
    if (!how.counts_before_word) t.fetch_add(sections, kOneBegun + 1, how.begin);
    if (!how.counts_until_after_word) t.fetch_add(sections, ~Value{0}, how.end);
    Value seen = mine;
    t.claim(t.compare_exchange(word, seen, 0, how.give), "no process inside loses the mutex");
    if (how.counts_until_after_word) t.fetch_add(sections, ~Value{0}, how.end);
  }

  void judge(const Counting& how) {
    program.thread([*this, how](Thread& t) {
      Value seen = t.load(word, kRelaxed);
      t.require(seen != 0);
      t.fence(how.judge_fence);
      t.require((t.load(sections, how.judge_load) & kInside) == 0);
      if (how.exact)
        t.compare_exchange(word, seen, 2, how.take);
      else
        t.exchange(word, 2, how.take);
    });
  }
};

Program going_in_twice(const Counting& how) {
  Mutex mutex;
  mutex.program.thread([=](Thread& t) {
    mutex.section(how, t);
    mutex.section(how, t);
  });
  mutex.judge(how);
  return mutex.program;
}

Program going_in_with_two_threads(const Counting& how) {
  Mutex mutex;
  for (int i = 0; i < 2; ++i) mutex.program.thread([=](Thread& t) { mutex.section(how, t); });
  mutex.judge(how);
  return mutex.program;
}

TEST(weak_section, the_sources_contain_the_modelled_lines) {
  expect_quotes({
      {"src/sync/shmtx.h", "sections.store(number, std::memory_order_release);"},
      {"src/sync/shmtx.cc", "sections.fetch_sub(kOneInside, std::memory_order_release);"},
      {"src/sync/shmtx.cc",
       "std::atomic_thread_fence(std::memory_order_acquire);\n"
       "// An owner gives its word back before its section ends. So if the count is 0 and the word is still "
       "`seen`, the word\n// was overwritten.\n"
       "return count_inside(*world_, owner_of(seen)) == 0;"},
      {"src/sync/shmtx.h", ".load(std::memory_order_acquire);\n  return sections & shmtx_internal::kInsideMask;"},
  });
}

std::vector<Program> programs(const Counting& how) { return {going_in_twice(how), going_in_with_two_threads(how)}; }

TEST(weak_section, nobody_inside_loses_the_mutex_and_each_part_is_needed) { expect_proof(programs); }

}  // namespace
}  // namespace holdfast::weak
