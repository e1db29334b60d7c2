// Virtual time, which passes only from one event to the next.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <utility>

#include "agent/clock.h"

namespace holdfast::test {

using Microseconds = std::int64_t;

class Schedule {
 public:
  explicit Schedule(std::uint64_t seed) : random_(seed) {}

  Microseconds now() const { return now_; }
  void after(Microseconds delay, std::function<void()> call);
  /// Runs the events until `end`. Returns their number.
  std::uint64_t run_until(Microseconds end);
  void run_for(Microseconds time) { run_until(now_ + time); }

  Microseconds between(Microseconds least, Microseconds most);
  bool chance(double probability);

 private:
  Microseconds now_ = 0;
  std::uint64_t number_ = 0;
  std::map<std::pair<Microseconds, std::uint64_t>, std::function<void()>> events_;
  std::mt19937_64 random_;
};

/// The clock of a machine, which advances `rate` times as fast as the schedule's.
class DriftingClock : public agent::Clock {
 public:
  DriftingClock(const Schedule& schedule, double rate, agent::Milliseconds start)
      : schedule_(schedule), rate_(rate), start_(start) {}

  agent::Milliseconds boot_ms() const override;
  agent::Milliseconds wall_ms() const override { return boot_ms() + wall_offset_; }
  /// Returns the true time from now until this clock shows `when`.
  Microseconds until(agent::Milliseconds when) const;
  void leap(agent::Milliseconds by) { wall_offset_ += by; }

 private:
  const Schedule& schedule_;
  double rate_;
  agent::Milliseconds start_;
  agent::Milliseconds wall_offset_ = 1'700'000'000'000;
};

}  // namespace holdfast::test
