// Tests the versions of keys (src/dict/versions.h) and waits for changes (src/lock/changes.cc).
#include "weak/protocol.h"

namespace holdfast::weak {
namespace {

struct Changing : Protocol {
  Ordering commit_store{this, "commit_store", kRelease};          // commit()
  Ordering link_load{this, "link_load", kAcquire};                // Shard::read
  Ordering check_fence{this, "check_fence", kAcquire};            // Shard::unchanged_since
  Ordering end_store{this, "end_store", kRelease};                // Stripes::end_change
  Ordering version_load{this, "version_load", kAcquire};          // Segment::version_of
  Ordering lock{this, "lock", kAcquire};                          // Shmtx::lock_fast
  Precaution odd_before_commit{this, "odd_before_commit"};        // Stripes::begin_change
  Precaution number_grows{this, "number_grows"};                  // Stripes::end_change
  Precaution even_after_commit{this, "even_after_commit"};        // commit_change
  Precaution version_before_value{this, "version_before_value"};  // Dictionary::get_changed
};

/// A key's value (its link or its number) and its version.
struct Stored {
  Program program;
  Location version = program.location("version");
  Location value = program.location("value");
  Location mutex = program.location("mutex");

  /// Models commit_change.
  void change(const Changing& how, Thread& t, Value then) const {
    const Value before = t.load(version, kRelaxed);
    const Value after = how.number_grows ? (before | 1) + 1 : before;
    if (how.odd_before_commit) t.store(version, before | 1, kRelaxed);
    if (!how.even_after_commit) t.store(version, after, how.end_store);
    t.store(value, then, how.commit_store);
    if (how.even_after_commit) t.store(version, after, how.end_store);
  }

  /// Adds a reader that copies the value, later reads it again, and then compares the version as is_current does. If
  /// `is_link`, the reader follows a link; otherwise, it reads a number that changes in place.
  Program copy_meanwhile(const Changing& how, bool is_link) {
    const auto read = [*this, how, is_link](Thread& t) {
      const Value seen = t.load(value, is_link ? Order{how.link_load} : kRelaxed);
      if (!is_link) t.fence(how.check_fence);
      return seen;
    };
    program.thread([*this, how, read](Thread& t) {
      Value copy = 0;
      if (!how.version_before_value) copy = read(t);
      const Value known = t.load(version, how.version_load);
      if (how.version_before_value) copy = read(t);
      t.require(known % 2 == 0);
      const Value now = read(t);
      t.claim(now == copy || t.load(version, how.version_load) != known,
              "a reader that sees a value other than its copy finds a different version");
    });
    return program;
  }
};

Program changing_once(const Changing& how, bool is_link) {
  Stored stored;
  stored.program.thread([=](Thread& t) { stored.change(how, t, 1); });
  return stored.copy_meanwhile(how, is_link);
}

Program changing_a_link(const Changing& how) { return changing_once(how, true); }
Program changing_a_number(const Changing& how) { return changing_once(how, false); }

/// Two processes change the value, one after the other.
Program changing_twice(const Changing& how) {
  Stored stored;
  for (const Value me : {1, 2})
    stored.program.thread([=](Thread& t) {
      lock(t, stored.mutex, me, how.lock);
      stored.change(how, t, me);
      unlock(t, stored.mutex, me);
    });
  return stored.copy_meanwhile(how, true);
}

std::vector<Program> programs_of_copies(const Changing& how) {
  return {changing_a_link(how), changing_a_number(how), changing_twice(how)};
}

TEST(weak_key_versions, a_copy_of_a_current_version_is_current_and_each_ordering_is_needed) {
  expect_proof(programs_of_copies);
}

// --- waiting ---

struct Waking : Protocol {
  Ordering announce_fence{this, "announce_fence", kSeqCst, {kRelaxed, kAcqRel}};  // announce
  Ordering wake_fence{this, "wake_fence", kSeqCst, {kRelaxed, kAcqRel}};          // wake_watchers_of
  Ordering post{this, "post", kRelease};                                          // tell_all
  Ordering collect{this, "collect", kAcquire};                                    // collect_mail
  Precaution announces_first{this, "announces_first"};                            // compare, peek_version
  Precaution changes_first{this, "changes_first"};                                // Dictionary::with_shard_of
  Precaution announces_again{this, "announces_again"};                            // peek_version
};

/// A version, the bit of a process that watches it, and this process's mail.
struct Watched {
  explicit Watched(Value bit) : watchers(program.location("watchers", bit)) {}

  Program program;
  Location version = program.location("version");
  Location watchers;
  Location mail = program.location("mail_state");
  Location mutex = program.location("mutex");

  void change(Thread& t, Value me) const {
    lock(t, mutex, me);
    t.store(version, t.load(version, kRelaxed) + 2, kRelease);
    unlock(t, mutex, me);
  }
  /// Models wake_watchers_of. Returns 1 if it has posted mail.
  Value wake(const Waking& how, Thread& t) const {
    t.fence(how.wake_fence);
    if (t.load(watchers, kRelaxed) == 0 || t.exchange(watchers, 0, kAcqRel) == 0) return 0;
    t.fetch_or(mail, 1, how.post);
    return 1;
  }
  void announce(const Waking& how, Thread& t) const {
    if (t.load(watchers, kRelaxed) == 0) t.fetch_or(watchers, 1, kRelaxed);
    t.fence(how.announce_fence);
  }
  Value compare(Thread& t) const { return t.load(version, kAcquire); }
};

/// The value changes while a waiter announces itself.
Program beginning_to_wait(const Waking& how) {
  const Watched watched(0);
  Program program = watched.program;
  program.thread([=](Thread& t) {
    Value posted = how.changes_first ? 0 : watched.wake(how, t);
    watched.change(t, 1);
    if (how.changes_first) posted = watched.wake(how, t);
    t.observe("posted", posted);
  });
  program.thread([=](Thread& t) {
    if (how.announces_first) watched.announce(how, t);
    t.observe("knows", watched.compare(t));
    if (!how.announces_first) watched.announce(how, t);
  });
  program.finally("a waiter that sleeps during a change gets mail",
                  [](const Outcome& outcome) { return outcome.at("knows") == 2 || outcome.at("posted") == 1; });
  return program;
}

/// A waiter that one change has woken waits again during a second change.
Program waiting_again(const Waking& how) {
  const Watched watched(1);
  Program program = watched.program;
  for (const Value me : {1, 2})
    program.thread([=](Thread& t) {
      watched.change(t, me);
      t.observe(me == 1 ? "posted 1" : "posted 2", watched.wake(how, t));
    });
  program.thread([=](Thread& t) {
    t.require(t.exchange(watched.mail, 0, how.collect) == 1);
    if (how.announces_again) watched.announce(how, t);
    t.observe("knows", watched.compare(t));
  });
  program.finally("a waiter that sleeps again during a change gets mail again", [](const Outcome& outcome) {
    if (!outcome.contains("knows") || !outcome.contains("posted 1") || !outcome.contains("posted 2")) return true;
    if (outcome.at("knows") == 4) return true;
    return outcome.at("posted 1") + outcome.at("posted 2") == 2;
  });
  return program;
}

std::vector<Program> programs_of_waits(const Waking& how) { return {beginning_to_wait(how), waiting_again(how)}; }

TEST(weak_key_versions, no_wake_up_is_lost_and_each_ordering_is_needed) { expect_proof(programs_of_waits); }

TEST(weak_key_versions, the_sources_contain_the_modelled_lines) {
  expect_quotes({
      {"src/base/atomic.h", "where.store(value, kRelease);"},
      {"src/dict/versions.h", "stripe.version.store(stripe.version.load(kRelaxed) | 1, kRelaxed);"},
      {"src/dict/versions.h", "commit(stripe.version, (stripe.version.load(kRelaxed) | 1) + 1);"},
      {"src/dict/versions.h",
       "Stripes::begin_change(stripe);\nHOLDFAST_FAILPOINT(\"version.odd\");\ncommit(where, value);\n"
       "HOLDFAST_FAILPOINT(\"version.committed\");\nStripes::end_change(stripe);"},
      {"src/dict/segment.h", "stripe.version.load(kAcquire)) & kVersionMask;"},
      {"src/dict/versions.cc",
       "std::atomic_thread_fence(std::memory_order_seq_cst);\n"
       "if (stripe.watchers.load(kRelaxed) == 0) return;"},
      {"src/lock/changes.cc",
       "if ((stripe.watchers.load(kRelaxed) & bit) == 0) stripe.watchers.fetch_or(bit, kRelaxed);"},
      {"src/lock/changes.cc", "std::atomic_thread_fence(std::memory_order_seq_cst);\n}"},
      {"src/lock/changes.cc",
       "announce(stripe, waiter.owner);\nconst std::uint64_t now = "
       "segment->settled_version_of(shard, stripe);"},
  });
}

}  // namespace
}  // namespace holdfast::weak
