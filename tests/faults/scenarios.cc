// The module of scenarios: only calls of the public header, and of the C library.
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <initializer_list>

#include "faults/scenario.h"
#include "holdfast.h"

namespace holdfast::faults {
namespace {

constexpr int kMutexes[] = {HOLDFAST_MUTEX_FUTEX, HOLDFAST_MUTEX_SPIN, HOLDFAST_MUTEX_FILE};
constexpr const char* kNames[] = {"futex", "spin", "file"};
constexpr std::uint64_t kSize = 65536;
/// How long a call waits at most for others, and a lock of the dead for its next holder, on a machine that stands still
/// for a second.
constexpr double kPatience = 5;

char sentence[512];

[[gnu::format(printf, 1, 2)]] const char* say(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(sentence, sizeof sentence, format, arguments);
  va_end(arguments);
  return sentence;
}

// --- the library without what allocates -------------------------------------------------------------------

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
  /// Until it has the lock, or kPatience is over.
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
  return say("%s gives %s (%s)", what, holdfast_code_text(code), holdfast_error());
}

/// "" if nobody else gets the lock, nor so many permits.
const char* refused(const Dict& dict, const char* lock, const char* what, const char* semaphore, std::uint32_t permits,
                    const char* what_permits) {
  holdfast_lease lease{};
  if (const int code = dict.lock(lock, &lease); code != HOLDFAST_LOCKED) return failed(what, code);
  if (const int code = dict.permits(semaphore, permits, &lease); code != HOLDFAST_LOCKED)
    return failed(what_permits, code);
  return "";
}

// --- everything works ------------------------------------------------------------------------------------

const char* values_work(const Dict& dict) {
  char key[32];
  for (int i = 0; i < 40; ++i) {
    std::snprintf(key, sizeof key, "works-%d-%d", static_cast<int>(::getpid()), i);
    if (const int code = dict.set(key, "value"); code != HOLDFAST_OK) return failed("a store", code);
    if (!dict.has(key, "value")) return say("what was stored is not there");
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
    return failed("a wait in a call for what is held", code);
  if (const int code = dict.unlock("free", &lease); code != HOLDFAST_OK) return failed("unlock", code);
  if (const int code = dict.permits("permits", 3, &lease); code != HOLDFAST_OK) return failed("free permits", code);
  if (const int code = dict.unlock("permits", &lease); code != HOLDFAST_OK) return failed("to give permits back", code);
  std::uint32_t used = 0;
  std::uint32_t waiters = 0;
  if (const int code = holdfast_permits_count(dict.handle, "permits", 7, &used, &waiters); code != HOLDFAST_OK)
    return failed("a count of permits", code);
  if (used != 0 || waiters != 0) return say("%u permits in use and %u waiters where all was given back", used, waiters);
  if (const int code = dict.write("rwlock", &lease); code != HOLDFAST_OK) return failed("a free rwlock", code);
  if (const int code = dict.unlock("rwlock", &lease); code != HOLDFAST_OK) return failed("unlock of a writer", code);
  return "";
}

/// Waits for a lock that this process itself holds, is woken by its release, and gets it.
const char* waits_work(const Dict& dict) {
  holdfast_lease lease{};
  holdfast_lease second{};
  if (const int code = dict.lock_soon("waited", &lease); code != HOLDFAST_OK) return failed("a lock to wait for", code);
  holdfast_parker* const parker = holdfast_parker_new();
  if (parker == nullptr) return say("no parker: %s", holdfast_error());
  holdfast_wait wait{};
  wait.parker = parker;
  wait.waiter = holdfast_waiter_open(parker);
  if (wait.waiter == 0) return say("no waiter: %s", holdfast_error());
  if (holdfast_parker_fd(parker) < 0) return say("no descriptor of a parker: %s", holdfast_error());
  int code = holdfast_lock_wait(dict.handle, "waited", 6, 0, &wait, &second);
  if (code != HOLDFAST_LOCKED) return failed("a wait for what is held", code);
  if (code = dict.unlock("waited", &lease); code != HOLDFAST_OK) return failed("unlock of what is waited for", code);
  const double end = holdfast_now() + kPatience;
  for (code = HOLDFAST_LOCKED; code != HOLDFAST_OK && holdfast_now() < end;) {
    std::uint32_t woken = 0;
    holdfast_parker_sleep(parker, std::fmin(wait.sleep, 0.5), &woken, 1);
    code = holdfast_lock_wait(dict.handle, "waited", 6, 0, &wait, &second);
  }
  if (code != HOLDFAST_OK) return failed("the wait for what was given back", code);
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
  if (stats.bytes_used + stats.bytes_free > holdfast_capacity(dict.handle)) return say("more memory than there is");
  if (stats.entries > 200) return say("%llu entries", static_cast<unsigned long long>(stats.entries));
  if (stats.repairs != 0)
    return say("%llu repairs where nobody died inside", static_cast<unsigned long long>(stats.repairs));
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

/// Of each kind of mutex a dictionary, in which everything works.
const char* everything_works() {
  if (holdfast_directory() == nullptr) return say("cannot enter the world: %s", holdfast_error());
  for (int i = 0; i < 3; ++i) {
    Dict dict;
    if (const int code = dict.open(kNames[i], kMutexes[i]); code != HOLDFAST_OK) return failed("open", code);
    const char* const wrong =
        first_wrong({values_work, locks_work, waits_work, child_works, figures_are_sane}, dict, kNames[i]);
    if (*wrong != '\0') return wrong;
  }
  return "";
}

// --- other processes -------------------------------------------------------------------------------------

/// Of each dictionary the lock "theirs", the permits "theirs too", and a value.
const char* hold_things() {
  for (int i = 0; i < 3; ++i) {
    Dict dict;
    holdfast_lease lease{};
    if (dict.open(kNames[i], kMutexes[i]) != HOLDFAST_OK || dict.set("known", "old") != HOLDFAST_OK ||
        dict.lock("theirs", &lease) != HOLDFAST_OK || dict.permits("theirs too", 3, &lease) != HOLDFAST_OK)
      return nullptr;
  }
  return "held";
}

const char* each_dictionary(const char* (*check)(const Dict&)) {
  for (int i = 0; i < 3; ++i) {
    Dict dict;
    if (const int code = dict.open(kNames[i], kMutexes[i]); code != HOLDFAST_OK) return failed("open", code);
    if (const char* const wrong = first_wrong({check}, dict, kNames[i]); *wrong != '\0') return wrong;
  }
  return "";
}

/// What the victim keeps when it has settled.
const char* keep(const Dict& dict) {
  static holdfast_lease leases[6];
  static int count = 0;
  if (const int code = dict.lock_soon("kept", &leases[count++ % 6]); code != HOLDFAST_OK) return failed("kept", code);
  if (const int code = dict.permits("kept too", 2, &leases[count++ % 6]); code != HOLDFAST_OK)
    return failed("kept permits", code);
  return "";
}

const char* judge_beside_victim(Neighbour neighbour) {
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

// --- what is done ----------------------------------------------------------------------------------------

/// What an act has done, for its settling.
struct Done {
  Dict dict;
  holdfast_lease lease;
  holdfast_lease permits;
  holdfast_parker* parker;
  holdfast_wait wait;
  int code;
  int other_code;
  pid_t child;
};
Done done[3];

template <int kIndex>
struct With {
  static Done& mine() { return done[kIndex]; }
  static void open() { mine().dict.open(kNames[kIndex], kMutexes[kIndex]); }

  static const char* settle() {
    if (const char* const wrong = everything_works(); *wrong != '\0') return wrong;
    return each_dictionary(keep);
  }

  // Opening, in a world that the victim is in or not.
  static void act_open() {
    mine().code = mine().dict.open(kNames[kIndex], kMutexes[kIndex]);
    if (mine().code == HOLDFAST_OK) mine().dict.set("key", "value");
  }

  // A change that fails has changed nothing.
  static void prepare_values() {
    open();
    mine().dict.set("stored", "old");
  }
  static void act_values() {
    const Dict& dict = mine().dict;
    mine().code = dict.set("stored", "new");
    std::uint32_t count = 0;
    int forcible = 0;
    double sum = 0;
    holdfast_incr(dict.handle, "number", 6, 1, 1, 0, 0, &sum, &forcible);
    holdfast_push(dict.handle, "queue", 5, HOLDFAST_RIGHT, HOLDFAST_NUMBER, nullptr, 0, 1, &count);
    char buffer[4096];
    holdfast_value value{};
    value.data = buffer;
    value.capacity = sizeof buffer;
    holdfast_keys(dict.handle, 0, &value, &count);
    std::uint64_t cursor = 0;
    holdfast_scan(dict.handle, &cursor, 10, "s", 1, &value, &count);
    holdfast_scan_locks(dict.handle, &cursor, 10, "", 0, &value, &count);
    holdfast_list(&value, &count);
    holdfast_histogram histogram{};
    histogram.struct_size = sizeof histogram;
    holdfast_contended contended{};
    holdfast_dict_histogram(dict.handle, HOLDFAST_HELD_LOCK, HOLDFAST_TIME_HELD, &histogram);
    holdfast_dict_contention(dict.handle, &contended, sizeof contended, 1, &count);
    holdfast_processes(nullptr, sizeof(holdfast_process), 0, &count);
    holdfast_health health{};
    holdfast_check(dict.handle, &health, sizeof health);
    holdfast_look(dict.handle, "queue", 5, nullptr, 0, &count, nullptr, sizeof(holdfast_waiter), 0, &count);
    holdfast_pop(dict.handle, "queue", 5, HOLDFAST_LEFT, &value);
    holdfast_flush_expired(dict.handle, 0, &count);
    holdfast_store(dict.handle, HOLDFAST_SET, "k", 1, HOLDFAST_NUMBER, nullptr, 0, 1, -1, 0, nullptr);  // a sentence
  }
  static const char* settle_values() {
    if (!mine().dict.has("stored", mine().code == HOLDFAST_OK ? "new" : "old"))
      return say("a store gave %s, and \"stored\" is not what it then must be", holdfast_code_text(mine().code));
    return settle();
  }

  // A lock that was given is held, and one that was not given is free.
  static void act_locks() {
    const Dict& dict = mine().dict;
    mine().code = dict.lock("mine", &mine().lease);
    mine().other_code = dict.permits("mine too", 2, &mine().permits);
    holdfast_lock_explain(dict.handle, "mine", 4, &mine().lease, "because", 7);
    double seconds = 0;
    holdfast_lock_remaining(dict.handle, "mine", 4, &mine().lease, &seconds);
    holdfast_lock_renew(dict.handle, "mine", 4, &mine().lease, 1000);
    holdfast_lock_adopt(dict.handle, "mine", 4, &mine().lease, holdfast_task_ids());
    holdfast_holder holder{};
    holdfast_lock_holder(dict.handle, "mine", 4, &holder);
    holdfast_lease lease{};
    dict.lock("theirs", &lease);
    dict.permits("theirs too", 1, &lease);
    if (dict.lock("passing", &lease) == HOLDFAST_OK) dict.unlock("passing", &lease);
    if (dict.write("passing too", &lease) == HOLDFAST_OK) {
      holdfast_permits_keep(dict.handle, "passing too", 11, &lease, 1);
      dict.unlock("passing too", &lease);
    }
  }
  static const char* give_back(const char* key, int code, holdfast_lease* lease,
                               int (*take)(const Dict&, holdfast_lease*)) {
    holdfast_lease second{};
    if (code == HOLDFAST_OK) {
      if (const int given = mine().dict.unlock(key, lease); given != HOLDFAST_OK)
        return failed("unlock of what was given while calls failed", given);
    }
    if (const int taken = take(mine().dict, &second); taken != HOLDFAST_OK)
      return failed("to take what was not given, or was given back", taken);
    return mine().dict.unlock(key, &second) == HOLDFAST_OK ? "" : say("it cannot be given back");
  }
  static const char* settle_locks() {
    if (mine().dict.handle == nullptr) return settle();
    const char* wrong = give_back("mine", mine().code, &mine().lease, [](const Dict& dict, holdfast_lease* lease) {
      return dict.lock_soon("mine", lease);
    });
    if (*wrong != '\0') return wrong;
    wrong = give_back("mine too", mine().other_code, &mine().permits,
                      [](const Dict& dict, holdfast_lease* lease) { return dict.permits("mine too", 3, lease); });
    return *wrong != '\0' ? wrong : settle();
  }

  // All that a parker can do; what could be made is closed when nothing fails.
  static void act_parkers() {
    const Dict& dict = mine().dict;
    mine().parker = holdfast_parker_new();
    if (mine().parker == nullptr) return;
    mine().wait.parker = mine().parker;
    mine().wait.waiter = holdfast_waiter_open(mine().parker);
    mine().wait.task = holdfast_task_ids();
    mine().wait.holds = 1;
    holdfast_parker_fd(mine().parker);
    holdfast_parker_timer(mine().parker, 0.001);
    mine().code = holdfast_lock_wait(dict.handle, "theirs", 6, 0, &mine().wait, &mine().lease);
    std::uint32_t woken = 0;
    holdfast_parker_sleep(mine().parker, 0.005, &woken, 1);
    mine().code = holdfast_lock_wait(dict.handle, "theirs", 6, 0, &mine().wait, &mine().lease);
    holdfast_lock_leave(dict.handle, "theirs", 6, mine().parker, mine().wait.waiter);
    std::uint64_t grant = 0;
    holdfast_lock_watch(dict.handle, "theirs", 6, &mine().wait, &grant);
    holdfast_lock_leave(dict.handle, "theirs", 6, mine().parker, mine().wait.waiter);
    holdfast_permits_wait(dict.handle, "theirs too", 10, HOLDFAST_SEMAPHORE, 1, 3, 0, &mine().wait, &mine().permits);
    holdfast_lock_leave(dict.handle, "theirs too", 10, mine().parker, mine().wait.waiter);
    holdfast_parker_fd(mine().parker);
  }
  static const char* settle_parkers() {
    if (mine().parker != nullptr && mine().wait.waiter != 0) {
      holdfast_lock_leave(mine().dict.handle, "theirs", 6, mine().parker, mine().wait.waiter);
      holdfast_lock_leave(mine().dict.handle, "theirs too", 10, mine().parker, mine().wait.waiter);
      holdfast_waiter_close(mine().parker, mine().wait.waiter);
    }
    holdfast_parker_free(mine().parker);
    return settle();
  }

  // Waits in a call, for what another holds or held: what is given is held, and what is not leaves no trace.
  static void act_blocking() {
    const Dict& dict = mine().dict;
    mine().code = holdfast_lock(dict.handle, "theirs", 6, 0.005, 0, &mine().lease);
    const holdfast_request request =
        HOLDFAST_REQUEST(.kind = HOLDFAST_HELD_SEMAPHORE, .timeout = 0.005, .want = 1, .total = 3, .why = "because");
    mine().other_code = holdfast_acquire(dict.handle, "theirs too", 10, &request, &mine().permits);
  }
  static const char* settle_blocking() {
    if (mine().dict.handle == nullptr) return settle();
    if (mine().code == HOLDFAST_OK && mine().dict.unlock("theirs", &mine().lease) != HOLDFAST_OK)
      return say("the lock that was waited for cannot be given back");
    if (mine().other_code == HOLDFAST_OK && mine().dict.unlock("theirs too", &mine().permits) != HOLDFAST_OK)
      return say("the permit that was waited for cannot be given back");
    return settle();
  }

  // Removed and made anew, while calls fail.
  static void act_remove() {
    holdfast_lease lease{};
    mine().dict.lock("removed with it", &lease);
    mine().code = holdfast_remove(kNames[kIndex], std::strlen(kNames[kIndex]));
    mine().dict.set("key", "value");
    mine().dict.open(kNames[kIndex], kMutexes[kIndex]);
    mine().dict.unlock("removed with it", &lease);
  }

  // The same in a process with several threads: others may be inside the dictionary, so it is freed only when the
  // kernel has passed a barrier in each. The next removal frees what stayed where the kernel refused that.
  static void prepare_remove_among_threads() {
    open();
    mine().parker = holdfast_parker_new();
    if (mine().parker != nullptr) holdfast_parker_fd(mine().parker);  // starts the wake thread
  }
  static const char* settle_remove_among_threads() {
    mine().dict.open(kNames[kIndex], kMutexes[kIndex]);
    if (const int code = holdfast_remove(kNames[kIndex], std::strlen(kNames[kIndex])); code != HOLDFAST_OK)
      return failed("a removal", code);
    return settle();
  }

  // A child that is forked while calls fail, in which they go on to fail.
  static void act_fork() {
    const Dict& dict = mine().dict;
    mine().child = ::fork();
    if (mine().child == 0) {
      holdfast_lease lease{};
      dict.set("stored", "by the child");
      if (dict.lock("of the child", &lease) == HOLDFAST_OK) dict.unlock("of the child", &lease);
      dict.lock("left by the child", &lease);
      ::_exit(0);
    }
    dict.set("key", "value");
    int status = 0;
    while (mine().child > 0 && ::waitpid(mine().child, &status, 0) != mine().child) {
    }
    mine().code = mine().child > 0 ? status : 0;
  }
  static const char* settle_fork() {
    if (mine().code != 0) return say("the child ended with status %d", mine().code);
    holdfast_lease lease{};
    for (const char* key : {"of the child", "left by the child"}) {
      if (const int code = mine().dict.lock_soon(key, &lease); code != HOLDFAST_OK)
        return failed("a lock of a child that is dead", code);
      if (mine().dict.unlock(key, &lease) != HOLDFAST_OK) return say("it cannot be given back");
    }
    return settle();
  }

  // A full dictionary, locks of the dead in it, and no room but for what is evicted.
  static void prepare_evict() {
    open();
    const pid_t child = ::fork();
    if (child == 0) {
      holdfast_lease lease{};
      char key[32];
      for (int i = 0; i < 50; ++i) {
        std::snprintf(key, sizeof key, "of the dead %d", i);
        mine().dict.lock(key, &lease);
      }
      ::_exit(0);
    }
    int status = 0;
    while (child > 0 && ::waitpid(child, &status, 0) != child) {
    }
    fill(HOLDFAST_SAFE_SET, "full", 2000);
  }
  static void fill(int op, const char* prefix, int count) {
    char key[32];
    for (int i = 0; i < count; ++i) {
      std::snprintf(key, sizeof key, "%s %d", prefix, i);
      if (mine().dict.set(key, "some value that takes a little room in the dictionary", op) == HOLDFAST_NO_MEMORY)
        break;
    }
  }
  static void act_evict() {
    const Dict& dict = mine().dict;
    fill(HOLDFAST_SET, "more", 4);
    mine().code = dict.lock("mine", &mine().lease);
    mine().other_code = dict.permits("mine too", 2, &mine().permits);
    std::uint32_t count = 0;
    holdfast_flush_all(dict.handle);
    holdfast_flush_expired(dict.handle, 0, &count);
    fill(HOLDFAST_SET, "again", 4);
  }
  static const char* settle_evict() {
    holdfast_flush_all(mine().dict.handle);
    std::uint32_t count = 0;
    holdfast_flush_expired(mine().dict.handle, 0, &count);
    mine().dict.unlock("mine", &mine().lease);
    mine().dict.unlock("mine too", &mine().permits);
    return settle();
  }
};

// A dictionary of several shards: its memory is reserved as it is used. A change that fails for want of memory has
// changed nothing.
Dict large;
int stored[200];

void open_large() { large.open("large", HOLDFAST_MUTEX_FUTEX, std::uint64_t{4} << 20); }
void act_large() {
  char key[32];
  for (int i = 0; i < 200; ++i) {
    std::snprintf(key, sizeof key, "large %d", i % 100);
    stored[i] = large.set(key, i < 100 ? "first" : "second");
  }
  std::uint32_t count = 0;
  holdfast_flush_expired(large.handle, 0, &count);
}
const char* settle_large() {
  if (const int code = large.open("large", HOLDFAST_MUTEX_FUTEX, std::uint64_t{4} << 20); code != HOLDFAST_OK)
    return failed("open", code);
  char key[32];
  for (int i = 0; i < 100; ++i) {
    std::snprintf(key, sizeof key, "large %d", i);
    const char* const last = stored[i + 100] == HOLDFAST_OK ? "second" : stored[i] == HOLDFAST_OK ? "first" : nullptr;
    if (last != nullptr && !large.has(key, last))
      return say("stores gave %d and %d, and it is not what it then must be", stored[i], stored[i + 100]);
    if (last == nullptr && (large.has(key, "first") || large.has(key, "second")))
      return say("a store gave %d, and it is there", stored[i]);
  }
  for (int i = 0; i < 3000; ++i) {
    std::snprintf(key, sizeof key, "settled %d", i);
    if (const int code = large.set(key, "value"); code != HOLDFAST_OK) return failed("a store", code);
  }
  for (int i = 0; i < 3000; ++i) {
    std::snprintf(key, sizeof key, "settled %d", i);
    if (!large.has(key, "value")) return say("what was stored is not there");
  }
  holdfast_stats stats{};
  holdfast_dict_stats(large.handle, &stats);
  if (stats.repairs != 0 || stats.evictions != 0)
    return say("%llu repairs, %llu evictions", static_cast<unsigned long long>(stats.repairs),
               static_cast<unsigned long long>(stats.evictions));
  return With<0>::settle();
}

void nothing() {}
void enter() { holdfast_directory(); }
void attach() {
  holdfast_dict* dict = nullptr;
  holdfast_attach("futex", 5, &dict);
  holdfast_attach("file", 4, &dict);
  holdfast_attach("declared", 8, &dict);
}
void open_all() {
  With<0>::open();
  With<1>::open();
  With<2>::open();
}
void change_all() {
  open_all();
  for (const Done& one : done) one.dict.set("key", "value");
}

constexpr Scenario kScenarios[] = {
    {"enter", Neighbour::none, false, nothing, enter, With<0>::settle},
    {"enter beside a neighbour", Neighbour::alive, false, nothing, enter, With<0>::settle},
    {"enter after a neighbour", Neighbour::dead, false, nothing, enter, With<0>::settle},
    {"open, mutex futex", Neighbour::none, false, nothing, With<0>::act_open, With<0>::settle},
    {"open, mutex spin", Neighbour::none, false, nothing, With<1>::act_open, With<1>::settle},
    {"open, mutex file", Neighbour::none, false, nothing, With<2>::act_open, With<2>::settle},
    {"open a neighbour's, mutex futex", Neighbour::alive, false, enter, With<0>::act_open, With<0>::settle},
    {"open a neighbour's, mutex file", Neighbour::alive, false, enter, With<2>::act_open, With<2>::settle},
    {"attach", Neighbour::alive, false, enter, attach, With<0>::settle},
    {"values, mutex futex", Neighbour::none, false, With<0>::prepare_values, With<0>::act_values,
     With<0>::settle_values},
    {"values, mutex spin", Neighbour::none, false, With<1>::prepare_values, With<1>::act_values,
     With<1>::settle_values},
    {"values, mutex file", Neighbour::none, false, With<2>::prepare_values, With<2>::act_values,
     With<2>::settle_values},
    {"locks, mutex futex", Neighbour::alive, false, With<0>::open, With<0>::act_locks, With<0>::settle_locks},
    {"locks, mutex spin", Neighbour::alive, false, With<1>::open, With<1>::act_locks, With<1>::settle_locks},
    {"locks, mutex file", Neighbour::alive, false, With<2>::open, With<2>::act_locks, With<2>::settle_locks},
    {"locks of the dead, mutex futex", Neighbour::dead, false, With<0>::open, With<0>::act_locks,
     With<0>::settle_locks},
    {"locks of the dead, mutex file", Neighbour::dead, false, With<2>::open, With<2>::act_locks, With<2>::settle_locks},
    {"parkers, mutex futex", Neighbour::alive, false, With<0>::open, With<0>::act_parkers, With<0>::settle_parkers},
    {"parkers, mutex file", Neighbour::alive, false, With<2>::open, With<2>::act_parkers, With<2>::settle_parkers},
    {"parkers and the dead", Neighbour::dead, false, With<0>::open, With<0>::act_parkers, With<0>::settle_parkers},
    {"waits in calls, mutex futex", Neighbour::alive, false, With<0>::open, With<0>::act_blocking,
     With<0>::settle_blocking},
    {"waits in calls, mutex file", Neighbour::alive, false, With<2>::open, With<2>::act_blocking,
     With<2>::settle_blocking},
    {"waits in calls for the dead", Neighbour::dead, false, With<0>::open, With<0>::act_blocking,
     With<0>::settle_blocking},
    {"remove, mutex futex", Neighbour::none, false, With<0>::open, With<0>::act_remove, With<0>::settle},
    {"remove, mutex file", Neighbour::none, false, With<2>::open, With<2>::act_remove, With<2>::settle},
    {"remove among threads, mutex futex", Neighbour::none, false, With<0>::prepare_remove_among_threads,
     With<0>::act_remove, With<0>::settle_remove_among_threads},
    {"remove among threads, mutex file", Neighbour::none, false, With<2>::prepare_remove_among_threads,
     With<2>::act_remove, With<2>::settle_remove_among_threads},
    {"fork, mutex futex", Neighbour::none, false, With<0>::open, With<0>::act_fork, With<0>::settle_fork},
    {"fork, mutex file", Neighbour::none, false, With<2>::open, With<2>::act_fork, With<2>::settle_fork},
    {"evict, mutex futex", Neighbour::none, false, With<0>::prepare_evict, With<0>::act_evict, With<0>::settle_evict},
    {"evict, mutex file", Neighbour::none, false, With<2>::prepare_evict, With<2>::act_evict, With<2>::settle_evict},
    {"memory as it is used", Neighbour::none, false, open_large, act_large, settle_large},
    {"exit", Neighbour::none, true, change_all, nothing, With<0>::settle},
    {"exit beside a neighbour", Neighbour::alive, true, change_all, nothing, With<0>::settle},
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const Module holdfast_faults_module = {
    kScenarios, sizeof kScenarios / sizeof *kScenarios, hold_things, judge_beside_victim, judge_after_victim};

}  // namespace holdfast::faults
