#include "etcd/slow_disk.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <new>

#include "support/clock.h"
#include "support/process.h"

namespace holdfast::test {

namespace {

/// Installs a filter that reports only fsync and fdatasync to the supervisor.
int install_filter() {
  std::array<sock_filter, 5> program{{
      {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
      {BPF_JMP | BPF_JEQ | BPF_K, 1, 0, SYS_fsync},
      {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_fdatasync},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_USER_NOTIF},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
  }};
  const sock_fprog filter{program.size(), program.data()};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -1;
  return static_cast<int>(::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &filter));
}

std::atomic<int>* shared_ints() {
  void* const memory =
      ::mmap(nullptr, 2 * sizeof(std::atomic<int>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return static_cast<std::atomic<int>*>(memory);
}

}  // namespace

SlowDisk::SlowDisk() : delay_ms_(shared_ints()), calls_(delay_ms_ + 1) {}

SlowDisk::~SlowDisk() { ::munmap(delay_ms_, 2 * sizeof(std::atomic<int>)); }

bool SlowDisk::use() const {
  const int notices = install_filter();
  if (notices < 0) return false;
  fork_bound([&] { supervise(notices); });
  ::close(notices);
  return true;
}

void SlowDisk::supervise(int notices) const {
  for (;;) {
    seccomp_notif notice{};
    if (::ioctl(notices, SECCOMP_IOCTL_NOTIF_RECV, &notice) != 0) {
      if (errno == EINTR || errno == ENOENT) continue;  // the calling thread has ended
      ::_exit(0);
    }
    if (const int ms = delay_ms_->load(); ms > 0) {
      calls_->fetch_add(1);
      sleep_ms(ms);
    }
    seccomp_notif_resp answer{};
    answer.id = notice.id;
    answer.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    ::ioctl(notices, SECCOMP_IOCTL_NOTIF_SEND, &answer);
  }
}

}  // namespace holdfast::test
