// The module with the scenarios. It uses only the public header and the C library.
#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <iterator>

#include "faults/scenario.h"
#include "holdfast.h"

namespace holdfast::faults {
namespace {

constexpr int kMutexes[kMutexCount] = {HOLDFAST_MUTEX_FUTEX, HOLDFAST_MUTEX_SPIN, HOLDFAST_MUTEX_FILE};
constexpr auto& kNames = kMutexNames;
constexpr std::uint64_t kSize = 65536;
/// Longer than a call may wait for other processes or for a dead process's lock, even if the machine stalls for a
/// second.
constexpr double kPatience = 5;

char sentence[512];

[[gnu::format(printf, 1, 2)]] const char* say(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(sentence, sizeof sentence, format, arguments);
  va_end(arguments);
  return sentence;
}

// --- calls of the library without allocations ----------------------------------------------------------------------

struct Dict {
  holdfast_dict* handle = nullptr;

  int open(const char* name, int mutex, std::uint64_t size = kSize) {
    const holdfast_options options{size, mutex, HOLDFAST_TEMPORARY, 0, nullptr};
    return holdfast_open(name, std::strlen(name), &options, &handle);
  }
  int set(const char* key, const char* value, int op = HOLDFAST_SET) const {
    return holdfast_store(handle, op, key, std::strlen(key), HOLDFAST_STRING, value, std::strlen(value), 0, 0, 0,
                          nullptr);
  }
  bool has(const char* key, const char* value) const {
    char buffer[256];
    holdfast_value got{};
    got.data = buffer;
    got.capacity = sizeof buffer;
    return holdfast_get(handle, key, std::strlen(key), &got) == HOLDFAST_OK && got.size == std::strlen(value) &&
           std::memcmp(buffer, value, got.size) == 0;
  }
  int remove(const char* key) const { return holdfast_delete(handle, key, std::strlen(key)); }
  int lock(const char* key, holdfast_lease* lease) const {
    return holdfast_lock_try(handle, key, std::strlen(key), 0, 0, 0, lease);
  }
  int unlock(const char* key, holdfast_lease* lease) const {
    return holdfast_unlock(handle, key, std::strlen(key), lease);
  }
  int permits(const char* key, std::uint32_t want, holdfast_lease* lease) const {
    return holdfast_permits_try(handle, key, std::strlen(key), HOLDFAST_SEMAPHORE, want, 3, 0, 0, 0, lease);
  }
  int write(const char* key, holdfast_lease* lease) const {
    return holdfast_permits_try(handle, key, std::strlen(key), HOLDFAST_RWLOCK, HOLDFAST_ALL_PERMITS, 0, 0, 0, 0,
                                lease);
  }
  /// Tries to take the lock until it succeeds or kPatience has passed.
  int lock_soon(const char* key, holdfast_lease* lease) const {
    const double end = holdfast_now() + kPatience;
    int code = lock(key, lease);
    while (code != HOLDFAST_OK && holdfast_now() < end) {
      ::usleep(1000);
      code = lock(key, lease);
    }
    return code;
  }
};

const char* failed(const char* what, int code) {
  return say("%s returned %s (%s)", what, holdfast_code_text(code), holdfast_error());
}

/// Checks that this process can get neither the lock nor this many permits. Returns "" if so.
const char* refused(const Dict& dict, const char* lock, const char* what, const char* semaphore, std::uint32_t permits,
                    const char* what_permits) {
  holdfast_lease lease{};
  if (const int code = dict.lock(lock, &lease); code != HOLDFAST_LOCKED) return failed(what, code);
  if (const int code = dict.permits(semaphore, permits, &lease); code != HOLDFAST_LOCKED)
    return failed(what_permits, code);
  return "";
}

// --- checks that everything works ------------------------------------------------------------------------------------

const char* values_work(const Dict& dict) {
  char key[32];
  for (int i = 0; i < 40; ++i) {
    std::snprintf(key, sizeof key, "works-%d-%d", static_cast<int>(::getpid()), i);
    if (const int code = dict.set(key, "value"); code != HOLDFAST_OK) return failed("a store", code);
    if (!dict.has(key, "value")) return say("a stored value is missing");
    if (const int code = dict.remove(key); code != HOLDFAST_OK) return failed("a delete", code);
  }
  std::uint32_t count = 0;
  if (const int code = holdfast_push(dict.handle, "list", 4, HOLDFAST_RIGHT, HOLDFAST_NUMBER, nullptr, 0, 1, &count);
      code != HOLDFAST_OK)
    return failed("a push", code);
  holdfast_value popped{};
  if (const int code = holdfast_pop(dict.handle, "list", 4, HOLDFAST_LEFT, &popped); code != HOLDFAST_OK)
    return failed("a pop", code);
  return "";
}

const char* locks_work(const Dict& dict) {
  holdfast_lease lease{};
  if (const int code = dict.lock_soon("free", &lease); code != HOLDFAST_OK) return failed("a free lock", code);
  if (const int code = holdfast_lock_explain(dict.handle, "free", 4, &lease, "why", 3); code != HOLDFAST_OK)
    return failed("explain", code);
  holdfast_lease second{};
  if (const int code = holdfast_lock(dict.handle, "free", 4, 0.001, 0, &second); code != HOLDFAST_LOCKED)
    return failed("a blocking call for a held lock", code);
  if (const int code = dict.unlock("free", &lease); code != HOLDFAST_OK) return failed("unlock", code);
  if (const int code = dict.permits("permits", 3, &lease); code != HOLDFAST_OK) return failed("free permits", code);
  if (const int code = dict.unlock("permits", &lease); code != HOLDFAST_OK) return failed("release of permits", code);
  std::uint32_t used = 0;
  std::uint32_t waiters = 0;
  if (const int code = holdfast_permits_count(dict.handle, "permits", 7, &used, &waiters); code != HOLDFAST_OK)
    return failed("a count of permits", code);
  if (used != 0 || waiters != 0)
    return say("%u permits in use and %u waiters after all permits were released", used, waiters);
  if (const int code = dict.write("rwlock", &lease); code != HOLDFAST_OK) return failed("a free rwlock", code);
  if (const int code = dict.unlock("rwlock", &lease); code != HOLDFAST_OK) return failed("unlock of a writer", code);
  return "";
}

/// Checks that a waiter for a lock that this process itself holds is woken by the release, and gets the lock.
const char* waits_work(const Dict& dict) {
  holdfast_lease lease{};
  holdfast_lease second{};
  if (const int code = dict.lock_soon("waited", &lease); code != HOLDFAST_OK) return failed("a lock to wait for", code);
  holdfast_parker* const parker = holdfast_parker_new();
  if (parker == nullptr) return say("cannot create a parker: %s", holdfast_error());
  holdfast_wait wait{};
  wait.parker = parker;
  wait.waiter = holdfast_waiter_open(parker);
  if (wait.waiter == 0) return say("cannot create a waiter: %s", holdfast_error());
  if (holdfast_parker_fd(parker) < 0) return say("a parker has no descriptor: %s", holdfast_error());
  int code = holdfast_lock_wait(dict.handle, "waited", 6, 0, &wait, &second);
  if (code != HOLDFAST_LOCKED) return failed("a wait for a held lock", code);
  if (code = dict.unlock("waited", &lease); code != HOLDFAST_OK) return failed("unlock of a lock with a waiter", code);
  const double end = holdfast_now() + kPatience;
  for (code = HOLDFAST_LOCKED; code != HOLDFAST_OK && holdfast_now() < end;) {
    std::uint32_t woken = 0;
    holdfast_parker_sleep(parker, std::fmin(wait.sleep, 0.5), &woken, 1);
    code = holdfast_lock_wait(dict.handle, "waited", 6, 0, &wait, &second);
  }
  if (code != HOLDFAST_OK) return failed("a wait for a released lock", code);
  if (code = dict.unlock("waited", &second); code != HOLDFAST_OK) return failed("unlock after a wait", code);
  holdfast_waiter_close(parker, wait.waiter);
  holdfast_parker_free(parker);
  return "";
}

const char* child_works(const Dict& dict) {
  const pid_t child = ::fork();
  if (child < 0) return say("cannot fork");
  if (child == 0) {
    holdfast_lease lease{};
    const bool works = dict.set("of a child", "value") == HOLDFAST_OK && dict.lock_soon("child", &lease) == HOLDFAST_OK;
    ::_exit(works ? 0 : 1);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) != child) {
  }
  return status == 0 ? "" : say("a forked child cannot store and lock, status %d", status);
}

const char* figures_are_sane(const Dict& dict) {
  holdfast_stats stats{};
  if (const int code = holdfast_dict_stats(dict.handle, &stats); code != HOLDFAST_OK) return failed("stats", code);
  if (stats.bytes_used + stats.bytes_free > holdfast_capacity(dict.handle))
    return say("the sum of used and free memory exceeds the capacity");
  if (stats.entries > 200) return say("%llu entries", static_cast<unsigned long long>(stats.entries));
  if (stats.repairs != 0)
    return say("%llu repairs, although no process died in a change", static_cast<unsigned long long>(stats.repairs));
  return "";
}

const char* first_wrong(std::initializer_list<const char* (*)(const Dict&)> checks, const Dict& dict,
                        const char* name) {
  for (const auto& check : checks)
    if (const char* const wrong = check(dict); *wrong != '\0') {
      static char text[sizeof sentence + 64];
      std::snprintf(text, sizeof text, "%s: %s", name, wrong);
      return text;
    }
  return "";
}

/// Opens a dictionary with each kind of mutex, and checks that everything works in it.
const char* everything_works() {
  if (holdfast_directory() == nullptr) return say("cannot enter the world: %s", holdfast_error());
  for (int i = 0; i < kMutexCount; ++i) {
    Dict dict;
    if (const int code = dict.open(kNames[i], kMutexes[i]); code != HOLDFAST_OK) return failed("open", code);
    const char* const wrong =
        first_wrong({values_work, locks_work, waits_work, child_works, figures_are_sane}, dict, kNames[i]);
    if (*wrong != '\0') return wrong;
  }
  return "";
}

// --- other processes -------------------------------------------------------------------------------------

/// Takes the lock "theirs" and the permits "theirs too" in each dictionary, and stores a value.
const char* hold_things() {
  for (int i = 0; i < kMutexCount; ++i) {
    Dict dict;
    holdfast_lease lease{};
    if (dict.open(kNames[i], kMutexes[i]) != HOLDFAST_OK || dict.set("known", "old") != HOLDFAST_OK ||
        dict.lock("theirs", &lease) != HOLDFAST_OK || dict.permits("theirs too", 3, &lease) != HOLDFAST_OK)
      return nullptr;
  }
  return "held";
}

const char* each_dictionary(const char* (*check)(const Dict&)) {
  for (int i = 0; i < kMutexCount; ++i) {
    Dict dict;
    if (const int code = dict.open(kNames[i], kMutexes[i]); code != HOLDFAST_OK) return failed("open", code);
    if (const char* const wrong = first_wrong({check}, dict, kNames[i]); *wrong != '\0') return wrong;
  }
  return "";
}

/// Takes locks that the victim keeps after it has settled.
const char* keep(const Dict& dict) {
  static holdfast_lease leases[6];
  static int count = 0;
  if (const int code = dict.lock_soon("kept", &leases[count++ % 6]); code != HOLDFAST_OK) return failed("kept", code);
  if (const int code = dict.permits("kept too", 2, &leases[count++ % 6]); code != HOLDFAST_OK)
    return failed("kept permits", code);
  return "";
}

const char* judge_during_victim(Neighbour neighbour) {
  if (const char* const wrong = everything_works(); *wrong != '\0') return wrong;
  const char* const wrong = each_dictionary([](const Dict& dict) {
    return refused(dict, "kept", "a lock that is held", "kept too", 2, "permits that are in use");
  });
  if (*wrong != '\0' || neighbour != Neighbour::alive) return wrong;
  return each_dictionary([](const Dict& dict) {
    return refused(dict, "theirs", "a neighbour's lock", "theirs too", 1, "a neighbour's permits");
  });
}

const char* judge_after_victim(Neighbour neighbour) {
  const char* wrong = everything_works();
  if (*wrong != '\0') return wrong;
  wrong = each_dictionary([](const Dict& dict) {
    holdfast_lease lease{};
    if (const int code = dict.lock_soon("kept", &lease); code != HOLDFAST_OK) return failed("a lock of the dead", code);
    if (const int code = dict.permits("kept too", 3, &lease); code != HOLDFAST_OK)
      return failed("permits of the dead", code);
    return "";
  });
  if (*wrong != '\0' || neighbour != Neighbour::dead) return wrong;
  return each_dictionary([](const Dict& dict) {
    holdfast_lease lease{};
    if (const int code = dict.lock_soon("theirs", &lease); code != HOLDFAST_OK && code != HOLDFAST_LOCKED)
      return failed("a lock of a dead neighbour", code);
    return "";
  });
}

// --- scenarios -------------------------------------------------------------------------------------------

// A victim runs one scenario, with one kind of mutex. `act` passes its results to `settle` in these variables.
int mutex = 0;
Dict mine;
holdfast_lease lease;
holdfast_lease permits;
holdfast_parker* parker = nullptr;
holdfast_wait wait;
int code = -1;
int other_code = -1;

bool is_memory_short = false;  // only allocations fail
char wrong_answer[sizeof sentence];

/// If only allocations fail, the call must return one of these codes, or fail with a message. Otherwise, records an
/// error.
void expect(const char* what, int given, std::initializer_list<int> codes) {
  if (!is_memory_short || wrong_answer[0] != '\0') return;
  for (const int wanted : codes)
    if (given == wanted) return;
  const bool is_told = holdfast_error()[0] != '\0';
  if (!is_told || (given != HOLDFAST_NO_MEMORY && given != HOLDFAST_SYSTEM))
    std::snprintf(wrong_answer, sizeof wrong_answer, "%s", failed(what, given));
}
void expect_ok(const char* what, int given) { expect(what, given, {HOLDFAST_OK}); }
/// Records an error if the call, which must fail for a reason other than memory, does not report this reason.
void expect_refused(int given, const char* why) {
  if (is_memory_short && (given != HOLDFAST_INVALID || std::strstr(holdfast_error(), why) == nullptr))
    std::snprintf(wrong_answer, sizeof wrong_answer, "%s", failed(why, given));
}

int open_mine() { return mine.open(kNames[mutex], kMutexes[mutex]); }
void open() { open_mine(); }

const char* settle() {
  if (wrong_answer[0] != '\0') return wrong_answer;
  if (const char* const wrong = everything_works(); *wrong != '\0') return wrong;
  return each_dictionary(keep);
}

// Opens a dictionary before or after the victim enters the world.
void act_open() {
  expect_ok("open", code = open_mine());
  if (code == HOLDFAST_OK) expect_ok("set", mine.set("key", "value"));
}

void attach() {
  holdfast_dict* dict = nullptr;
  for (const char* const name : {"futex", "file"})
    expect("attach", holdfast_attach(name, std::strlen(name), &dict), {HOLDFAST_OK, HOLDFAST_NOT_FOUND});
  expect("attach none", holdfast_attach("declared", 8, &dict), {HOLDFAST_NOT_FOUND});
  expect("remove none", holdfast_remove("declared", 8), {HOLDFAST_NOT_FOUND});
  std::uint64_t bytes = 0;
  expect("parse_size", holdfast_parse_size("12x", 3, &bytes), {HOLDFAST_INVALID});
}

// Checks that a failed change has changed nothing.
void prepare_values() {
  open();
  mine.set("stored", "old");
}
void act_values() {
  const auto store = [](int op, const char* key, double exptime) {
    return holdfast_store(mine.handle, op, key, std::strlen(key), HOLDFAST_NUMBER, nullptr, 0, 1, exptime, 0, nullptr);
  };
  expect_ok("set", code = mine.set("stored", "new"));
  std::uint32_t count = 0;
  int forcible = 0;
  double sum = 0;
  expect_ok("incr", holdfast_incr(mine.handle, "number", 6, 1, 1, 0, 0, &sum, &forcible));
  expect_ok("push", holdfast_push(mine.handle, "queue", 5, HOLDFAST_RIGHT, HOLDFAST_NUMBER, nullptr, 0, 1, &count));
  char buffer[4096];
  holdfast_value value{};
  value.data = buffer;
  value.capacity = sizeof buffer;
  expect_ok("keys", holdfast_keys(mine.handle, 0, &value, &count));
  std::uint64_t cursor = 0;
  expect_ok("scan", holdfast_scan(mine.handle, &cursor, 10, "s", 1, &value, &count));
  expect_ok("scan_locks", holdfast_scan_locks(mine.handle, &cursor, 10, "", 0, &value, &count));
  expect_ok("list", holdfast_list(&value, &count));
  holdfast_histogram histogram{};
  histogram.struct_size = sizeof histogram;
  holdfast_contended contended{};
  expect_ok("dict_histogram", holdfast_dict_histogram(mine.handle, HOLDFAST_HELD_LOCK, HOLDFAST_TIME_HELD, &histogram));
  expect_ok("dict_contention", holdfast_dict_contention(mine.handle, &contended, sizeof contended, 1, &count));
  expect_ok("processes", holdfast_processes(nullptr, sizeof(holdfast_process), 0, &count));
  holdfast_health health{};
  expect_ok("check", holdfast_check(mine.handle, &health, sizeof health));
  expect_ok("look",
            holdfast_look(mine.handle, "queue", 5, nullptr, 0, &count, nullptr, sizeof(holdfast_waiter), 0, &count));
  expect("pop", holdfast_pop(mine.handle, "queue", 5, HOLDFAST_LEFT, &value), {HOLDFAST_OK, HOLDFAST_NOT_FOUND});
  expect_ok("flush_expired", holdfast_flush_expired(mine.handle, 0, &count));
  expect_refused(store(HOLDFAST_SET, "k", -1), "econds");
  expect_refused(store(HOLDFAST_SET, "", 0), "empty key");
  expect_refused(store(99, "k", 0), "bad op");
}
const char* settle_values() {
  if (!mine.has("stored", code == HOLDFAST_OK ? "new" : "old"))
    return say("a store returned %s, but \"stored\" has the wrong value", holdfast_code_text(code));
  return settle();
}

// Checks that a granted lock is held, and that a lock that was not granted is free.
void act_locks() {
  const std::initializer_list<int> held_or_free = {HOLDFAST_OK, HOLDFAST_LOCKED};
  // If the lock was not granted, these calls return NOT_OWNER.
  const std::initializer_list<int> held_or_not = {HOLDFAST_OK, HOLDFAST_NOT_OWNER, HOLDFAST_NOT_FOUND};
  expect_ok("lock", code = mine.lock("mine", &lease));
  expect_ok("permits", other_code = mine.permits("mine too", 2, &permits));
  expect("lock_explain", holdfast_lock_explain(mine.handle, "mine", 4, &lease, "because", 7), held_or_not);
  double seconds = 0;
  expect("lock_remaining", holdfast_lock_remaining(mine.handle, "mine", 4, &lease, &seconds), held_or_not);
  expect("lock_renew", holdfast_lock_renew(mine.handle, "mine", 4, &lease, 1000), held_or_not);
  expect("lock_adopt", holdfast_lock_adopt(mine.handle, "mine", 4, &lease, holdfast_task_ids()), held_or_not);
  holdfast_holder holder{};
  expect("lock_holder", holdfast_lock_holder(mine.handle, "mine", 4, &holder), held_or_not);
  holdfast_lease other{};
  expect("lock of a neighbour", mine.lock("theirs", &other), held_or_free);
  expect("permits of a neighbour", mine.permits("theirs too", 1, &other), held_or_free);
  if (mine.lock("passing", &other) == HOLDFAST_OK) expect_ok("unlock", mine.unlock("passing", &other));
  if (mine.write("passing too", &other) == HOLDFAST_OK) {
    expect_ok("permits_keep", holdfast_permits_keep(mine.handle, "passing too", 11, &other, 1));
    expect_ok("permits_upgrade", holdfast_permits_upgrade(mine.handle, "passing too", 11, 0, nullptr, &other));
    expect_ok("unlock of a writer", mine.unlock("passing too", &other));
  }
  expect("no permits", mine.permits("none", 0, &other), {HOLDFAST_INVALID});
}
const char* give_back(const char* key, int given, holdfast_lease* by, int (*take)(holdfast_lease*)) {
  holdfast_lease second{};
  if (given == HOLDFAST_OK)
    if (const int released = mine.unlock(key, by); released != HOLDFAST_OK)
      return failed("unlock of a lock that was granted while calls failed", released);
  if (const int taken = take(&second); taken != HOLDFAST_OK)
    return failed("a lock that was not granted, or was released", taken);
  return mine.unlock(key, &second) == HOLDFAST_OK ? "" : say("the lock cannot be released");
}
const char* settle_locks() {
  if (mine.handle == nullptr) return settle();
  const char* wrong =
      give_back("mine", code, &lease, [](holdfast_lease* next) { return mine.lock_soon("mine", next); });
  if (*wrong != '\0') return wrong;
  wrong = give_back("mine too", other_code, &permits,
                    [](holdfast_lease* next) { return mine.permits("mine too", 3, next); });
  return *wrong != '\0' ? wrong : settle();
}

// Uses all features of a parker. Everything that the parker created is closed once nothing fails.
void act_parkers() {
  const auto wait_for_lock = [](const char* key) {
    holdfast_lease none{};
    expect("lock_wait", holdfast_lock_wait(mine.handle, key, std::strlen(key), 0, &wait, &none),
           {HOLDFAST_OK, HOLDFAST_LOCKED});
  };
  const auto leave = [](const char* key) {
    expect_ok("lock_leave", holdfast_lock_leave(mine.handle, key, std::strlen(key), parker, wait.waiter));
  };
  parker = holdfast_parker_new();
  if (parker == nullptr) return;
  wait.parker = parker;
  wait.waiter = holdfast_waiter_open(parker);
  wait.task = holdfast_task_ids();
  wait.holds = 1;
  holdfast_parker_fd(parker);
  holdfast_parker_timer(parker, 0.001);
  if (is_memory_short) {  // if calls fail, the removal of a socket may also fail
    char path[HOLDFAST_PATH_MAX];
    expect_ok("parker_listen", holdfast_parker_listen(parker, path, sizeof path));
  }
  if (wait.waiter == 0) return;
  wait_for_lock("theirs");
  std::uint32_t woken = 0;
  holdfast_value keys{};
  expect("deadlock_keys", holdfast_deadlock_keys(parker, wait.waiter, &keys, &woken), {HOLDFAST_NOT_FOUND});
  holdfast_parker_sleep(parker, 0.005, &woken, 1);
  wait_for_lock("theirs");
  leave("theirs");
  std::uint64_t grant = 0;
  expect("lock_watch", holdfast_lock_watch(mine.handle, "theirs", 6, &wait, &grant), {HOLDFAST_OK, HOLDFAST_LOCKED});
  leave("theirs");
  holdfast_lease none{};
  expect("permits_wait",
         holdfast_permits_wait(mine.handle, "theirs too", 10, HOLDFAST_SEMAPHORE, 1, 3, 0, &wait, &none),
         {HOLDFAST_OK, HOLDFAST_LOCKED});
  leave("theirs too");
  holdfast_parker_fd(parker);
}
void close_parker() {
  if (parker != nullptr && wait.waiter != 0) {
    holdfast_lock_leave(mine.handle, "theirs", 6, parker, wait.waiter);
    holdfast_lock_leave(mine.handle, "theirs too", 10, parker, wait.waiter);
    holdfast_waiter_close(parker, wait.waiter);
  }
  holdfast_parker_free(parker);
}
const char* settle_parkers() {
  close_parker();
  return settle();
}

// Waits, in one call, for a lock that another process holds or held. If the lock is granted, this process must hold it.
// A failed wait must leave no trace.
void act_blocking() {
  const std::initializer_list<int> held_or_free = {HOLDFAST_OK, HOLDFAST_LOCKED};
  expect("lock", code = holdfast_lock(mine.handle, "theirs", 6, 0.005, 0, &lease), held_or_free);
  const holdfast_request request =
      HOLDFAST_REQUEST(.kind = HOLDFAST_HELD_SEMAPHORE, .timeout = 0.005, .want = 1, .total = 3, .why = "because");
  expect("acquire", other_code = holdfast_acquire(mine.handle, "theirs too", 10, &request, &permits), held_or_free);
}
const char* settle_blocking() {
  if (mine.handle == nullptr) return settle();
  if (code == HOLDFAST_OK && mine.unlock("theirs", &lease) != HOLDFAST_OK)
    return say("a lock that was granted after a wait cannot be released");
  if (other_code == HOLDFAST_OK && mine.unlock("theirs too", &permits) != HOLDFAST_OK)
    return say("a permit that was granted after a wait cannot be released");
  return settle();
}

// Removes a dictionary and creates it again while calls fail.
void act_remove() {
  mine.lock("removed with it", &lease);
  code = holdfast_remove(kNames[mutex], std::strlen(kNames[mutex]));
  mine.set("key", "value");
  open();
  mine.unlock("removed with it", &lease);
}

// Removes a dictionary in a process with several threads. Other threads may be inside the dictionary, so the dictionary
// is freed only after a memory barrier in all threads. If the kernel refuses the barrier, the next removal frees it.
void prepare_remove_among_threads() {
  open();
  parker = holdfast_parker_new();
  if (parker != nullptr) holdfast_parker_fd(parker);  // starts the wake thread
}
const char* settle_remove_among_threads() {
  open();
  if (const int removed = holdfast_remove(kNames[mutex], std::strlen(kNames[mutex])); removed != HOLDFAST_OK)
    return failed("a removal", removed);
  return settle();
}

/// Returns the status of the child, or 0 if there is no child.
int reap(pid_t child) {
  int status = 0;
  while (child > 0 && ::waitpid(child, &status, 0) != child) {
  }
  return status;
}

// Forks a child. Calls fail both in the parent and in the child.
void act_fork() {
  const pid_t child = ::fork();
  if (child == 0) {
    mine.set("stored", "by the child");
    if (mine.lock("of the child", &lease) == HOLDFAST_OK) mine.unlock("of the child", &lease);
    mine.lock("left by the child", &lease);
    ::_exit(0);
  }
  mine.set("key", "value");
  code = reap(child);
}
const char* settle_fork() {
  if (code != 0) return say("the child ended with status %d", code);
  for (const char* key : {"of the child", "left by the child"}) {
    if (const int taken = mine.lock_soon(key, &lease); taken != HOLDFAST_OK)
      return failed("a lock of a child that is dead", taken);
    if (mine.unlock(key, &lease) != HOLDFAST_OK) return say("the lock cannot be released");
  }
  return settle();
}

// Fills a dictionary, which also contains locks of dead processes, so that only eviction makes room.
void fill(int op, const char* prefix, int count) {
  char key[32];
  for (int i = 0; i < count; ++i) {
    std::snprintf(key, sizeof key, "%s %d", prefix, i);
    if (mine.set(key, "some value that takes a little room in the dictionary", op) == HOLDFAST_NO_MEMORY) break;
  }
}
void prepare_evict() {
  open();
  const pid_t child = ::fork();
  if (child == 0) {
    char key[32];
    for (int i = 0; i < 50; ++i) {
      std::snprintf(key, sizeof key, "of the dead %d", i);
      mine.lock(key, &lease);
    }
    ::_exit(0);
  }
  reap(child);
  fill(HOLDFAST_SAFE_SET, "full", 2000);
}
void act_evict() {
  fill(HOLDFAST_SET, "more", 4);
  code = mine.lock("mine", &lease);
  other_code = mine.permits("mine too", 2, &permits);
  std::uint32_t count = 0;
  holdfast_flush_all(mine.handle);
  holdfast_flush_expired(mine.handle, 0, &count);
  fill(HOLDFAST_SET, "again", 4);
}
const char* settle_evict() {
  holdfast_flush_all(mine.handle);
  std::uint32_t count = 0;
  holdfast_flush_expired(mine.handle, 0, &count);
  mine.unlock("mine", &lease);
  mine.unlock("mine too", &permits);
  return settle();
}

// Uses a dictionary with several shards, whose memory is reserved on first use. A change that fails for lack of memory
// must have no effect.
int stored[200];

int open_large() { return mine.open("large", HOLDFAST_MUTEX_FUTEX, std::uint64_t{4} << 20); }
void prepare_large() { open_large(); }
void act_large() {
  char key[32];
  for (int i = 0; i < 200; ++i) {
    std::snprintf(key, sizeof key, "large %d", i % 100);
    stored[i] = mine.set(key, i < 100 ? "first" : "second");
  }
  std::uint32_t count = 0;
  holdfast_flush_expired(mine.handle, 0, &count);
}
const char* settle_large() {
  if (const int opened = open_large(); opened != HOLDFAST_OK) return failed("open", opened);
  char key[32];
  for (int i = 0; i < 100; ++i) {
    std::snprintf(key, sizeof key, "large %d", i);
    const char* const last = stored[i + 100] == HOLDFAST_OK ? "second" : stored[i] == HOLDFAST_OK ? "first" : nullptr;
    if (last != nullptr && !mine.has(key, last))
      return say("stores returned %d and %d, but the value is wrong", stored[i], stored[i + 100]);
    if (last == nullptr && (mine.has(key, "first") || mine.has(key, "second")))
      return say("a store returned %d, but the value exists", stored[i]);
  }
  for (int i = 0; i < 3000; ++i) {
    std::snprintf(key, sizeof key, "settled %d", i);
    if (const int set = mine.set(key, "value"); set != HOLDFAST_OK) return failed("a store", set);
  }
  for (int i = 0; i < 3000; ++i) {
    std::snprintf(key, sizeof key, "settled %d", i);
    if (!mine.has(key, "value")) return say("a stored value is missing");
  }
  holdfast_stats stats{};
  holdfast_dict_stats(mine.handle, &stats);
  if (stats.repairs != 0 || stats.evictions != 0)
    return say("%llu repairs, %llu evictions", static_cast<unsigned long long>(stats.repairs),
               static_cast<unsigned long long>(stats.evictions));
  return settle();
}

// Makes calls in a new thread, for which nothing is allocated yet.
std::atomic<bool> may_call{false};
std::atomic<bool> has_called{false};
pthread_t thread;

void start_thread() {
  open();
  const auto call_all = [](void*) -> void* {
    while (!may_call) ::sched_yield();
    for (const auto act : {attach, act_values, act_parkers, act_blocking, act_locks}) act();
    has_called = true;
    return nullptr;
  };
  if (::pthread_create(&thread, nullptr, call_all, nullptr) != 0) ::_exit(1);
}
void let_thread_call() {
  may_call = true;
  while (!has_called) ::sched_yield();
}
const char* settle_thread() {
  ::pthread_join(thread, nullptr);
  close_parker();
  return settle_locks();
}

void nothing() {}
void enter() { holdfast_directory(); }
void change_all() {
  for (mutex = 0; mutex < kMutexCount; ++mutex) {
    open();
    mine.set("key", "value");
  }
}

constexpr int kFutex = 1;
constexpr int kSpin = 2;
constexpr int kFile = 4;
constexpr auto kNone = Neighbour::none;
constexpr auto kAlive = Neighbour::alive;
constexpr auto kDead = Neighbour::dead;

constexpr Scenario kScenarios[] = {
    {"enter", kFutex, kNone, nothing, enter, settle},
    {"enter beside a neighbour", kFutex, kAlive, nothing, enter, settle},
    {"enter after a neighbour", kFutex, kDead, nothing, enter, settle},
    {"open", kFutex | kSpin | kFile, kNone, nothing, act_open, settle},
    {"open a neighbour's", kFutex | kFile, kAlive, enter, act_open, settle},
    {"attach", kFutex, kAlive, enter, attach, settle},
    {"values", kFutex | kSpin | kFile, kNone, prepare_values, act_values, settle_values},
    {"locks", kFutex | kSpin | kFile, kAlive, open, act_locks, settle_locks},
    {"locks of the dead", kFutex | kFile, kDead, open, act_locks, settle_locks},
    {"parkers", kFutex | kFile, kAlive, open, act_parkers, settle_parkers},
    {"parkers and the dead", kFutex, kDead, open, act_parkers, settle_parkers},
    {"waits in calls", kFutex | kFile, kAlive, open, act_blocking, settle_blocking},
    {"waits in calls for the dead", kFutex, kDead, open, act_blocking, settle_blocking},
    {"remove", kFutex | kFile, kNone, open, act_remove, settle},
    {"remove among threads", kFutex | kFile, kNone, prepare_remove_among_threads, act_remove,
     settle_remove_among_threads},
    {"fork", kFutex | kFile, kNone, open, act_fork, settle_fork},
    {"evict", kFutex | kFile, kNone, prepare_evict, act_evict, settle_evict},
    {"memory as it is used", kFutex, kNone, prepare_large, act_large, settle_large},
    {"a new thread", kFutex, kAlive, start_thread, let_thread_call, settle_thread},
    {"exit", kFutex, kNone, change_all, nothing, settle, true},
    {"exit beside a neighbour", kFutex, kAlive, change_all, nothing, settle, true},
};

void prepare(const Scenario& scenario, int with_mutex, bool without_memory) {
  mutex = with_mutex;
  is_memory_short = without_memory;
  scenario.prepare();
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const Module holdfast_faults_module = {
    kScenarios, std::size(kScenarios), prepare, hold_things, judge_during_victim, judge_after_victim};

}  // namespace holdfast::faults
