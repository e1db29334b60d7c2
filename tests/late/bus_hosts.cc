// Has a handler of SIGBUS of its own beside the guard, and faults of its own beside the dictionary's.
//
//   bus_hosts HOW
#include <sys/wait.h>

#include <array>
#include <csetjmp>
#include <csignal>
#include <cstdlib>

#include "dict_in_use.h"

namespace {

using namespace late;

char* own_page() {
  const int fd = ::memfd_create("own", 0);
  check(fd >= 0 && ::ftruncate(fd, 4096) == 0, "a file of the host");
  auto* const page = static_cast<char*>(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
  check(::ftruncate(fd, 0) == 0, "cut short");
  return page;
}

sigjmp_buf back;
void* faulted = nullptr;
bool blocked = false;
std::uintptr_t frame = 0;

void note_and_leave() {
  const char here = 0;
  frame = reinterpret_cast<std::uintptr_t>(&here);
  sigset_t mask;
  sigprocmask(SIG_BLOCK, nullptr, &mask);
  blocked = sigismember(&mask, SIGUSR2) == 1;
  siglongjmp(back, 1);
}

void on_bus_error(int, siginfo_t* info, void*) {
  faulted = info->si_addr;
  note_and_leave();
}

void on_bus_error_without_info(int signal) {
  check(signal == SIGBUS, "the signal");
  note_and_leave();
}

void install(int flags) {
  struct sigaction action {};
  if ((flags & SA_SIGINFO) != 0) {
    action.sa_sigaction = on_bus_error;
  } else {
    action.sa_handler = on_bus_error_without_info;
  }
  action.sa_flags = flags;
  sigaddset(&action.sa_mask, SIGUSR2);
  sigaction(SIGBUS, &action, nullptr);
}

/// The host's own fault comes to its handler.
void expect_own_fault(char* place, bool has_address) {
  faulted = nullptr;
  blocked = false;
  if (sigsetjmp(back, 1) == 0) {
    *place = 1;
    check(false, "no fault");
  }
  check(blocked && (!has_address || faulted == place), "the host's handler");
}

void cut_dict() {
  truncate_to("d.dict", 0);
  expect_removed();
  begin_anew();
}

void between_faults_of_both(bool has_address) {
  char* const page = own_page();
  cut_dict();
  expect_own_fault(page + 7, has_address);
  cut_dict();
  expect_own_fault(page + 8, has_address);
}

void with_info() { between_faults_of_both(true); }
void without_info() { between_faults_of_both(false); }

/// SA_RESETHAND: faults of the dictionary do not use the host's handler up; the second one of the host's ends it.
void once() {
  char* const page = own_page();
  cut_dict();
  expect_own_fault(page, true);
  cut_dict();
  std::puts("once");
  std::fflush(stdout);
  page[1] = 1;
}

/// SA_ONSTACK: the host's handler, and the guard with it, run on the stack that was made for them.
void on_a_stack_of_its_own() {
  static std::array<char, 65536> stack;
  const stack_t other{.ss_sp = stack.data(), .ss_flags = 0, .ss_size = stack.size()};
  check(sigaltstack(&other, nullptr) == 0, "sigaltstack");
  between_faults_of_both(true);
  const auto begin = reinterpret_cast<std::uintptr_t>(stack.data());
  check(frame >= begin && frame < begin + stack.size(), "the stack of the handler");
}

void has_no_handler() { own_page()[0] = 1; }
void is_sent_the_signal() { ::raise(SIGBUS); }
void ignores_it() {
  ::raise(SIGBUS);
  std::puts("ignored");
  std::fflush(stdout);
  own_page()[0] = 1;
}

/// Then the kernel calls no handler.
void blocks_it() {
  sigset_t mask;
  sigemptyset(&mask);
  sigaddset(&mask, SIGBUS);
  sigprocmask(SIG_BLOCK, &mask, nullptr);
  cut_dict();
}

/// A forked child has the guard and the host's handler, too.
void forks() {
  const pid_t child = ::fork();
  if (child == 0) {
    with_info();
    ::_exit(0);
  }
  int status = -1;
  check(::waitpid(child, &status, 0) == child && status == 0, "the child");
  with_info();
}

constexpr std::array kWays = {
    Way{"with_info", with_info, [] { install(SA_SIGINFO); }},
    Way{"without_info", without_info, [] { install(0); }},
    Way{"once", once, [] { install(SA_SIGINFO | SA_RESETHAND); }},
    Way{"stack", on_a_stack_of_its_own, [] { install(SA_SIGINFO | SA_ONSTACK); }},
    Way{"forks", forks, [] { install(SA_SIGINFO); }},
    Way{"no_handler", has_no_handler},
    Way{"blocks", blocks_it},
    Way{"sent", is_sent_the_signal},
    Way{"ignores", ignores_it, [] { std::signal(SIGBUS, SIG_IGN); }},
};

}  // namespace

int main(int count, char** values) { return count < 2 ? 2 : run_way(kWays, values[1], true); }
