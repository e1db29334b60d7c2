#include "cli/channel.h"

#include <pthread.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <system_error>

namespace holdfast::cli {

namespace {

constexpr std::size_t kStackBytes = 128 * 1024;

// Of the process, because the thread outlives every scope: exit() may run while it reads.
ExitingFlag exiting{false};
int worker_descriptor = -1;

[[noreturn]] void end_process() noexcept { std::_Exit(EXIT_FAILURE); }

void* listen_loop(void* /*unused*/) {
  for (;;) {
    Command command{};
    const ssize_t received = ::recv(worker_descriptor, &command, sizeof command, 0);
    if (received < 0 && errno == EINTR) continue;
    if (received <= 0) end_process();
    // Relaxed: the flag carries no other data.
    if (command == Command::quit) exiting.store(true, std::memory_order_relaxed);
  }
}

void check(int error, const char* what) {
  if (error != 0) throw std::system_error(error, std::generic_category(), what);
}

}  // namespace

ChannelPair make_channel() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) check(errno, "socketpair");
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

void send_command(const Descriptor& master_end, Command command) noexcept {
  [[maybe_unused]] const ssize_t sent = ::send(master_end.get(), &command, sizeof command, MSG_NOSIGNAL | MSG_DONTWAIT);
}

const ExitingFlag& listen_to_master(Descriptor worker_end) {
  worker_descriptor = worker_end.release();
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  // The new thread inherits the mask: there is no instant at which it could take a signal from the script.
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_t thread{};
  const int error = pthread_create(&thread, &attributes, listen_loop, nullptr);
  pthread_attr_destroy(&attributes);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  check(error, "thread of the channel");
  return exiting;
}

}  // namespace holdfast::cli
