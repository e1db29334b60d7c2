#include "crash/judge.h"

#include <cstdio>

#include "base/hash.h"
#include "dict/guard.h"
#include "dict/repair.h"
#include "support/shard_check.h"

namespace holdfast::crash {

namespace {

constexpr std::uint64_t kPrinted = 20;
/// For one image in this many, the judge runs an operation that detects the dead owner, instead of calling repair().
constexpr std::uint64_t kByOperation = 40;

}  // namespace

void Judge::fail(const std::string& what) {
  if (print_ && violations_ < kPrinted)
    std::printf("VIOLATION: %s, image %zu: %s\n", name_.c_str(), index_, what.c_str());
  ++violations_;
}

void Judge::judge(const std::string& name, const State& state, const std::string& key, const std::vector<Image>& images,
                  std::uint64_t start_ns) {
  name_ = state.name + ": " + name;
  state_ = &state;
  key_ = dead_key_ = key;
  judge_run(images, start_ns);
}

void Judge::judge_repair(const std::string& name, const State& state, const std::string& key,
                         const std::vector<Image>& images, std::uint64_t start_ns) {
  name_ = state.name + ": repair of " + name;
  state_ = &state;
  key_ = "";
  dead_key_ = key;
  judge_run(images, start_ns);
  const std::string change = difference(before_, after_);
  if (!change.empty()) fail("the repair changed a key: " + change);
  for (const auto& [name_of_key, version] : first_versions_)
    if (last_versions_[name_of_key] == version) fail("the repair kept the version of " + name_of_key);
}

/// Returns what a reader of values sees, which is nothing if the entry is a lock.
static Seen value_in(const Seen& seen) { return seen.kind == Seen::Kind::lock ? Seen{} : seen; }

void Judge::check_versions(const WatchState& sight, const std::function<std::uint64_t(const std::string&)>& version,
                           const char* where) {
  if (!victim_.has_versions()) return;
  for (const auto& [key, seen] : sight) {
    const std::uint64_t now = version(key);
    if (now == first_versions_[key] && value_in(seen) != value_in(before_.at(key)))
      fail(std::string(where) + " " + key + " has changed, but its version has not");
    if (now < last_versions_[key]) fail(std::string(where) + " an earlier version of " + key + " is back");
  }
}

void Judge::judge_run(const std::vector<Image>& images, std::uint64_t start_ns) {
  start_ns_ = start_ns;
  before_ = victim_.see(images.front(), state_->keys, start_ns);
  after_ = victim_.see(images.back(), state_->keys, start_ns);
  find_evicted(images.front(), images.back());
  between_ = before_;
  if (between_.count(key_) != 0) between_[key_] = Seen{};
  bare_course_ = repaired_course_ = {};
  first_versions_.clear();
  if (victim_.has_versions())
    for (const std::string& each : state_->keys) first_versions_[each] = victim_.version_in(images.front(), each);
  last_versions_ = first_versions_;
  if (victim_.is_locked(images.back())) fail("the mutex is still held");
  for (index_ = 0; index_ < images.size(); ++index_) judge_one(images[index_]);
}

Judge::Phase Judge::phase_of(const WatchState& sight) const {
  // If the operation changes nothing, `before_` and `after_` are equal.
  if (sight == before_) return before;
  if (sight == after_) return after;
  return sight == between_ ? between : neither;
}

// Treats evicted keys, except the operation's own key, as if they still existed, because they do not all disappear at
// the same instruction.
void Judge::find_evicted(const Image& first, const Image& last) {
  evicted_.clear();
  const std::uint64_t count = Victim::evictions_of(last) - Victim::evictions_of(first);
  for (auto& [key, seen] : after_) {
    if (count == 0 || key == key_ || seen == before_[key] || seen.kind != Seen::Kind::missing) continue;
    evicted_.insert(key);
    seen = before_[key];
  }
  if (evicted_.size() > count) fail("more keys are gone than were evicted");
}

std::string Judge::check_evicted(WatchState& sight, Course& course) const {
  std::string problem;
  for (const std::string& key : evicted_) {
    Seen& seen = sight[key];
    if (seen.kind == Seen::Kind::missing)
      course.gone.insert(key);
    else if (seen != before_.at(key))
      problem = key + " changed before it was evicted: " + describe(seen);
    else if (course.gone.count(key) != 0)
      problem = key + " was evicted and is back";
    seen = before_.at(key);
  }
  return problem;
}

void Judge::check_sight(WatchState sight, const char* where, Course& course) {
  const std::string problem = check_evicted(sight, course);
  if (!problem.empty()) fail(std::string(where) + " " + problem);
  const Phase phase = phase_of(sight);
  if (phase == neither) {
    fail(std::string(where) + " neither before (" + difference(before_, sight) + ") nor after (" +
         difference(after_, sight) + ")");
    return;
  }
  if (before_ == after_) return;
  if (phase < course.last) fail(std::string(where) + " the new value is gone and the old one is back");
  if (phase == after && course.gone != evicted_)
    fail(std::string(where) + " a key was evicted after the operation's change");
  course.last = phase;
}

void Judge::judge_one(const Image& image) {
  ++images_;
  seen_.insert(XXH3_64bits(image.data(), image.size()));
  const WatchState bare = victim_.see(image, state_->keys, start_ns_);
  check_sight(bare, "bare:", bare_course_);
  check_versions(
      bare, [&](const std::string& key) { return victim_.version_in(image, key); }, "bare:");
  for (auto& [key, version] : last_versions_) version = victim_.version_in(image, key);
  for (const auto& [key, seen] : bare)
    if (seen.kind == Seen::Kind::lock && seen.sequence > Victim::sequence_of(image))
      fail("fencing token " + std::to_string(seen.sequence) + " of " + key + " was never granted");
  repair_and_check(image);
}

void Judge::repair_and_check(const Image& image) {
  victim_.put_judged(image);
  Shard& shard = victim_.judged().segment().shards()[0];
  const bool locked = victim_.is_locked(image);
  if (locked && images_ % kByOperation == 0) {
    victim_.judged().remove("a key that does not exist");
  } else {
    const ShardGuard guard(shard, 0);
    if (!guard.held()) return fail("the mutex of a dead owner was not taken over");
  }
  if (victim_.is_locked(
          Image(reinterpret_cast<const std::byte*>(&victim_.judged().segment().header()),
                reinterpret_cast<const std::byte*>(&victim_.judged().segment().header()) + victim_.size())))
    fail("the mutex stays locked after the takeover");
  check_whole(locked ? "after the repair" : "without a repair, because the mutex is free");
  const WatchState repaired = victim_.see_judged(state_->keys, start_ns_);
  check_sight(repaired, "repaired:", repaired_course_);
  const auto* whole = reinterpret_cast<const std::byte*>(&victim_.judged().segment().header());
  const Image present = victim_.has_versions() ? Image(whole, whole + victim_.size()) : Image();
  check_versions(
      repaired, [&](const std::string& key) { return victim_.version_in(present, key); }, "repaired:");

  if (locked) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&victim_.judged().segment().header());
    const Image once = victim_.normalised({bytes, bytes + victim_.size()});
    if (repair(shard) != 0) fail("the second repair cut a chain");
    if (once != victim_.normalised({bytes, bytes + victim_.size()})) fail("the second repair changed something");
  }
  use(dead_key_.empty() ? state_->keys.front() : dead_key_);
  use(state_->keys[images_ % state_->keys.size()]);
  check_whole("after further operations");
}

void Judge::check_whole(const char* when) {
  const std::string problem = test::check_shard(victim_.judged().segment().shards()[0]);
  if (!problem.empty()) fail(std::string(when) + ": " + problem);
}

// Checks that a repaired dictionary works like any other.
void Judge::use(const std::string& key) {
  test::Dict& dict = victim_.judged();
  const WatchState others = [&] {
    WatchState sight = victim_.see_judged(state_->keys, start_ns_);
    sight.erase(key);
    return sight;
  }();
  const std::uint64_t evictions_before = dict.segment().shards()[0].header().evictions.load();
  lock_some_times(key, others);
  const int stored = dict.set(key, "after the repair", 0, 4);
  if (stored == HOLDFAST_OK ? dict.get(key) != test::text("after the repair", 4) : stored != HOLDFAST_NO_MEMORY)
    fail("set of " + key + " gives " + holdfast_code_text(stored));
  if (dict.remove(key) != HOLDFAST_OK || dict.get(key) != test::nothing()) fail("delete of " + key);
  double sum = 0;
  const int counted = dict.incr_from(key, 1, 1, 0, &sum);
  if (counted == HOLDFAST_OK ? sum != 2 || dict.get(key) != test::number(2) : counted != HOLDFAST_NO_MEMORY)
    fail("incr of " + key);
  dict.remove(key);
  use_list(key);
  dict.remove(key);
  holdfast_lease lease{};
  const int taken = dict.try_lock(key, 100, &lease);
  if (taken == HOLDFAST_OK ? dict.get(key) != test::boolean(true) || dict.unlock(key, &lease) != HOLDFAST_OK
                           : taken != HOLDFAST_NO_MEMORY)
    fail("lock of " + key + " gives " + holdfast_code_text(taken));
  use_permits(key);
  // If memory is short, other entries may have been evicted.
  WatchState then = victim_.see_judged(state_->keys, start_ns_);
  std::uint64_t evictions = dict.segment().shards()[0].header().evictions.load() - evictions_before;
  for (const auto& [other, seen] : others)
    if (evictions != 0 && seen.kind == Seen::Kind::value && then[other].kind == Seen::Kind::missing) {
      then[other] = seen;
      --evictions;
    }
  const std::string change = difference(others, then);
  if (!change.empty()) fail("using " + key + " changed another key: " + change);
}

// Takes the lock under the mutex once, and then without the mutex. No fencing token may occur twice.
void Judge::lock_some_times(const std::string& key, const WatchState& others) {
  test::Dict& dict = victim_.judged();
  std::uint64_t last = 0;
  for (int i = 0; i < 3; ++i) {
    holdfast_lease lease{};
    if (dict.get(key) != test::nothing() || dict.try_lock(key, 100, &lease) != HOLDFAST_OK) return;
    if (lease.sequence <= last) fail("fencing tokens of " + key + " do not rise");
    for (const auto& [other, seen] : others)
      if (seen.kind == Seen::Kind::lock && seen.sequence == lease.sequence)
        fail(key + " got fencing token " + std::to_string(lease.sequence) + " of " + other);
    last = lease.sequence;
    if (dict.unlock(key, &lease) != HOLDFAST_OK) fail("unlock of " + key);
  }
}

void Judge::use_permits(const std::string& key) {
  test::Dict& dict = victim_.judged();
  holdfast_lease lease{};
  const int taken = dict.try_permits(key, HOLDFAST_RWLOCK, HOLDFAST_ALL_PERMITS, 0, 100, &lease);
  if (taken == HOLDFAST_NO_MEMORY) return;
  if (taken != HOLDFAST_OK) return fail("permits of " + key + " give " + holdfast_code_text(taken));
  holdfast_lease other{};
  if (dict.get(key) != test::boolean(true) || dict.keep(key, lease, 1) != HOLDFAST_OK || dict.used(key) != 1 ||
      dict.upgrade(key, lease) != HOLDFAST_OK || dict.used(key) != static_cast<int>(HOLDFAST_ALL_PERMITS) ||
      dict.unlock(key, &lease) != HOLDFAST_OK ||
      dict.try_permits(key, HOLDFAST_RWLOCK, HOLDFAST_ALL_PERMITS, 0, 100, &other) != HOLDFAST_OK ||
      dict.unlock(key, &other) != HOLDFAST_OK || dict.get(key) != test::nothing())
    fail("permits under " + key);
}

void Judge::use_list(const std::string& key) {
  test::Dict& dict = victim_.judged();
  const int pushed = dict.push(key, HOLDFAST_RIGHT, "second");
  if (pushed != 1 && pushed != -HOLDFAST_NO_MEMORY) fail("push to " + key + " gives " + std::to_string(pushed));
  if (pushed != 1) return;
  const bool both = dict.push(key, HOLDFAST_LEFT, "first") == 2;
  if (dict.pop(key, HOLDFAST_LEFT) != test::text(both ? "first" : "second") ||
      (both && dict.pop(key, HOLDFAST_RIGHT) != test::text("second")) || dict.llen(key) != 0)
    fail("list under " + key);
}

}  // namespace holdfast::crash
