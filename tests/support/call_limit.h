// A bound for the time that a call may take, whatever shared memory holds.
#pragma once

#include <atomic>

namespace holdfast::test {

/// Seconds. A change waits up to one for a mutex, and then needs a moment to say so.
inline constexpr double kLongestCall = 1.1;

/// Watches the calls that one thread makes, and ends the process by SIGABRT, naming the call, when one of them takes
/// longer than kLongestCall. Time in which the thread was ready to run but did not, or the machine stood still, does
/// not count. Make one per process, after fork; it stays until the process ends.
class CallLimit {
 public:
  /// `current` names the running call, null between calls; it may lie in shared memory. Watches the calling thread.
  explicit CallLimit(std::atomic<const char*>& current);
  CallLimit(const CallLimit&) = delete;
  CallLimit& operator=(const CallLimit&) = delete;

  /// Runs `call`. `name`: a literal.
  template <class Call>
  auto operator()(const char* name, Call&& call) {
    const Scope scope(*this, name);
    return call();
  }

 private:
  class Scope {
   public:
    Scope(CallLimit& limit, const char* name) : limit_(limit) {
      limit_.number_.store(limit_.number_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
      limit_.current_.store(name, std::memory_order_release);  // pairs with watch()
    }
    ~Scope() { limit_.current_.store(nullptr, std::memory_order_relaxed); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    CallLimit& limit_;
  };

  [[noreturn]] void watch(int thread);

  std::atomic<const char*>& current_;
  std::atomic<unsigned long> number_{0};
};

}  // namespace holdfast::test
