// A disk that is slow to a program: each fsync and fdatasync of its threads takes as long as a test says. The kernel
// hands those calls to a supervisor (seccomp_unotify(2)), which lets them go on later.
#pragma once

#include <atomic>

namespace holdfast::test {

class SlowDisk {
 public:
  SlowDisk();
  ~SlowDisk();
  SlowDisk(const SlowDisk&) = delete;
  SlowDisk& operator=(const SlowDisk&) = delete;

  /// From now on. It may change at any time.
  void take(int ms) { delay_ms_->store(ms); }
  /// How many calls have been late.
  int calls() const { return calls_->load(); }

  /// In a process with one thread: from now on it has this disk, and so has what it executes. Its supervisor ends with
  /// it. False: the kernel refuses.
  bool use() const;

 private:
  [[noreturn]] void supervise(int notices) const;

  std::atomic<int>* const delay_ms_;  // in shared memory, as the next
  std::atomic<int>* const calls_;
};

}  // namespace holdfast::test
