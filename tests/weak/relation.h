// Relations between the events of an execution.
#pragma once

#include <array>
#include <bit>

#include "weak/execution.h"

namespace holdfast::weak {

class Relation {
 public:
  void add(std::size_t from, std::size_t to) noexcept { after_[from] |= EventSet{1} << to; }
  void add_all(std::size_t from, EventSet to) noexcept { after_[from] |= to; }
  bool has(std::size_t from, std::size_t to) const noexcept { return (after_[from] >> to & 1) != 0; }
  EventSet after(std::size_t from) const noexcept { return after_[from]; }

  friend Relation operator|(const Relation& left, const Relation& right) noexcept {
    Relation both = left;
    for (std::size_t i = 0; i < kEventsMax; ++i) both.after_[i] |= right.after_[i];
    return both;
  }

  /// Returns the relation of one step of this relation followed by one step of `next`.
  Relation then(const Relation& next) const noexcept {
    Relation result;
    for (std::size_t i = 0; i < kEventsMax; ++i)
      for (EventSet rest = after_[i]; rest != 0; rest &= rest - 1)
        result.after_[i] |= next.after_[static_cast<std::size_t>(std::countr_zero(rest))];
    return result;
  }

  Relation closure() const noexcept {
    Relation result = *this;
    for (std::size_t middle = 0; middle < kEventsMax; ++middle)
      for (std::size_t i = 0; i < kEventsMax; ++i)
        if (result.has(i, middle)) result.after_[i] |= result.after_[middle];
    return result;
  }

  /// Returns the pairs that lead from the first set to the second.
  Relation between(EventSet from, EventSet to) const noexcept {
    Relation result;
    for (std::size_t i = 0; i < kEventsMax; ++i)
      if ((from >> i & 1) != 0) result.after_[i] = after_[i] & to;
    return result;
  }

  bool acyclic() const noexcept {
    const Relation closed = closure();
    for (std::size_t i = 0; i < kEventsMax; ++i)
      if (closed.has(i, i)) return false;
    return true;
  }

  static Relation identity(EventSet of) noexcept {
    Relation result;
    for (EventSet rest = of; rest != 0; rest &= rest - 1) {
      const auto i = static_cast<std::size_t>(std::countr_zero(rest));
      result.add(i, i);
    }
    return result;
  }

 private:
  std::array<EventSet, kEventsMax> after_{};
};

}  // namespace holdfast::weak
