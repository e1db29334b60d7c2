#include "inspect/waits.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "inspect/rings.h"

namespace holdfast::inspect {

namespace {

using What = WaitLine::What;

/// The lines that were added so far. Lines that are too deep, or beyond the limit, are only counted.
class Lines {
 public:
  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

  /// Returns the index of the line, or kNone if the line was only counted.
  std::size_t add(WaitLine line) {
    const std::uint64_t waiters = line.what == What::waiter ? 1 : line.what == What::left_out ? line.count : 0;
    if (lines_.size() >= WaitLine::kMostLines) {
      rest_ += waiters;
    } else if (line.depth <= WaitLine::kDeepest) {
      lines_.push_back(std::move(line));
      return lines_.size() - 1;
    } else {
      if (lines_.back().depth <= WaitLine::kDeepest) lines_.push_back({What::left_out, WaitLine::kDeepest + 1});
      lines_.back().count += waiters;
      lines_.back().has_circle = lines_.back().has_circle || line.what == What::circle;
    }
    return kNone;
  }

  WaitLine& at(std::size_t number) { return lines_[number]; }

  std::vector<WaitLine> take() {
    std::uint64_t open = 0;  // bit i is set if a line of depth i follows before any shallower line
    for (std::size_t i = lines_.size(); i > 0; --i) {
      WaitLine& line = lines_[i - 1];
      const std::uint64_t own = std::uint64_t{1} << line.depth;
      line.more = open & (own | (own - 1));
      open = (open & (own - 1)) | own;
    }
    if (rest_ != 0) lines_.push_back({What::left_out, 0, nullptr, nullptr, rest_});
    return std::move(lines_);
  }

 private:
  std::vector<WaitLine> lines_;
  std::uint64_t rest_ = 0;
};

/// A depth-first search with its own stack, because chains may be deeper than the thread's stack.
class Forest {
 public:
  Forest(const std::vector<Lock>& locks, const Ancestors& ancestors, const KindOfWaiter& kind_of)
      : locks_(locks), ancestors_(ancestors), kind_of_(kind_of) {
    for (const Lock& lock : locks) {
      for (const holdfast_holder& holder : lock.holders) {
        std::vector<const Lock*>& held = held_by_[holder.owner];
        if (held.empty() || held.back() != &lock) held.push_back(&lock);
      }
      for (const holdfast_waiter& waiter : lock.waiters)
        for (const std::uint64_t each : those_that_wait_with(waiter)) waiting_.insert(each);
    }
  }

  std::vector<WaitLine> lines() {
    show_rings();
    for (const Lock& lock : locks_)
      if (is_root(lock) && !shown_.contains(&lock)) show(lock);
    for (const Lock& lock : locks_)
      if (!shown_.contains(&lock)) show(lock);
    return lines_.take();
  }

 private:
  using Owners = std::vector<std::uint64_t>;

  /// A lock on the path from the root to the current line.
  struct Step {
    const Lock* lock = nullptr;
    std::uint64_t holder = 0;  // the lock is below one of this holder's waits; 0: a root
    std::size_t waiters = 0;   // the number of waiters shown so far
    Owners owners = {};        // the last shown waiter with its ancestors, whose locks are shown next
    std::size_t owner = 0;     // index in `owners`
    std::size_t held = 0;      // index in that owner's locks
    std::map<std::pair<std::string, const Lock*>, std::size_t> lines = {};  // the waiters' lines, by kind and circle
  };

  /// Returns the waiting process, followed by its ancestors.
  Owners those_that_wait_with(const holdfast_waiter& waiter) const {
    Owners owners{waiter.owner};
    const auto found = ancestors_.find(waiter.owner);
    if (found != ancestors_.end()) owners.insert(owners.end(), found->second.begin(), found->second.end());
    return owners;
  }

  bool is_root(const Lock& lock) const {
    return std::none_of(lock.holders.begin(), lock.holders.end(),
                        [this](const holdfast_holder& holder) { return waiting_.contains(holder.owner); });
  }

  void show_rings() {
    const std::vector<Ring> rings = find_rings(locks_, ancestors_, 0);
    for (const Ring& ring : rings)
      for (const RingLink& link : ring) in_rings_.insert(link.lock);
    for (Ring ring : rings) {
      std::rotate(ring.begin(), ring.end() - 1, ring.end());  // begins with the first lock
      WaitLine line{What::ring};
      line.count = ring.size();
      line.is_certain = std::all_of(ring.begin(), ring.end(), [](const RingLink& each) { return each.is_in_child(); });
      lines_.add(std::move(line));
      top_ = 1;
      for (const RingLink& link : ring)
        if (!shown_.contains(link.lock)) show(*link.lock);
      top_ = 0;
    }
  }

  void show(const Lock& root) {
    push(root, 0);
    while (!path_.empty())
      if (!go_deeper() && !show_waiter()) pop();
  }

  void push(const Lock& lock, std::uint64_t holder) {
    lines_.add({What::lock, depth(), &lock});
    shown_.insert(&lock);
    const std::size_t here = path_.size();
    for (const holdfast_holder& each : lock.holders) {
      std::vector<std::size_t>& steps = steps_of_[each.owner];
      if (steps.empty() || steps.back() != here) steps.push_back(here);
    }
    path_.push_back({&lock, holder});
  }

  void pop() {
    const Lock& lock = *path_.back().lock;
    if (lock.waiter_count > lock.waiters.size())
      lines_.add({What::left_out, depth() - 1, &lock, nullptr, lock.waiter_count - lock.waiters.size()});
    path_.pop_back();
    for (const holdfast_holder& each : lock.holders) {
      std::vector<std::size_t>& steps = steps_of_[each.owner];
      if (!steps.empty() && steps.back() == path_.size()) steps.pop_back();
    }
  }

  /// Moves to the next lock that the last shown waiter or one of its ancestors holds. The locks of a process are shown
  /// below only one waiter.
  bool go_deeper() {
    Step& step = path_.back();
    for (; step.owner < step.owners.size(); ++step.owner, step.held = 0) {
      const std::uint64_t owner = step.owners[step.owner];
      if (step.held == 0 && !expanded_.insert(owner).second) continue;
      const auto held = held_by_.find(owner);
      while (held != held_by_.end() && step.held < held->second.size()) {
        const Lock* const next = held->second[step.held++];
        if (!is_to_be_nested(next)) continue;
        push(*next, owner);
        return true;
      }
    }
    return false;
  }

  /// Returns whether the lock may be shown below a waiter. The locks of rings are not shown there, because each ring
  /// has its own tree.
  bool is_to_be_nested(const Lock* lock) const { return !shown_.contains(lock) && !in_rings_.contains(lock); }

  bool has_locks_to_nest(std::uint64_t owner) const {
    const auto held = held_by_.find(owner);
    return held != held_by_.end() && !expanded_.contains(owner) &&
           std::any_of(held->second.begin(), held->second.end(),
                       [this](const Lock* lock) { return is_to_be_nested(lock); });
  }

  bool show_waiter() {
    Step& step = path_.back();
    if (step.waiters == step.lock->waiters.size()) return false;
    const holdfast_waiter& waiter = step.lock->waiters[step.waiters++];
    step.owners = those_that_wait_with(waiter);
    step.owner = step.held = 0;
    const Lock* const circle = circle_of(step, waiter);
    const bool nests = std::any_of(step.owners.begin(), step.owners.end(),
                                   [this](std::uint64_t owner) { return has_locks_to_nest(owner); });
    std::size_t none = Lines::kNone;
    std::size_t& line = nests ? none : step.lines.try_emplace({kind_of_(waiter), circle}, Lines::kNone).first->second;
    if (line != Lines::kNone) {
      lines_.at(line).equal.push_back(&waiter);
      return true;
    }
    line = lines_.add({What::waiter, depth() - 1, step.lock, &waiter});
    if (circle != nullptr) lines_.add({What::circle, depth(), circle, &waiter});
    return true;
  }

  /// Returns a lock on the path that the waiter or one of its ancestors holds, or null if there is none.
  const Lock* circle_of(const Step& step, const holdfast_waiter& waiter) const {
    const std::size_t here = path_.size() - 1;
    for (const std::uint64_t owner : step.owners) {
      const auto steps = steps_of_.find(owner);
      if (steps == steps_of_.end()) continue;
      const bool direct = owner == waiter.owner;
      const auto found = std::find_if(steps->second.rbegin(), steps->second.rend(), [&](std::size_t at) {
        // There are two cases that are not circles: a task that waits for another task of its process, and a ring that
        // already has its own tree.
        return direct ? !(at == here || (at + 1 == here && step.holder == owner))
                      : !(at == here && in_rings_.contains(step.lock));
      });
      if (found != steps->second.rend()) return path_[*found].lock;
    }
    return nullptr;
  }

  std::size_t depth() const noexcept { return top_ + 2 * path_.size(); }

  const std::vector<Lock>& locks_;
  const Ancestors& ancestors_;
  const KindOfWaiter& kind_of_;
  std::map<std::uint64_t, std::vector<const Lock*>> held_by_;
  std::set<std::uint64_t> waiting_;
  std::set<std::uint64_t> expanded_;  // holders whose locks are shown below one of their waits
  std::set<const Lock*> shown_;
  std::set<const Lock*> in_rings_;
  std::size_t top_ = 0;  // the depth of the path's first lock
  std::vector<Step> path_;
  std::map<std::uint64_t, std::vector<std::size_t>> steps_of_;  // maps a holder to its locks' positions on the path
  Lines lines_;
};

}  // namespace

std::vector<WaitLine> lines_of_waits(const std::vector<Lock>& locks, const Ancestors& ancestors,
                                     const KindOfWaiter& kind_of) {
  return Forest(locks, ancestors, kind_of).lines();
}

}  // namespace holdfast::inspect
