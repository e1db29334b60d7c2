// Simulates a kernel that refuses a system call until the process ends, or that refuses new descriptors or threads
// while an object exists.
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>

namespace holdfast::test {

/// Makes this system call fail with this error from now on. Returns false if the kernel does not allow this.
inline bool refuse_call(unsigned call, int error) {
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{sizeof code / sizeof code[0], code};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/// Prevents new descriptors while this object exists.
class NoDescriptors {
 public:
  NoDescriptors() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit none{.rlim_cur = 0, .rlim_max = before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

 private:
  rlimit before_{};
};

/// Prevents new threads while this object exists. The limit does not apply to root, so root becomes nobody in the
/// meantime.
class NoThreads {
 public:
  NoThreads() : user_(::geteuid()) {
    ::getrlimit(RLIMIT_NPROC, &before_);
    const rlimit one{.rlim_cur = 1, .rlim_max = before_.rlim_max};
    ::setrlimit(RLIMIT_NPROC, &one);
    is_refused_ = user_ != 0 || ::setresuid(65534, 65534, 0) == 0;
  }
  ~NoThreads() {
    if (user_ == 0) static_cast<void>(::setresuid(0, 0, 0));
    ::setrlimit(RLIMIT_NPROC, &before_);
  }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;
  bool is_refused() const { return is_refused_; }

 private:
  const uid_t user_;
  rlimit before_{};
  bool is_refused_ = false;
};

}  // namespace holdfast::test
