#include "run/channel.h"

#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <system_error>

namespace holdfast::cli {

namespace {

constexpr std::size_t kStackBytes = 128 * 1024;

// The default action of SIGURG is to do nothing, so programs that the script executes do not notice the signal.
constexpr int kNudge = SIGURG;
constexpr int kFirstSleepMs = 1;
constexpr int kLongestSleepMs = 1000;

// These are globals because exit() may run while the thread reads, so the thread outlives every scope. The flags do not
// publish other data, so every access is relaxed.
std::atomic<bool> requested{false};  // set by the thread
std::atomic<bool> expected{false};   // set by the script
std::atomic<bool> noticed{false};    // set by the script
int worker_descriptor = -1;
pthread_t main_thread;

void do_nothing(int /*signal*/) {}

/// Reads a command. Ends the process if the master is gone.
void receive() noexcept {
  Command command{};
  const ssize_t received = ::recv(worker_descriptor, &command, sizeof command, 0);
  if (received < 0 && errno == EINTR) return;
  if (received <= 0) std::_Exit(EXIT_FAILURE);
  if (command == Command::quit) requested.store(true, std::memory_order_relaxed);
}

bool must_nudge() noexcept {
  return requested.load(std::memory_order_relaxed) && expected.load(std::memory_order_relaxed) &&
         !noticed.load(std::memory_order_relaxed);
}

/// Reads commands, and interrupts the script's sleeps with a signal. A signal that arrives between the script's check
/// and its sleep has no effect, so the thread repeats the signal.
void* listen_loop(void* /*unused*/) {
  int sleep_ms = kFirstSleepMs;
  for (;;) {
    pollfd channel{worker_descriptor, POLLIN, 0};
    const bool nudge = must_nudge();
    if (nudge) pthread_kill(main_thread, kNudge);
    if (::poll(&channel, 1, nudge ? sleep_ms : -1) > 0) receive();
    if (nudge) sleep_ms = std::min(2 * sleep_ms, kLongestSleepMs);
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

bool ExitRequest::ask() noexcept {
  const bool answer = requested.load(std::memory_order_relaxed);
  if (answer) noticed.store(true, std::memory_order_relaxed);
  return answer;
}

void ExitRequest::expect_question() noexcept { expected.store(true, std::memory_order_relaxed); }

ExitRequest listen_to_master(Descriptor worker_end) {
  worker_descriptor = worker_end.release();
  main_thread = pthread_self();
  struct sigaction nudge {};
  nudge.sa_handler = do_nothing;
  nudge.sa_flags = SA_RESTART;  // the script's reads and writes are restarted, but its sleeps end
  sigaction(kNudge, &nudge, nullptr);
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  // The new thread inherits the mask, so it can never receive a signal that is meant for the script.
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_t thread{};
  const int error = pthread_create(&thread, &attributes, listen_loop, nullptr);
  pthread_attr_destroy(&attributes);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  check(error, "cannot start the channel thread");
  return {};
}

}  // namespace holdfast::cli
