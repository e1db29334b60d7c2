// Tests that memory shared by threads of one process is freed only after the last guard that may protect it
// (src/sync/epoch.h).
//
// Guards are counted with plain stores. Only the scan for guards executes a barrier in all threads, which acts as a
// full fence at an arbitrary point in each thread. So in each program here, the scan's barrier is at one particular
// point in the reader.
#include "weak/protocol.h"

namespace holdfast::weak {
namespace {

struct Guarding : Protocol {
  // The parts of a guard.
  Precaution counts_first{this, "counts_first"};
  Ordering end{this, "end", kRelease};
  Ordering note_epoch{this, "note_epoch", kAcquire};
  Ordering note_seen{this, "note_seen", kRelease};
  // The parts of a thread that retires memory.
  Precaution replaces_first{this, "replaces_first"};
  Ordering retire{this, "retire", kAcqRel};
  // The parts of a scan for guards.
  Precaution passes_barrier{this, "passes_barrier"};
  Ordering scan_count{this, "scan_count", kAcquire};
  Ordering scan_seen{this, "scan_seen", kAcquire};
  Precaution looks_at_seen{this, "looks_at_seen"};
  Ordering raise_seen{this, "raise_seen", kRelease};
};

constexpr Value kFirst = 1;  // the pointer's first target, which target 2 replaces
constexpr Value kUsed = 7;
constexpr Value kFreed = 99;

/// A barrier that one thread causes in another thread.
struct Barrier {
  Location asked;
  Location passed;

  void pass(Thread& t) const {
    t.fence(kSeqCst);
    t.store(asked, 1, kRelease);
    t.require(t.load(passed, kAcquire) == 1);
    t.fence(kSeqCst);
  }
  void answer(Thread& t) const {
    t.require(t.load(asked, kAcquire) == 1);
    t.fence(kSeqCst);
    t.store(passed, 1, kRelease);
  }
};

struct Guards {
  Program program;
  Location depth = program.location("depth");
  Location seen = program.location("seen", 1);
  Location epoch = program.location("epoch", 1);
  Location pointer = program.location("pointer", kFirst);
  Location first = program.location("first");

  Barrier barrier(const char* asked, const char* passed) { return {program.location(asked), program.location(passed)}; }

  /// Models one guard, which never ends if `ends` is false. Runs `point()` between its steps. Returns whether the
  /// guard's end recorded a new epoch.
  template <class Point>
  bool guard(const Guarding& how, Thread& t, Point&& point, bool ends = true) const {
    const auto count = [&] {
      t.store(depth, 1, kRelaxed);
      point();
    };
    if (how.counts_first) count();
    const bool leads_to_first = t.load(pointer, kAcquire) == kFirst;
    point();
    if (!how.counts_first) count();
    if (leads_to_first) {
      t.claim(t.load(first, kRelaxed) != kFreed, "no thread uses freed memory");
      t.store(first, kUsed, kRelaxed);
      t.observe("used", 1);
    }
    point();
    if (!ends) return false;
    const Value before = t.load(seen, kRelaxed);
    t.store(depth, 0, how.end);
    point();
    if (t.load(epoch, kRelaxed) == before) return false;
    point();
    const Value now = t.load(epoch, how.note_epoch);
    t.store(seen, now, how.note_seen);
    return true;
  }

  /// Returns the epoch up to which the reader keeps no memory, or the largest number if there is no guard.
  Value scan(const Guarding& how, Thread& t, const Barrier& all) const {
    const Value now = t.load(epoch, kAcquire);
    if (how.passes_barrier) all.pass(t);
    const Value count = t.load(depth, how.scan_count);
    Value since = t.load(seen, how.scan_seen);
    if (count != 0) return how.looks_at_seen ? since : ~Value{0};
    if (since < now) t.compare_exchange(seen, since, now, how.raise_seen, kRelaxed);
    return ~Value{0};
  }

  void retire(const Guarding& how, Thread& t, const Barrier& all) const {
    if (how.replaces_first) t.store(pointer, 2, kRelease);
    const Value own = t.fetch_add(epoch, 1, how.retire);
    if (!how.replaces_first) t.store(pointer, 2, kRelease);
    const bool frees = own < scan(how, t, all);
    if (frees) t.observe("found", t.exchange(first, kFreed, kRelaxed));
    t.observe("scanned", 1);
    t.observe("freed", frees ? 1 : 0);
  }
};

constexpr int kPoints = 5;  // number of points in a guard

void expect_order(Program& program) {
  program.finally("each use comes before", [](const Outcome& outcome) {
    return !outcome.contains("used") || !outcome.contains("found") || outcome.at("found") == kUsed;
  });
}

// Returns a program with a reader that has two consecutive guards, and a thread that retires the first guard's target.
// `where` is the point of the barrier.
Program two_guards(const Guarding& how, int where) {
  Guards guards;
  const Barrier all = guards.barrier("asked", "passed");
  guards.program.thread([=](Thread& t) {
    int at = 0;
    const auto point = [&] {
      if (at++ == where) all.answer(t);
    };
    point();
    bool noted = false;
    for (int i = 0; i < 2; ++i) noted = guards.guard(how, t, point) || noted;
    while (at <= where) point();
    t.observe("noted", noted ? 1 : 0);
  });
  guards.program.thread([=](Thread& t) { guards.retire(how, t, all); });
  guards.program.finally("memory that was kept is freed later", [](const Outcome& outcome) {
    return !outcome.contains("scanned") || !outcome.contains("noted") || outcome.at("freed") == 1 ||
           outcome.at("noted") == 1;
  });
  expect_order(guards.program);
  return guards.program;
}

// Adds a third thread that also scans, for memory that it retires itself, and raises `seen`.
Program two_scans(const Guarding& how, int first, int second) {
  Guards guards;
  const Barrier one = guards.barrier("asked", "passed");
  const Barrier other = guards.barrier("other asked", "other passed");
  guards.program.thread([=](Thread& t) {
    int at = 0;
    const auto point = [&] {
      if (at == first) one.answer(t);
      if (at == second) other.answer(t);
      ++at;
    };
    point();
    guards.guard(how, t, point);
    guards.guard(how, t, point, false);
    while (at <= first || at <= second) point();
    t.observe("read", 1);
  });
  guards.program.thread([=](Thread& t) { guards.retire(how, t, one); });
  guards.program.thread([=](Thread& t) {
    t.fetch_add(guards.epoch, 1, how.retire);
    guards.scan(how, t, other);
  });
  expect_order(guards.program);
  return guards.program;
}

std::vector<Program> programs(const Guarding& how) {
  std::vector<Program> all;
  for (int where = 0; where <= 2 * kPoints; ++where) all.push_back(two_guards(how, where));
  // At this point, the first guard has loaded its pointer. Only a barrier here lets the second scan pass on what it
  // knows about a use. Barriers at other points need not be tested.
  constexpr int kHasPointer = 2;
  all.push_back(two_scans(how, kHasPointer, kHasPointer));
  return all;
}

TEST(weak_guard, nobody_uses_freed_memory_and_each_part_is_needed) { expect_proof(programs); }

TEST(weak_guard, the_sources_contain_the_modelled_lines) {
  expect_quotes({
      {"src/sync/epoch.h", "platform::add_own(record_.depth, 1, std::memory_order_relaxed);"},
      {"src/sync/epoch.h",
       "const std::uint64_t seen = mine.seen.load(std::memory_order_relaxed);\n"
       "// Release: pairs with the acquire of the scan.\n"
       "platform::add_own(mine.depth, -1, std::memory_order_release);"},
      {"src/sync/epoch.h", "if (epoch_internal::now.load(std::memory_order_relaxed) != seen) [[unlikely]]"},
      {"src/sync/epoch.cc", "mine.seen.store(now.load(std::memory_order_acquire), std::memory_order_release);"},
      {"src/sync/epoch.cc", "raw->epoch_ = now.fetch_add(1, std::memory_order_acq_rel);"},
      {"src/sync/epoch.cc", "const std::uint64_t depth = one.depth.load(std::memory_order_acquire);"},
      {"src/sync/epoch.cc", "std::uint64_t seen = one.seen.load(std::memory_order_acquire);"},
      {"src/sync/epoch.cc",
       "one.seen.compare_exchange_strong(seen, epoch, std::memory_order_release, std::memory_order_relaxed);"},
      {"src/sync/epoch.cc", "if (one->epoch_ < oldest)"},
  });
}

}  // namespace
}  // namespace holdfast::weak
