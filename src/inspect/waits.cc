#include "inspect/waits.h"

#include <algorithm>
#include <map>
#include <set>

namespace holdfast::inspect {

namespace {

class Forest {
 public:
  explicit Forest(const std::vector<Lock>& locks) : locks_(locks) {
    for (const Lock& lock : locks) {
      for (const holdfast_holder& holder : lock.holders) held_by_[holder.owner].push_back(&lock);
      for (const holdfast_waiter& waiter : lock.waiters) waiting_.insert(waiter.owner);
    }
  }

  std::vector<WaitLine> lines() {
    for (const Lock& lock : locks_)
      if (is_root(lock)) add_lock(lock, 0, {});
    for (const Lock& lock : locks_)
      if (!shown_.contains(&lock)) add_lock(lock, 0, {});
    return lines_;
  }

 private:
  bool is_root(const Lock& lock) const {
    return std::none_of(lock.holders.begin(), lock.holders.end(),
                        [this](const holdfast_holder& holder) { return waiting_.contains(holder.owner); });
  }

  // The locks of a process are shown below the first of its waits only: each line once, so no tree is endless.
  void add_lock(const Lock& lock, std::size_t depth, const std::vector<bool>& more) {
    const bool on_path = path_.contains(&lock);
    lines_.push_back({&lock, nullptr, depth, more, on_path});
    if (on_path || !shown_.insert(&lock).second) return;
    path_.insert(&lock);
    for (std::size_t i = 0; i < lock.waiters.size(); ++i) {
      std::vector<bool> below = more;
      below.push_back(i + 1 < lock.waiters.size());
      add_waiter(lock, lock.waiters[i], depth + 1, below);
    }
    path_.erase(&lock);
  }

  void add_waiter(const Lock& lock, const holdfast_waiter& waiter, std::size_t depth, const std::vector<bool>& more) {
    lines_.push_back({&lock, &waiter, depth, more, false});
    const auto held = held_by_.find(waiter.owner);
    if (held == held_by_.end()) return;
    std::vector<const Lock*> next;
    for (const Lock* const other : held->second)
      if (other != &lock && (path_.contains(other) || !shown_.contains(other))) next.push_back(other);
    for (const Lock* const other : next) {
      std::vector<bool> below = more;
      below.push_back(other != next.back());
      add_lock(*other, depth + 1, below);
    }
  }

  const std::vector<Lock>& locks_;
  std::map<std::uint64_t, std::vector<const Lock*>> held_by_;
  std::set<std::uint64_t> waiting_;
  std::set<const Lock*> shown_;
  std::set<const Lock*> path_;
  std::vector<WaitLine> lines_;
};

}  // namespace

std::vector<WaitLine> lines_of_waits(const std::vector<Lock>& locks) { return Forest(locks).lines(); }

}  // namespace holdfast::inspect
