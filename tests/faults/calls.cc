#include "faults/calls.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <initializer_list>

namespace holdfast::faults {

namespace {

/// A number that no system call has. The victim uses it to talk to the answering process.
constexpr int kMark = 0x4F46;

struct Named {
  int number;
  const char* name;
};
/// Calls that can fail with the same one or two errors. If there is only one error, the second is 0.
struct Ways {
  int error;
  int other_error;
  std::initializer_list<Named> calls;
};

#define CALL(call) \
  Named { SYS_##call, #call }

// A system call is missing here if the library does not make it, or if the call cannot fail as the library uses it.
// These are calls that end, signal or wait for a process, change signal masks, or close a descriptor (which is closed
// even if close fails).
constexpr Ways kWays[] = {
#ifdef SYS_open
    {EMFILE, EACCES, {CALL(open)}},
    {ENOMEM, EACCES, {CALL(stat), CALL(lstat)}},
    {ENOSPC, EACCES, {CALL(mkdir)}},
    {EACCES, EPERM, {CALL(unlink)}},
    {EACCES, ENOMEM, {CALL(readlink)}},
    {EPERM, 0, {CALL(chmod)}},
    {EINTR, ENOMEM, {CALL(poll)}},
    {EAGAIN, ENOMEM, {CALL(fork), CALL(vfork)}},
    {EMFILE, 0, {CALL(pipe)}},
    {EACCES, 0, {CALL(access)}},
#endif
    {EMFILE, EACCES, {CALL(openat)}},
    {ENOMEM, EACCES, {CALL(fstat), CALL(newfstatat), CALL(statx), CALL(statfs), CALL(mprotect)}},
    {ENOMEM, EINTR, {CALL(fstatfs)}},
    {ENOMEM, EPERM, {CALL(mmap), CALL(membarrier)}},
    {ENOMEM, 0, {CALL(munmap), CALL(mremap)}},
    {EINVAL, ENOMEM, {CALL(madvise)}},
    {EINVAL, 0, {CALL(prctl)}},
    {ENOSPC, EINTR, {CALL(fallocate)}},
    {ENOSPC, EACCES, {CALL(mkdirat)}},
    {EINTR, EPERM, {CALL(ftruncate)}},
    {EPERM, 0, {CALL(fchmod), CALL(fchmodat), CALL(fchown), CALL(sched_getaffinity), CALL(prlimit64)}},
    {EACCES, ENOSPC, {CALL(linkat), CALL(renameat2)}},
    {EACCES, EPERM, {CALL(unlinkat)}},
    {EACCES, ENOMEM, {CALL(readlinkat), CALL(bind)}},
    {EACCES, 0, {CALL(faccessat)}},
    {ENOENT, ENOMEM, {CALL(getdents64)}},
    {EINTR, ENOLCK, {CALL(flock)}},
    {EINTR, EIO, {CALL(read), CALL(pread64)}},
    {EINTR, ENOSPC, {CALL(write), CALL(pwrite64)}},
    {EINTR, EAGAIN, {CALL(getrandom)}},
    {EINTR, ENOMEM, {CALL(ppoll)}},
    {EINTR, 0, {CALL(clock_nanosleep), CALL(nanosleep)}},
    {EMFILE, ENOBUFS, {CALL(socket), CALL(socketpair)}},
    {EMFILE, EAGAIN, {CALL(accept4)}},
    {EMFILE, 0, {CALL(eventfd2), CALL(pipe2), CALL(dup3)}},
    {ENOBUFS, 0, {CALL(listen), CALL(getsockopt), CALL(setsockopt), CALL(getsockname)}},
    {EAGAIN, ENOMEM, {CALL(mincore), CALL(clone), CALL(clone3)}},
    {EAGAIN, ECONNREFUSED, {CALL(connect)}},
    {EAGAIN, ENOBUFS, {CALL(sendto)}},
    {EAGAIN, EINTR, {CALL(recvfrom)}},
};
#undef CALL

// EAGAIN means that another process holds the lock. By design, the caller then waits, so only one call gets this error.
Call way_of_fcntl(int command) {
  if (command == F_OFD_SETLK) return {"fcntl(F_OFD_SETLK)", ENOLCK, EAGAIN};
  if (command == F_OFD_GETLK) return {"fcntl(F_OFD_GETLK)", ENOLCK, EINTR};
  return {"fcntl", EINTR, EMFILE};
}

// Private futexes belong to the C library, and no kernel refuses to wake their waiters. But a sandbox may refuse
// wake-ups of holdfast's own futexes.
Call way_of_futex(std::uint64_t operation) {
  if ((operation & FUTEX_CMD_MASK) == FUTEX_WAKE_OP) return {"futex(wake and change)", EFAULT, EINTR};
  const bool is_wake = (operation & FUTEX_CMD_MASK) == FUTEX_WAKE;
  if ((operation & FUTEX_PRIVATE_FLAG) != 0) return is_wake ? Call{} : Call{"futex(wait, private)", EAGAIN, EINTR};
  return is_wake ? Call{"futex(wake)", EPERM, 0} : Call{"futex(wait)", EINTR, EPERM};
}

Call way_of(int number, const std::uint64_t* arguments) {
  if (number == SYS_fcntl) return way_of_fcntl(static_cast<int>(arguments[1]));
  if (number == SYS_futex) return way_of_futex(arguments[1]);
  for (const Ways& ways : kWays)
    for (const Named& call : ways.calls)
      if (call.number == number) return {call.name, ways.error, ways.other_error};
  return {};
}

/// A message of one byte that can carry a descriptor.
struct DescriptorMessage {
  char byte = 'd';
  iovec part{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};

  DescriptorMessage() {
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
  }
  DescriptorMessage(const DescriptorMessage&) = delete;
  DescriptorMessage& operator=(const DescriptorMessage&) = delete;
};

int send_descriptor(int channel, int fd) noexcept {
  DescriptorMessage sent;
  cmsghdr* const header = CMSG_FIRSTHDR(&sent.message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof fd);
  std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  return ::sendmsg(channel, &sent.message, 0) == 1 ? 0 : errno;
}

}  // namespace

int ask_about_calls(int channel) noexcept {
  // sendmsg sends the descriptor to the answering process, which cannot be asked about calls before it has the
  // descriptor.
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sendmsg, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{sizeof program / sizeof *program, program};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return errno;
  const auto listener =
      static_cast<int>(::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &filter));
  if (listener < 0) return errno;
  const int error = send_descriptor(channel, listener);
  ::close(listener);
  return error;
}

void arm_calls() noexcept { ::syscall(kMark, 1); }
void disarm_calls() noexcept { ::syscall(kMark, 0); }

int receive_descriptor(int channel) noexcept {
  DescriptorMessage received;
  if (::recvmsg(channel, &received.message, MSG_CMSG_CLOEXEC) != 1) return -1;
  const cmsghdr* const header = CMSG_FIRSTHDR(&received.message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS) return -1;
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
  return fd;
}

// Returns the errno value for the call, 0 to let the call continue, or -1 if this function has answered it.
int CallJudge::judge(int number, const std::uint64_t* arguments) {
  if (number == kMark) {
    armed_ = arguments[0] != 0;
    return -1;
  }
  if (!armed_) return 0;
  Call call = way_of(number, arguments);
  if (call.name == nullptr) return 0;
  calls_.push_back(call);
  const std::uint64_t count = calls_.size();
  if (first_ == 0 || count < first_ || (count > first_ && !from_then_on_)) return 0;
  if (other_ && call.other_error != 0 && !(from_then_on_ && call.other_error == EAGAIN)) call.error = call.other_error;
  failed_.push_back(call);
  return call.error;
}

bool CallJudge::answer() {
  seccomp_notif question{};
  if (::ioctl(listener_, SECCOMP_IOCTL_NOTIF_RECV, &question) != 0) return errno == EINTR || errno == ENOENT;
  const int error = judge(question.data.nr, reinterpret_cast<const std::uint64_t*>(question.data.args));
  seccomp_notif_resp response{};
  response.id = question.id;
  if (error == 0) response.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
  if (error > 0) response.error = -error;
  // This fails if the calling process was killed or interrupted in the meantime.
  ::ioctl(listener_, SECCOMP_IOCTL_NOTIF_SEND, &response);
  return true;
}

}  // namespace holdfast::faults
