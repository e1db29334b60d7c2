// Makes every call while malloc gives nothing, then again while it does. Ends with 1 where a call says anything that is
// none of its results; the C library or the C++ runtime would end it with a signal.
//
//   no_memory first    nothing was allocated for the thread before
//   no_memory COUNT    the first COUNT allocations of each call succeed, for COUNT and all below
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>

#include "holdfast.h"

namespace {

constexpr long kUnlimited = -1;
std::atomic<long> allowed{kUnlimited};
thread_local bool limited = false;

bool refused() {
  if (!limited || allowed.load() == kUnlimited) return false;
  if (allowed.load() == 0) return true;
  --allowed;
  return false;
}

}  // namespace

// The names that the C library calls its own by.
void* no_memory() {
  errno = ENOMEM;
  return nullptr;
}

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

void* malloc(std::size_t size) { return refused() ? no_memory() : __libc_malloc(size); }
void* calloc(std::size_t count, std::size_t size) { return refused() ? no_memory() : __libc_calloc(count, size); }
void* realloc(void* old, std::size_t size) { return refused() ? no_memory() : __libc_realloc(old, size); }
void* memalign(std::size_t alignment, std::size_t size) {
  return refused() ? no_memory() : __libc_memalign(alignment, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) { return memalign(alignment, size); }
int posix_memalign(void** result, std::size_t alignment, std::size_t size) {
  *result = memalign(alignment, size);
  return *result != nullptr ? 0 : ENOMEM;
}
}

namespace {

holdfast_dict* dict = nullptr;

[[noreturn]] void fail(const char* what, int code) {
  limited = false;
  std::fprintf(stderr, "%s with %ld allocations: code %d (%s), sentence \"%s\"\n", what, allowed.load(), code,
               holdfast_code_text(code), holdfast_error());
  _exit(1);
}

/// A failure for want of memory is one, and has a sentence; no other is expected.
void check(const char* what, int code, int well = HOLDFAST_OK) {
  if (code == well) return;
  if (code != HOLDFAST_NO_MEMORY && code != HOLDFAST_SYSTEM) fail(what, code);
  if (std::strlen(holdfast_error()) == 0) fail(what, code);
}

int set(int op, const char* key, std::size_t length, double exptime) {
  return holdfast_store(dict, op, key, length, HOLDFAST_NUMBER, nullptr, 0, 1, exptime, 0, nullptr);
}

/// What fails for reasons of its own says so, whatever memory there is.
void call_wrongly() {
  if (set(HOLDFAST_SET, "", 0, 0) != HOLDFAST_INVALID || std::strcmp(holdfast_error(), "empty key") != 0)
    fail("an empty key", HOLDFAST_INVALID);
  if (set(HOLDFAST_SET, "k", 1, -1) != HOLDFAST_INVALID || std::strstr(holdfast_error(), "econds") == nullptr)
    fail("a bad exptime", HOLDFAST_INVALID);
  if (set(99, "k", 1, 0) != HOLDFAST_INVALID || std::strstr(holdfast_error(), "bad op") == nullptr)
    fail("a bad op", HOLDFAST_INVALID);
  holdfast_lease lease{};
  const int code = holdfast_permits_try(dict, "p", 1, HOLDFAST_SEMAPHORE, 0, 3, 0, 0, 0, &lease);
  if (code != HOLDFAST_NO_MEMORY) {
    if (code != HOLDFAST_INVALID || std::strlen(holdfast_error()) == 0) fail("no permits", code);
  }
}

void call_dictionaries() {
  const holdfast_options options{65536, HOLDFAST_MUTEX_FUTEX, HOLDFAST_TEMPORARY, 0, nullptr};
  const holdfast_options filed{65536, HOLDFAST_MUTEX_FILE, HOLDFAST_TEMPORARY, 0, nullptr};
  holdfast_dict* other = nullptr;
  check("open", holdfast_open("other", 5, &options, &other));
  check("open with a file's mutex", holdfast_open("filed", 5, &filed, &other));
  if (other != nullptr)
    check("store with it", holdfast_store(other, HOLDFAST_SET, "k", 1, HOLDFAST_NUMBER, nullptr, 0, 1, 0, 0, nullptr));
  check("attach", holdfast_attach("none", 4, &other), HOLDFAST_NOT_FOUND);
  check("remove", holdfast_remove("none", 4), HOLDFAST_NOT_FOUND);
  if (holdfast_directory() == nullptr && std::strlen(holdfast_error()) == 0) fail("directory", 0);
  std::uint64_t bytes = 0;
  check("parse_size", holdfast_parse_size("12x", 3, &bytes), HOLDFAST_INVALID);
}

void call_keys() {
  char buffer[256];
  holdfast_value value{};
  value.data = buffer;
  value.capacity = sizeof buffer;
  std::uint32_t count = 0;
  std::uint64_t cursor = 0;
  check("store", set(HOLDFAST_SET, "k", 1, 0));
  check("get", holdfast_get(dict, "k", 1, &value));
  check("keys", holdfast_keys(dict, 0, &value, &count));
  check("scan", holdfast_scan(dict, &cursor, 10, "k", 1, &value, &count));
  check("scan_locks", holdfast_scan_locks(dict, &cursor, 10, "", 0, &value, &count));
  check("list", holdfast_list(&value, &count));
  holdfast_histogram histogram{};
  histogram.struct_size = sizeof histogram;
  holdfast_contended contended{};
  check("dict_histogram", holdfast_dict_histogram(dict, HOLDFAST_HELD_LOCK, HOLDFAST_TIME_HELD, &histogram));
  check("dict_contention", holdfast_dict_contention(dict, &contended, sizeof contended, 1, &count));
  holdfast_health health{};
  check("check", holdfast_check(dict, &health, sizeof health));
  std::array<holdfast_holder, 4> holders{};
  check("look", holdfast_look(dict, "k", 1, holders.data(), holders.size(), &count, nullptr, sizeof(holdfast_waiter), 0,
                              &count));
  check("flush_expired", holdfast_flush_expired(dict, 0, &count));
  check("push", holdfast_push(dict, "list", 4, HOLDFAST_LEFT, HOLDFAST_NUMBER, nullptr, 0, 1, &count));
  check("pop", holdfast_pop(dict, "list", 4, HOLDFAST_LEFT, &value));
}

void call_locks() {
  holdfast_lease lease{};
  check("lock_try", holdfast_lock_try(dict, "lock", 4, 0, 0, 0, &lease));
  check("lock_explain", holdfast_lock_explain(dict, "lock", 4, &lease, "why", 3));
  check("lock_adopt", holdfast_lock_adopt(dict, "lock", 4, &lease, 1));
  holdfast_holder holder{};
  check("lock_holder", holdfast_lock_holder(dict, "lock", 4, &holder));
  holdfast_parker* const parker = holdfast_parker_new();
  if (parker != nullptr) {
    holdfast_wait wait{};
    wait.parker = parker;
    wait.waiter = holdfast_waiter_open(parker);
    wait.task = 1;
    wait.holds = 1;
    holdfast_lease none{};
    if (wait.waiter != 0) {
      check("lock_wait", holdfast_lock_wait(dict, "lock", 4, 0, &wait, &none), HOLDFAST_LOCKED);
      std::uint32_t count = 0;
      char buffer[64];
      holdfast_value keys{};
      keys.data = buffer;
      keys.capacity = sizeof buffer;
      check("deadlock_keys", holdfast_deadlock_keys(parker, wait.waiter, &keys, &count), HOLDFAST_NOT_FOUND);
      check("lock_leave", holdfast_lock_leave(dict, "lock", 4, parker, wait.waiter));
    }
    std::uint32_t woken = 0;
    holdfast_parker_sleep(parker, 0, &woken, 1);
    holdfast_parker_fd(parker);
    holdfast_parker_timer(parker, 10);
    char path[HOLDFAST_PATH_MAX];
    check("parker_listen", holdfast_parker_listen(parker, path, sizeof path));
    holdfast_parker_free(parker);
  }
  holdfast_lease none{};
  check("lock", holdfast_lock(dict, "lock", 4, 0.001, 0, &none), HOLDFAST_LOCKED);
  check("unlock", holdfast_unlock(dict, "lock", 4, &lease));
  const holdfast_request request = HOLDFAST_REQUEST(.kind = HOLDFAST_HELD_SEMAPHORE, .timeout = 0.001, .want = 2,
                                                    .total = 3, .task = 1, .holder_task = 1, .why = "a reason");
  check("acquire", holdfast_acquire(dict, "permits", 7, &request, &lease));
  check("acquire what is held", holdfast_acquire(dict, "permits", 7, &request, &none), HOLDFAST_LOCKED);
  check("unlock of permits", holdfast_unlock(dict, "permits", 7, &lease));
  if (std::strlen(holdfast_strerror(HOLDFAST_LOCKED)) == 0) fail("strerror", HOLDFAST_LOCKED);
}

void* call_all(void*) {
  limited = true;
  call_wrongly();
  call_dictionaries();
  call_keys();
  call_locks();
  limited = false;
  return nullptr;
}

void open_dict() {
  const holdfast_options options{65536, HOLDFAST_MUTEX_FUTEX, HOLDFAST_TEMPORARY, 0, nullptr};
  if (holdfast_open("t", 1, &options, &dict) != HOLDFAST_OK) fail("the first open", 0);
}

/// In a thread that has not used the library yet.
void call_with(long allocations) {
  pthread_t thread;
  allowed = kUnlimited;
  if (pthread_create(
          &thread, nullptr,
          [](void* count) -> void* {
            allowed = reinterpret_cast<long>(count);
            return call_all(nullptr);
          },
          reinterpret_cast<void*>(allocations)) != 0)
    _exit(2);
  pthread_join(thread, nullptr);
}

}  // namespace

int main(int count, char** values) {
  if (count != 2) return 2;
  open_dict();
  const long most = std::strcmp(values[1], "first") == 0 ? 0 : std::atol(values[1]);
  for (long allocations = 0; allocations <= most; ++allocations) call_with(allocations);
  call_with(kUnlimited);
  // And everything still works.
  if (set(HOLDFAST_SET, "k", 1, 0) != HOLDFAST_OK) fail("set at the end", 0);
  std::puts("done");
  return 0;
}
