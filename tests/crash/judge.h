// Checks every image that an operation leaves behind if its process is killed at any instruction.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "crash/scenario.h"
#include "crash/victim.h"

namespace holdfast::crash {

class Judge {
 public:
  Judge(Victim& victim, bool print) : victim_(victim), print_(print) {}

  /// Judges the images of one run in order. The first image is from before the run. REQUIRES: the process that changed
  /// the dictionary is dead.
  ///
  /// Each key must have either its old or its new value, both in the bare image and after a repair. Once a key has its
  /// new value, the old value must not come back. The operation's own key may be missing in between, while a lock
  /// changes hands. Keys that are evicted to make room for the operation's key disappear one by one, before that key
  /// exists.
  ///
  /// If the keys have versions, a key whose value has changed must have a different version than at the beginning, and
  /// versions must only grow.
  void judge(const std::string& name, const State& state, const std::string& key, const std::vector<Image>& images,
             std::uint64_t start_ns);
  /// Judges the images of a repair after an operation on `key`: no key may change, and a second repair must find the
  /// same keys.
  void judge_repair(const std::string& name, const State& state, const std::string& key,
                    const std::vector<Image>& images, std::uint64_t start_ns);

  std::uint64_t images() const { return images_; }
  std::uint64_t distinct() const { return seen_.size(); }
  std::uint64_t violations() const { return violations_; }
  void fail(const std::string& what);

 private:
  enum Phase { before, between, after, neither };
  /// The progress of the operation, as one kind of read sees it.
  struct Course {
    Phase last = before;
    std::set<std::string> gone;
  };

  void judge_run(const std::vector<Image>& images, std::uint64_t start_ns);
  void judge_one(const Image& image);
  Phase phase_of(const WatchState& sight) const;
  void check_sight(WatchState sight, const char* where, Course& course);
  void check_versions(const WatchState& sight, const std::function<std::uint64_t(const std::string&)>& version,
                      const char* where);
  void find_evicted(const Image& first, const Image& last);
  std::string check_evicted(WatchState& sight, Course& course) const;
  void repair_and_check(const Image& image);
  void use(const std::string& key);
  void use_list(const std::string& key);
  void lock_some_times(const std::string& key, const WatchState& others);
  void use_permits(const std::string& key);
  void check_whole(const char* when);

  Victim& victim_;
  bool print_;
  std::uint64_t images_ = 0;
  std::uint64_t violations_ = 0;
  std::unordered_set<std::uint64_t> seen_;

  // The state of the run that is being judged.
  std::string name_;
  const State* state_ = nullptr;
  std::string key_;       // the only key that may change; empty for a repair
  std::string dead_key_;  // a key held by a dead process; if memory is short, its hold may be freed first
  std::uint64_t start_ns_ = 0;
  std::size_t index_ = 0;
  WatchState before_, between_, after_;
  std::map<std::string, std::uint64_t> first_versions_, last_versions_;
  std::set<std::string> evicted_;  // other keys that are missing at the end
  Course bare_course_;
  Course repaired_course_;
};

}  // namespace holdfast::crash
