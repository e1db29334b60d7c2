#include "loop.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <system_error>
#include <utility>

namespace embed {

namespace {

constexpr double kLongest = 1e9;  // seconds: 31 years
constexpr std::chrono::milliseconds kLongestSleep = std::chrono::hours(1);

}  // namespace

void Loop::wait(int descriptor, double seconds, Callback callback) {
  const std::chrono::duration<double> time(seconds > 0 ? std::min(seconds, kLongest) : 0);
  const auto deadline = Clock::now() + std::chrono::ceil<Clock::duration>(time);
  waits_.push_back({descriptor, deadline, std::move(callback)});
}

void Loop::run() {
  while (!waits_.empty()) {
    for (const Wait& due : take_due(sleep())) due.callback();
  }
}

/// The descriptors that are readable, or that poll reports an error for; their waiters find out which.
std::set<int> Loop::sleep() const {
  std::set<int> wanted;  // many may wait for one descriptor
  Clock::time_point first = Clock::time_point::max();
  for (const Wait& wait : waits_) {
    if (wait.descriptor != kNoDescriptor) wanted.insert(wait.descriptor);
    first = std::min(first, wait.deadline);
  }
  std::vector<pollfd> polled;
  for (const int descriptor : wanted) polled.push_back({.fd = descriptor, .events = POLLIN, .revents = 0});
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(first - Clock::now());
  const auto timeout = std::clamp(left, std::chrono::milliseconds::zero(), kLongestSleep);
  if (::poll(polled.data(), polled.size(), static_cast<int>(timeout.count())) < 0 && errno != EINTR)
    throw std::system_error(errno, std::generic_category(), "poll");
  std::set<int> readable;
  for (const pollfd& each : polled)
    if (each.revents != 0) readable.insert(each.fd);
  return readable;
}

std::vector<Loop::Wait> Loop::take_due(const std::set<int>& readable) {
  const auto now = Clock::now();
  const auto first_due = std::stable_partition(waits_.begin(), waits_.end(), [&](const Wait& wait) {
    return wait.deadline > now && !readable.contains(wait.descriptor);
  });
  std::vector<Wait> due(std::make_move_iterator(first_due), std::make_move_iterator(waits_.end()));
  waits_.erase(first_due, waits_.end());
  return due;
}

}  // namespace embed
