// Makes calls at the last moments at which a host can make them. Reports each successful call, and exits with 1 if a
// call fails.
//
//   late_calls WHERE     key, thread_local, static, atexit, on_exit, quick_exit, outlive, fork, holds, contend, death
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>

#include "holdfast.h"

namespace {

holdfast_dict* dict = nullptr;
std::string_view where;

void say(const char* text) {
  if (::write(STDOUT_FILENO, text, std::strlen(text)) < 0) _exit(2);
}

void check(bool well, const char* what) {
  if (well) return;
  say(what);
  say(": ");
  say(holdfast_error());
  say("\n");
  _exit(1);
}

/// The host's memory, in blocks of all sizes that the library may have allocated and freed.
class Blocks {
 public:
  Blocks() {
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      blocks_[i] = static_cast<char*>(std::malloc(kStep * (i + 1)));
      std::memset(blocks_[i], 'A', kStep * (i + 1));
    }
  }
  void check_untouched() {
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      for (std::size_t at = 0; at < kStep * (i + 1); ++at)
        check(blocks_[i][at] == 'A', "memory of the host was changed");
      std::free(blocks_[i]);
    }
  }

 private:
  static constexpr std::size_t kStep = 8;
  std::array<char*, 128> blocks_{};
};

int set(int op, double exptime) {
  return holdfast_store(dict, op, "key", 3, HOLDFAST_NUMBER, nullptr, 0, 1, exptime, 0, nullptr);
}

/// Makes all calls that allocate memory for their thread: calls that return fixed or formatted messages, or lists of
/// keys.
void call() {
  check(set(HOLDFAST_SET, 0) == HOLDFAST_OK, "set");
  check(set(99, 0) == HOLDFAST_INVALID && std::strstr(holdfast_error(), "bad op") != nullptr, "a bad op");
  check(set(HOLDFAST_SET, -1) == HOLDFAST_INVALID && std::strstr(holdfast_error(), "0 or more, got -1") != nullptr,
        "a bad exptime");
  std::array<char, 256> buffer{};
  holdfast_value keys{};
  keys.data = buffer.data();
  keys.capacity = buffer.size();
  std::uint32_t count = 0;
  check(holdfast_keys(dict, 0, &keys, &count) == HOLDFAST_OK && count >= 1, "keys");
  std::uint64_t cursor = 0;
  check(holdfast_scan(dict, &cursor, 100, "", 0, &keys, &count) == HOLDFAST_OK, "scan");
  check(holdfast_scan_locks(dict, &cursor, 100, "", 0, &keys, &count) == HOLDFAST_OK, "scan_locks");
  check(holdfast_list(&keys, &count) == HOLDFAST_OK && count >= 1, "list");
  holdfast_histogram histogram{};
  histogram.struct_size = sizeof histogram;
  check(holdfast_dict_histogram(dict, HOLDFAST_HELD_LOCK, HOLDFAST_TIME_HELD, &histogram) == HOLDFAST_OK, "histogram");
  holdfast_contended contended{};
  check(holdfast_dict_contention(dict, &contended, sizeof contended, 1, &count) == HOLDFAST_OK, "contention");
  check(holdfast_processes(nullptr, sizeof(holdfast_process), 0, &count) == HOLDFAST_OK && count >= 1, "processes");
  holdfast_health health{};
  check(holdfast_check(dict, &health, sizeof health) == HOLDFAST_OK && health.used == 1, "check");
  check(holdfast_look(dict, "lock", 4, nullptr, 0, &count, nullptr, sizeof(holdfast_waiter), 0, &count) == HOLDFAST_OK,
        "look");
  holdfast_dict* other = nullptr;
  check(holdfast_attach("none", 4, &other) == HOLDFAST_NOT_FOUND && std::strstr(holdfast_error(), "none") != nullptr,
        "attach");
  holdfast_lease lease{};
  check(holdfast_lock_try(dict, "lock", 4, 0, 0, 0, &lease) == HOLDFAST_OK, "lock");
  holdfast_lease none{};
  check(holdfast_lock(dict, "lock", 4, 0.01, 0, &none) == HOLDFAST_LOCKED, "a wait for a held lock");
  const holdfast_request writes =
      HOLDFAST_REQUEST(.kind = HOLDFAST_HELD_RWLOCK, .timeout = 0.01, .want = HOLDFAST_ALL_PERMITS);
  check(holdfast_acquire(dict, "rwlock", 6, &writes, &none) == HOLDFAST_OK, "acquire");
  check(holdfast_unlock(dict, "rwlock", 6, &none) == HOLDFAST_OK, "unlock of a writer");
  check(std::strcmp(holdfast_strerror(HOLDFAST_LOCKED), "locked") == 0, "strerror");
  check(holdfast_unlock(dict, "lock", 4, &lease) == HOLDFAST_OK, "unlock");
  holdfast_parker* const parker = holdfast_parker_new();
  check(parker != nullptr, "parker_new");
  std::uint32_t woken = 0;
  check(holdfast_parker_sleep(parker, 0, &woken, 1) == 0, "parker_sleep");
  holdfast_parker_free(parker);
}

void call_at(const char* place) {
  set(99, 0);
  set(HOLDFAST_SET, -1);
  Blocks blocks;
  call();
  blocks.check_untouched();
  say(place);
  say("\n");
}

// --- the end of a thread ---

std::array<pthread_key_t, 3> keys{};

void end_of_key(void*) {
  call_at("key");
  // This makes the destructors run again, up to three more times.
  pthread_setspecific(keys.front(), "again");
}

struct AtEndOfThread {
  ~AtEndOfThread() {
    if (used) call_at("thread_local");
  }
  bool used = false;
};
// One object is created before the thread's first call, the other one after it.
thread_local AtEndOfThread made_before;
thread_local AtEndOfThread made_after;

void in_a_thread(void (*body)()) {
  std::thread thread(body);
  thread.join();
}

void use_keys() {
  for (const pthread_key_t key : keys) pthread_setspecific(key, "set");
  call();
}

void use_thread_locals() {
  made_before.used = true;
  call();
  made_after.used = true;
}

// --- the end of the process ---

holdfast_lease kept{};

int try_lock(const char* key, holdfast_lease* lease) {
  return holdfast_lock_try(dict, key, std::strlen(key), 0, 0, 0, lease);
}

/// Checks that each lock that this process took, before or after it began to exit, looks held to a second process.
void hold_at_the_end() {
  holdfast_lease late{};
  check(try_lock("late", &late) == HOLDFAST_OK, "a late lock");
  const pid_t contender = ::fork();
  if (contender == 0) {
    ::execl("/proc/self/exe", "late_calls", "contend", nullptr);
    _exit(2);
  }
  int status = -1;
  check(::waitpid(contender, &status, 0) == contender && status == 0, "the contender");
  double seconds = 0;
  check(holdfast_lock_remaining(dict, "kept", 4, &kept, &seconds) == HOLDFAST_OK, "the lock that was kept");
  check(holdfast_lock_remaining(dict, "late", 4, &late, &seconds) == HOLDFAST_OK, "the late lock");
  check(holdfast_unlock(dict, "late", 4, &late) == HOLDFAST_OK, "the release of the late lock");
  say("held\n");
}

/// Waits for a lock whose holder is killed during the wait, long before the timeout.
void wait_for_a_dead_holder() {
  int ready[2];
  check(::pipe(ready) == 0, "pipe");
  const pid_t holder = ::fork();
  if (holder == 0) {
    holdfast_lease lease{};
    const char said = try_lock("held", &lease) == HOLDFAST_OK ? 'y' : 'n';
    if (::write(ready[1], &said, 1) != 1) _exit(2);
    for (;;) ::pause();
  }
  char said = 'n';
  check(::read(ready[0], &said, 1) == 1 && said == 'y', "the holder");
  std::thread killer([holder] {
    ::usleep(1'300'000);  // the wait has begun and slept once
    ::kill(holder, SIGKILL);
  });
  holdfast_lease lease{};
  constexpr double kTimeout = 8;
  const double end = holdfast_now() + kTimeout;
  const int code = holdfast_lock(dict, "held", 4, kTimeout, 0, &lease);
  const bool in_time = holdfast_now() < end;
  killer.join();
  ::waitpid(holder, nullptr, 0);
  check(code == HOLDFAST_OK && in_time, "a wait for a lock of a process that was killed");
  say("inherited\n");
}

struct AtEndOfProcess {
  ~AtEndOfProcess() {
    if (where == "static") call_at("static");
    if (where == "holds") hold_at_the_end();
  }
};
// One object is created before the library registers its own destructors, the other one after that.
AtEndOfProcess made_when_loaded __attribute__((init_priority(101)));
AtEndOfProcess made_later;

void on_exit_call(int, void*) { call_at("on_exit"); }

void* outlive(void* main_thread) {
  pthread_join(*static_cast<pthread_t*>(main_thread), nullptr);
  call_at("after main has ended");
  std::exit(0);
}

int main_of(std::string_view place) {
  if (place == "key") {
    for (pthread_key_t& key : keys) pthread_key_create(&key, end_of_key);
    in_a_thread(use_keys);
    in_a_thread(use_keys);
  } else if (place == "thread_local") {
    in_a_thread(use_thread_locals);
    in_a_thread(use_thread_locals);
  } else if (place == "atexit") {
    std::atexit([] { call_at("atexit"); });
  } else if (place == "on_exit") {
    on_exit(on_exit_call, nullptr);
  } else if (place == "quick_exit") {
    std::at_quick_exit([] { call_at("at_quick_exit"); });
    std::quick_exit(0);
  } else if (place == "outlive") {
    static pthread_t self = pthread_self();
    pthread_t thread;
    pthread_create(&thread, nullptr, outlive, &self);
    pthread_exit(nullptr);
  } else if (place == "holds") {
    check(try_lock("kept", &kept) == HOLDFAST_OK, "a lock");
  } else if (place == "death") {
    std::atexit(wait_for_a_dead_holder);
    call();  // registers the library's exit handler, which stops all checks of holders and runs before ours
  } else if (place == "contend") {
    holdfast_lease lease{};
    check(try_lock("kept", &lease) == HOLDFAST_LOCKED, "the lock that the process held before its exit");
    check(try_lock("late", &lease) == HOLDFAST_LOCKED, "the lock that the exiting process took");
  } else if (place == "fork") {
    const pid_t child = ::fork();
    if (child == 0) {
      call_at("child");
      std::atexit([] { call_at("exit of the child"); });
      return 0;
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return status == 0 ? 0 : 1;
  }
  return 0;
}

}  // namespace

int main(int count, char** values) {
  if (count != 2) return 2;
  where = values[1];
  if (where == "atexit") std::atexit([] { call_at("atexit, set before the library was used"); });
  const holdfast_options options{65536, HOLDFAST_MUTEX_FUTEX, HOLDFAST_TEMPORARY, 0, nullptr};
  check(holdfast_open("late", 4, &options, &dict) == HOLDFAST_OK, "open");
  if (where != "thread_local" && where != "key" && where != "death") call();
  return main_of(where);
}
