// A slow disk for a program: each fsync and fdatasync in its threads takes as long as a test requires. The kernel
// passes these calls to a supervisor (seccomp_unotify(2)), which lets them continue later.
#pragma once

#include <atomic>

namespace holdfast::test {

class SlowDisk {
 public:
  SlowDisk();
  ~SlowDisk();
  SlowDisk(const SlowDisk&) = delete;
  SlowDisk& operator=(const SlowDisk&) = delete;

  /// Changes the delay. This function may be called at any time.
  void take(int ms) { delay_ms_->store(ms); }
  /// Returns the number of delayed calls.
  int calls() const { return calls_->load(); }

  /// Makes the calling process, which must have a single thread, and the programs that it executes use this disk. The
  /// supervisor ends with the process. Returns false if the kernel refuses this.
  bool use() const;

 private:
  [[noreturn]] void supervise(int notices) const;

  std::atomic<int>* const delay_ms_;  // in shared memory, like the next member
  std::atomic<int>* const calls_;
};

}  // namespace holdfast::test
