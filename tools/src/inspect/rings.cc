#include "inspect/rings.h"

#include <algorithm>
#include <map>
#include <utility>

namespace holdfast::inspect {

namespace {

class RingSearch {
 public:
  RingSearch(const std::vector<Lock>& locks, const Ancestors& ancestors, double long_wait) {
    for (const Lock& lock : locks) {
      for (const holdfast_waiter& waiter : lock.waiters) {
        if (waiter.waited >= long_wait) add({waiter.owner, &waiter, &lock});
        const auto found = ancestors.find(waiter.owner);
        if (found == ancestors.end()) continue;
        for (const std::uint64_t owner : found->second) add({owner, &waiter, &lock});
      }
    }
  }

  std::vector<Ring> rings() {
    drop_those_that_go_on();
    std::vector<Ring> found;
    std::map<std::uint64_t, std::size_t> walk_of;  // the number of the walk that reached the process first
    std::size_t walk = 0;
    for (const auto& [first, waits] : waits_) {
      ++walk;
      std::uint64_t owner = first;
      while (walk_of.try_emplace(owner, walk).second) owner = next(owner);
      if (walk_of[owner] == walk) found.push_back(ring_from(owner));
    }
    return found;
  }

 private:
  void add(const RingLink& link) {
    std::vector<RingLink>& waits = waits_[link.owner];
    if (waits.empty() || waits.back().lock != link.lock) waits.push_back(link);
  }

  /// Returns a waiting process that must continue before the wait can end, or 0 if there is none.
  std::uint64_t blocker_of(const RingLink& link) const {
    const std::vector<holdfast_holder>& holders = link.lock->holders;
    const auto blocks = [&](const holdfast_holder& holder) {
      // A process does not block its own wait, because another task of the process may continue.
      return waits_.contains(holder.owner) && (link.is_in_child() || holder.owner != link.owner);
    };
    const auto first = std::find_if(holders.begin(), holders.end(), blocks);
    if (first == holders.end()) return 0;
    // If a waiter for a semaphore does not want all permits, any of the holders may return the permits that the waiter
    // wants.
    const bool any_helps = first->kind == HOLDFAST_HELD_SEMAPHORE && link.waiter->want != HOLDFAST_ALL_PERMITS;
    const bool all_block =
        holders.size() == link.lock->holder_count && std::all_of(holders.begin(), holders.end(), blocks);
    return any_helps && !all_block ? 0 : first->owner;
  }

  /// Removes processes that will continue. The remaining processes are in rings, or wait for processes in rings.
  void drop_those_that_go_on() {
    for (bool dropped = true; dropped;) {
      dropped = false;
      for (auto each = waits_.begin(); each != waits_.end();) {
        std::vector<RingLink>& waits = each->second;
        std::erase_if(waits, [this](const RingLink& link) { return blocker_of(link) == 0; });
        dropped = dropped || waits.empty();
        each = waits.empty() ? waits_.erase(each) : std::next(each);
      }
    }
  }

  std::uint64_t next(std::uint64_t owner) const { return blocker_of(waits_.at(owner).front()); }

  Ring ring_from(std::uint64_t first) const {
    Ring ring;
    for (std::uint64_t owner = first; ring.empty() || owner != first; owner = next(owner))
      ring.push_back(waits_.at(owner).front());
    const auto first_lock = std::min_element(
        ring.begin(), ring.end(), [](const RingLink& one, const RingLink& other) { return one.lock < other.lock; });
    std::rotate(ring.begin(), first_lock + 1, ring.end());
    return ring;
  }

  std::map<std::uint64_t, std::vector<RingLink>> waits_;  // indexed by the process's token
};

}  // namespace

std::vector<Ring> find_rings(const std::vector<Lock>& locks, const Ancestors& ancestors, double long_wait) {
  return RingSearch(locks, ancestors, long_wait).rings();
}

}  // namespace holdfast::inspect
