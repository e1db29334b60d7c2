#include "agent/schedule.h"

#include <algorithm>
#include <cmath>

namespace holdfast::test {

void Schedule::after(Microseconds delay, std::function<void()> call) {
  events_.emplace(std::pair(now_ + delay, ++number_), std::move(call));
}

std::uint64_t Schedule::run_until(Microseconds end) {
  std::uint64_t steps = 0;
  while (!events_.empty() && events_.begin()->first.first <= end) {
    auto event = events_.extract(events_.begin());
    now_ = event.key().first;
    event.mapped()();
    ++steps;
  }
  now_ = end;
  return steps;
}

Microseconds Schedule::between(Microseconds least, Microseconds most) {
  return std::uniform_int_distribution<Microseconds>(least, most)(random_);
}

bool Schedule::chance(double probability) { return std::bernoulli_distribution(probability)(random_); }

agent::Milliseconds DriftingClock::boot_ms() const {
  return start_ + static_cast<agent::Milliseconds>(std::floor(static_cast<double>(schedule_.now()) * rate_ / 1000));
}

Microseconds DriftingClock::until(agent::Milliseconds when) const {
  const double then = static_cast<double>(when - start_) * 1000 / rate_;
  return std::max<Microseconds>(0, static_cast<Microseconds>(std::ceil(then)) + 1 - schedule_.now());
}

}  // namespace holdfast::test
