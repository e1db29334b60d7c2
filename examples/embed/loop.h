// The program's loop: it sleeps in poll until a descriptor is readable or a time has come.
#pragma once

#include <chrono>
#include <functional>
#include <set>
#include <vector>

namespace embed {

class Loop {
 public:
  using Callback = std::function<void()>;
  static constexpr int kNoDescriptor = -1;

  /// Calls back once, from run(): when the descriptor is readable or after so many seconds, whichever is first.
  void wait(int descriptor, double seconds, Callback callback);
  /// Until nobody waits any more.
  void run();

 private:
  using Clock = std::chrono::steady_clock;
  struct Wait {
    int descriptor;
    Clock::time_point deadline;
    Callback callback;
  };

  std::set<int> sleep() const;
  std::vector<Wait> take_due(const std::set<int>& readable);

  std::vector<Wait> waits_;  // in the order of arrival
};

}  // namespace embed
