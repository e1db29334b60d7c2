// Tests the simulator itself with the classic litmus tests, whose results under C++20 (RC11) are known.
#include <gtest/gtest.h>

#include "weak/litmus.h"

namespace holdfast::weak {
namespace {

constexpr auto kRelaxed = Order::relaxed;
constexpr auto kAcquire = Order::acquire;
constexpr auto kRelease = Order::release;
constexpr auto kAcqRel = Order::acq_rel;
constexpr auto kSeqCst = Order::seq_cst;

/// The two locations of a Litmus, in order of creation.
constexpr Location kX{0};
constexpr Location kY{1};

/// A program with two locations and the threads that use them.
struct Litmus {
  Program program;

  Litmus() {
    program.location("x");
    program.location("y");
  }

  /// Adds a thread that stores 1.
  void writes(Location at, Order order = kRelaxed) {
    program.thread([=](Thread& t) { t.store(at, 1, order); });
  }
  /// Adds a thread that stores 1 into the first location, then into the second.
  void writes_both(Location first, Location second, Order order) {
    program.thread([=](Thread& t) {
      t.store(first, 1, kRelaxed);
      t.store(second, 1, order);
    });
  }
  /// Adds a thread that reads both locations.
  void reads_both(const char* name, Location first, Order order, const char* other, Location second) {
    program.thread([=](Thread& t) {
      t.observe(name, t.load(first, order));
      t.observe(other, t.load(second, kRelaxed));
    });
  }
  /// Adds a thread that reads one location and writes the other.
  void passes_on(const char* name, Location from, Order load, Location to, Order store) {
    program.thread([=](Thread& t) {
      t.observe(name, t.load(from, load));
      t.store(to, 1, store);
    });
  }

  Findings run() const { return explore(program); }
};

// --- store buffering ---

Findings store_buffering(Order store, Order load, Order fence) {
  Litmus litmus;
  const auto side = [=](Location mine, Location other, const char* name) {
    return [=](Thread& t) {
      t.store(mine, 1, store);
      if (fence != kRelaxed) t.fence(fence);
      t.observe(name, t.load(other, load));
    };
  };
  litmus.program.thread(side(kX, kY, "a"));
  litmus.program.thread(side(kY, kX, "b"));
  return litmus.run();
}

TEST(weak, only_seq_cst_forbids_store_buffering) {
  EXPECT_TRUE(store_buffering(kRelaxed, kRelaxed, kRelaxed).allows("a=0 b=0"));
  EXPECT_TRUE(store_buffering(kRelease, kAcquire, kRelaxed).allows("a=0 b=0"));
  EXPECT_TRUE(store_buffering(kRelaxed, kRelaxed, kAcqRel).allows("a=0 b=0"));
  EXPECT_FALSE(store_buffering(kRelaxed, kRelaxed, kSeqCst).allows("a=0 b=0"));
  EXPECT_FALSE(store_buffering(kSeqCst, kSeqCst, kRelaxed).allows("a=0 b=0"));
  EXPECT_TRUE(store_buffering(kSeqCst, kAcquire, kRelaxed).allows("a=0 b=0"));
}

TEST(weak, store_buffering_has_all_its_other_outcomes) {
  const Findings findings = store_buffering(kRelaxed, kRelaxed, kRelaxed);
  EXPECT_EQ(findings.outcomes, (std::set<std::string>{"a=0 b=0", "a=0 b=1", "a=1 b=0", "a=1 b=1"}));
  EXPECT_EQ(findings.executions, 4U);
}

// --- message passing ---

struct Passing {
  Order store = kRelaxed;
  Order store_fence = kRelaxed;
  Order load = kRelaxed;
  Order load_fence = kRelaxed;
};

bool loses_message(const Passing& how) {
  Litmus litmus;
  litmus.program.thread([=](Thread& t) {
    t.store(kX, 1, kRelaxed);
    if (how.store_fence != kRelaxed) t.fence(how.store_fence);
    t.store(kY, 1, how.store);
  });
  litmus.program.thread([=](Thread& t) {
    t.observe("flag", t.load(kY, how.load));
    if (how.load_fence != kRelaxed) t.fence(how.load_fence);
    t.observe("data", t.load(kX, kRelaxed));
  });
  return litmus.run().allows("data=0 flag=1");
}

TEST(weak, a_message_needs_a_release_and_an_acquire) {
  EXPECT_TRUE(loses_message({}));
  EXPECT_TRUE(loses_message({.store = kRelease}));
  EXPECT_TRUE(loses_message({.load = kAcquire}));
  EXPECT_FALSE(loses_message({.store = kRelease, .load = kAcquire}));
}

TEST(weak, fences_can_replace_release_and_acquire) {
  EXPECT_FALSE(loses_message({.store_fence = kRelease, .load_fence = kAcquire}));
  EXPECT_FALSE(loses_message({.store_fence = kRelease, .load = kAcquire}));
  EXPECT_FALSE(loses_message({.store = kRelease, .load_fence = kAcquire}));
  EXPECT_FALSE(loses_message({.store_fence = kSeqCst, .load_fence = kSeqCst}));
  EXPECT_TRUE(loses_message({.store_fence = kAcquire, .load_fence = kAcquire}));
  EXPECT_TRUE(loses_message({.store_fence = kRelease, .load_fence = kRelease}));
}

TEST(weak, a_fence_after_the_store_or_before_the_load_has_no_effect) {
  Litmus litmus;
  litmus.program.thread([=](Thread& t) {
    t.store(kX, 1, kRelaxed);
    t.store(kY, 1, kRelaxed);
    t.fence(kRelease);
  });
  litmus.program.thread([=](Thread& t) {
    t.fence(kAcquire);
    t.observe("flag", t.load(kY, kRelaxed));
    t.observe("data", t.load(kX, kRelaxed));
  });
  EXPECT_TRUE(litmus.run().allows("data=0 flag=1"));
}

// --- release sequences ---

enum class Between { own_store, foreign_store, foreign_update };

/// Returns whether a reader can miss the message. The flag is stored with release, and is written again before it is
/// read.
bool loses_message_through(Between between) {
  Litmus litmus;
  litmus.program.thread([=](Thread& t) {
    t.store(kX, 1, kRelaxed);
    t.store(kY, 1, kRelease);
    if (between == Between::own_store) t.store(kY, 2, kRelaxed);
  });
  if (between != Between::own_store) {
    litmus.program.thread([=](Thread& t) {
      Value expected = 1;
      if (between == Between::foreign_update)
        t.compare_exchange(kY, expected, 2, kRelaxed);
      else if (t.load(kY, kRelaxed) == 1)
        t.store(kY, 2, kRelaxed);
    });
  }
  litmus.reads_both("flag", kY, kAcquire, "data", kX);
  return litmus.run().allows("data=0 flag=2");
}

TEST(weak, a_release_sequence_continues_through_updates_and_ends_at_stores) {
  EXPECT_FALSE(loses_message_through(Between::foreign_update));
  EXPECT_TRUE(loses_message_through(Between::foreign_store));
  EXPECT_TRUE(loses_message_through(Between::own_store))
      << "in C++11, the release sequence continued here; in C++20, it ends";
}

// --- load buffering, and dependencies on values ---

TEST(weak, load_buffering_and_values_out_of_thin_air_are_forbidden) {
  Litmus litmus;
  litmus.passes_on("a", kX, kRelaxed, kY, kRelaxed);
  litmus.passes_on("b", kY, kRelaxed, kX, kRelaxed);
  EXPECT_FALSE(litmus.run().allows("a=1 b=1"));
  EXPECT_TRUE(litmus.run().allows("a=0 b=1"));
}

// --- three and four threads ---

/// Returns whether two readers can see the stores of two writers in different orders.
bool disagrees_on_independent_writes(Order store, Order load, Order fence) {
  Litmus litmus;
  litmus.writes(kX, store);
  litmus.writes(kY, store);
  const auto reader = [=](Location first, Location second, const char* one, const char* two) {
    return [=](Thread& t) {
      t.observe(one, t.load(first, load));
      if (fence != kRelaxed) t.fence(fence);
      t.observe(two, t.load(second, load));
    };
  };
  litmus.program.thread(reader(kX, kY, "a", "b"));
  litmus.program.thread(reader(kY, kX, "c", "d"));
  return litmus.run().allows("a=1 b=0 c=1 d=0");
}

TEST(weak, readers_may_disagree_on_independent_writes_except_with_seq_cst) {
  EXPECT_TRUE(disagrees_on_independent_writes(kRelease, kAcquire, kRelaxed));
  EXPECT_TRUE(disagrees_on_independent_writes(kRelaxed, kRelaxed, kAcqRel));
  EXPECT_FALSE(disagrees_on_independent_writes(kRelaxed, kRelaxed, kSeqCst));
  EXPECT_FALSE(disagrees_on_independent_writes(kSeqCst, kSeqCst, kRelaxed));
}

/// Returns whether thread 2 can miss thread 0's write, although thread 1 sees the write and then signals thread 2.
bool breaks_causality(Order middle_load, Order middle_store, Order load) {
  Litmus litmus;
  litmus.writes(kX);
  litmus.passes_on("a", kX, middle_load, kY, middle_store);
  litmus.reads_both("b", kY, load, "c", kX);
  return litmus.run().allows("a=1 b=1 c=0");
}

TEST(weak, release_and_acquire_pass_on_earlier_observations) {
  EXPECT_FALSE(breaks_causality(kRelaxed, kRelease, kAcquire)) << "by coherence, thread 1's read itself must be enough";
  EXPECT_TRUE(breaks_causality(kAcquire, kRelaxed, kAcquire));
  EXPECT_TRUE(breaks_causality(kAcquire, kRelease, kRelaxed));
}

bool isa2(Order middle_load, Order middle_store) {
  Litmus litmus;
  const Location z = litmus.program.location("z");
  litmus.writes_both(kX, kY, kRelease);
  litmus.passes_on("a", kY, middle_load, z, middle_store);
  litmus.reads_both("b", z, kAcquire, "c", kX);
  return litmus.run().allows("a=1 b=1 c=0");
}

TEST(weak, a_chain_of_messages_needs_each_link) {
  EXPECT_FALSE(isa2(kAcquire, kRelease));
  EXPECT_TRUE(isa2(kRelaxed, kRelease));
  EXPECT_TRUE(isa2(kAcquire, kRelaxed));
}

// --- one location ---

TEST(weak, reads_of_one_location_never_go_back) {
  Litmus litmus;
  litmus.writes(kX);
  litmus.reads_both("a", kX, kRelaxed, "b", kX);
  EXPECT_FALSE(litmus.run().allows("a=1 b=0"));
  EXPECT_TRUE(litmus.run().allows("a=0 b=1"));
}

TEST(weak, readers_agree_on_the_order_of_one_location) {
  Litmus litmus;
  litmus.program.thread([=](Thread& t) { t.store(kX, 1, kRelaxed); });
  litmus.program.thread([=](Thread& t) { t.store(kX, 2, kRelaxed); });
  litmus.reads_both("a", kX, kRelaxed, "b", kX);
  litmus.reads_both("c", kX, kRelaxed, "d", kX);
  EXPECT_FALSE(litmus.run().allows("a=1 b=2 c=2 d=1"));
  EXPECT_TRUE(litmus.run().allows("a=1 b=2 c=1 d=2"));
}

/// Returns whether each location can end with its first writer's value if two threads write both locations in opposite
/// orders.
bool two_plus_two_writes(Order fence) {
  Litmus litmus;
  const auto writer = [=](Location first, Location second) {
    return [=](Thread& t) {
      t.store(first, 1, kRelaxed);
      if (fence != kRelaxed) t.fence(fence);
      t.store(second, 2, kRelaxed);
    };
  };
  litmus.program.thread(writer(kX, kY));
  litmus.program.thread(writer(kY, kX));
  // A read of 1 that follows a read of 2 shows the order of the writes.
  const auto reader = [](Location at, const char* name) {
    return [=](Thread& t) { t.observe(name, t.load(at, kRelaxed) == 2 && t.load(at, kRelaxed) == 1); };
  };
  litmus.program.thread(reader(kX, "a"));
  litmus.program.thread(reader(kY, "b"));
  return litmus.run().allows("a=1 b=1");
}

TEST(weak, writes_of_two_locations_may_end_crosswise_except_with_seq_cst) {
  EXPECT_TRUE(two_plus_two_writes(kRelaxed));
  EXPECT_TRUE(two_plus_two_writes(kAcqRel));
  EXPECT_FALSE(two_plus_two_writes(kSeqCst));
}

TEST(weak, updates_are_never_lost) {
  Litmus litmus;
  for (const char* name : {"a", "b", "c"})
    litmus.program.thread([=](Thread& t) { t.observe(name, t.fetch_add(kX, 1, kRelaxed)); });
  const Findings findings = litmus.run();
  EXPECT_EQ(findings.outcomes.size(), 6U);
  for (const std::string& outcome : findings.outcomes) {
    EXPECT_NE(outcome.find('0'), std::string::npos);
    EXPECT_NE(outcome.find('1'), std::string::npos);
    EXPECT_NE(outcome.find('2'), std::string::npos);
  }
}

TEST(weak, one_of_two_compare_and_swaps_wins) {
  Litmus litmus;
  for (const char* name : {"a", "b"})
    litmus.program.thread([=](Thread& t) {
      Value expected = 0;
      t.observe(name, t.compare_exchange(kX, expected, 1, kRelaxed));
    });
  EXPECT_EQ(litmus.run().outcomes, (std::set<std::string>{"a=0 b=1", "a=1 b=0"}));
}

// --- seq_cst fences, beyond store buffering ---

TEST(weak, a_fence_and_a_read_between_restore_the_order) {  // RWC with fences: forbidden by RC11, but not by C++11
  Litmus litmus;
  litmus.program.thread([=](Thread& t) { t.store(kX, 1, kRelaxed); });
  litmus.program.thread([=](Thread& t) {
    t.observe("a", t.load(kX, kRelaxed));
    t.fence(kSeqCst);
    t.observe("b", t.load(kY, kRelaxed));
  });
  litmus.program.thread([=](Thread& t) {
    t.store(kY, 1, kRelaxed);
    t.fence(kSeqCst);
    t.observe("c", t.load(kX, kRelaxed));
  });
  EXPECT_FALSE(litmus.run().allows("a=1 b=0 c=0"));
}

// --- the simulator's own guarantees ---

TEST(weak, a_claim_is_checked_even_if_other_threads_never_continue) {
  Litmus litmus;
  litmus.program.thread([=](Thread& t) {
    t.store(kX, 1, kRelaxed);
    t.require(t.load(kY, kRelaxed) == 7);
    t.store(kX, 2, kRelaxed);
  });
  litmus.program.thread([=](Thread& t) { t.claim(t.load(kX, kRelaxed) != 1, "x is never 1"); });
  const Findings findings = litmus.run();
  EXPECT_EQ(findings.broken.count("x is never 1"), 1U) << findings.text();
}

TEST(weak, a_broken_claim_comes_with_the_execution_that_breaks_it) {
  Litmus litmus;
  litmus.program.thread([=](Thread& t) { t.store(kX, 1, kRelease); });
  litmus.program.thread([=](Thread& t) { t.claim(t.load(kX, kAcquire) == 0, "nobody writes"); });
  EXPECT_EQ(litmus.run().text(),
            "broken: nobody writes\n"
            "  thread 0\n    write release x := 1\n"
            "  thread 1\n    read acquire x = 1 of thread 0\n");
}

}  // namespace
}  // namespace holdfast::weak
