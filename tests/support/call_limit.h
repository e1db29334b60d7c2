// Limits the time that a call may take, whatever shared memory contains.
#pragma once

#include <atomic>

namespace holdfast::test {

/// The limit in seconds. A change waits up to one second for a mutex, and then needs a moment to return its error.
inline constexpr double kLongestCall = 1.1;

/// Watches the calls of one thread. If a call takes longer than kLongestCall, prints the call's name and ends the
/// process with SIGABRT. Time in which the thread waited for a processor, or in which the machine stalled, does not
/// count. Create one object per process, after fork. It must exist until the process ends.
class CallLimit {
 public:
  /// Watches the calling thread. `current` is the name of the call in progress, or null between calls. It may be in
  /// shared memory.
  explicit CallLimit(std::atomic<const char*>& current);
  CallLimit(const CallLimit&) = delete;
  CallLimit& operator=(const CallLimit&) = delete;

  /// Runs `call`. `name` must be a literal.
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
