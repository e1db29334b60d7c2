// Uses a dictionary while somebody takes its memory away, with the guard or without.
//
//   bus_calls HOW [unguarded]
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "holdfast.h"

namespace {

constexpr std::uint64_t kSize = 1 << 20;
holdfast_dict* dict = nullptr;

void check(bool well, const char* what) {
  if (well) return;
  std::printf("%s: %s\n", what, holdfast_error());
  std::fflush(stdout);
  _exit(1);
}

std::string path_of(const char* file) { return std::string(holdfast_directory()) + "/" + file; }

int set(const std::string& key) {
  return holdfast_store(dict, HOLDFAST_SET, key.data(), key.size(), HOLDFAST_STRING, key.data(), key.size(), 0, 0, 0,
                        nullptr);
}

int get(const std::string& key) {
  std::array<char, 64> buffer{};
  holdfast_value value{};
  value.data = buffer.data();
  value.capacity = buffer.size();
  return holdfast_get(dict, key.data(), key.size(), &value);
}

/// Touches all of the dictionary. The code of the last call.
int use_all() {
  int code = HOLDFAST_OK;
  for (int i = 0; i < 3000; ++i) {
    code = set("key" + std::to_string(i));
    get("key" + std::to_string(i));
  }
  return code;
}

void expect_removed() {
  check(use_all() == HOLDFAST_REMOVED, "use of what is left");
  check(std::strstr(holdfast_error(), "cut short") != nullptr, "its sentence");
  holdfast_lease lease{};
  check(holdfast_lock_try(dict, "l", 1, 0, 0, 0, &lease) == HOLDFAST_REMOVED, "no lock is given there");
}

void open_dict() {
  const holdfast_options options{kSize, HOLDFAST_MUTEX_FUTEX, 0, 0};
  check(holdfast_open("d", 1, &options, &dict) == HOLDFAST_OK, "open");
}

void begin_anew() {
  holdfast_remove("d", 1);
  open_dict();
  check(use_all() == HOLDFAST_OK, "use of the next one");
}

void truncate_dict() {
  check(::truncate(path_of("d.dict").c_str(), 0) == 0, "truncate");
  expect_removed();
  begin_anew();
}

void truncate_half() {
  check(::truncate(path_of("d.dict").c_str(), kSize / 2) == 0, "truncate");
  expect_removed();
  begin_anew();
}

void truncate_under_threads() {
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      while (!done) use_all();
    });
  }
  check(::truncate(path_of("d.dict").c_str(), 8192) == 0, "truncate");
  expect_removed();
  done = true;
  for (std::thread& thread : threads) thread.join();
  begin_anew();
}

/// What `cp` does: another file's bytes in the place of these, which are gone for a moment.
void copy_over() {
  const std::string path = path_of("d.dict");
  const int fd = ::open(path.c_str(), O_RDWR | O_TRUNC);
  check(fd >= 0, "open for writing");
  use_all();
  check(::ftruncate(fd, kSize) == 0, "ftruncate");
  expect_removed();
  begin_anew();
}

void truncate_table() {
  holdfast_lease lease{};
  check(holdfast_lock_try(dict, "l", 1, 0, 0, 0, &lease) == HOLDFAST_OK, "lock");
  check(::truncate(path_of("processes").c_str(), 0) == 0, "truncate");
  holdfast_holder holder{};
  int code = HOLDFAST_OK;
  for (int i = 0; i < 10 && code == HOLDFAST_OK; ++i) {
    code = holdfast_lock_holder(dict, "l", 1, &holder);
    holdfast_parker* const parker = holdfast_parker_new();
    std::uint32_t woken = 0;
    if (parker != nullptr) holdfast_parker_sleep(parker, 0.01, &woken, 1);
    holdfast_lease none{};
    check(holdfast_lock_try(dict, "l", 1, 0, 0, 0, &none) != HOLDFAST_OK, "no second holder");
  }
  check(set("a") == HOLDFAST_SYSTEM && std::strstr(holdfast_error(), "cut short") != nullptr, "set in a lost world");
}

// --- what is the host's ---

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

void host_handler(int, siginfo_t* info, void*) {
  faulted = info->si_addr;
  sigset_t mask;
  sigprocmask(SIG_BLOCK, nullptr, &mask);
  blocked = sigismember(&mask, SIGUSR2) == 1;
  siglongjmp(back, 1);
}

void install_host_handler() {
  struct sigaction action {};
  action.sa_sigaction = host_handler;
  action.sa_flags = SA_SIGINFO;
  sigaddset(&action.sa_mask, SIGUSR2);
  sigaction(SIGBUS, &action, nullptr);
}

void host_handles() {
  char* const page = own_page();
  if (sigsetjmp(back, 1) == 0) page[7] = 1;
  check(faulted == page + 7 && blocked, "the host's handler");
  truncate_dict();
  if (sigsetjmp(back, 1) == 0) page[8] = 1;
  check(faulted == page + 8, "the host's handler, again");
}

void host_does_not() { own_page()[0] = 1; }

struct Way {
  const char* name;
  void (*body)();
};
constexpr std::array kWays = {Way{"truncate", truncate_dict},         Way{"half", truncate_half},
                              Way{"threads", truncate_under_threads}, Way{"copy", copy_over},
                              Way{"table", truncate_table},           Way{"host_handles", host_handles},
                              Way{"host_does_not", host_does_not},    Way{"sent", [] { ::raise(SIGBUS); }}};

}  // namespace

int main(int count, char** values) {
  if (count < 2) return 2;
  const std::string_view how = values[1];
  if (how == "host_handles") install_host_handler();
  open_dict();
  check(use_all() == HOLDFAST_OK, "use");
  if (count == 2) check(holdfast_guard_sigbus() == HOLDFAST_OK && holdfast_guard_sigbus() == HOLDFAST_OK, "guard");
  for (const Way& way : kWays)
    if (how == way.name) way.body();
  std::puts("done");
  return 0;
}
