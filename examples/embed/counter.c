/* A host in plain C: adds one to a counter that many processes share, under a lock.
 *
 *   counter DICTIONARY [SECONDS]     waits for the lock for at most so many seconds (5)
 *
 * While it waits it sleeps in poll, and answers each line on its standard input with how long it has waited. */

#include <holdfast.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DICTIONARY_SIZE = 1 << 20, LOCK_SECONDS = 30, LONGEST_SLEEP = 60 };

/* A lock and a value are told apart by their keys only: a value stored under the lock's key would end the lock. */
static const char lock_key[] = "counter lock";
static const char count_key[] = "counter";
enum { LOCK_KEY_LENGTH = sizeof lock_key - 1, COUNT_KEY_LENGTH = sizeof count_key - 1 };

typedef struct request {
  holdfast_dict* dict;
  double start;
  double timeout;
  int input; /* where lines come from; -1 when there are no more */
} request;

static int complain(const char* what, int code) {
  const char* why = holdfast_error();
  fprintf(stderr, "counter: %s: %s\n", what, *why != '\0' ? why : holdfast_code_text(code));
  return code;
}

static double smaller(double a, double b) { return a < b ? a : b; }

static void answer(request* wanted) {
  char line[256];
  if (read(wanted->input, line, sizeof line) <= 0) {
    wanted->input = -1;
  } else {
    printf("waited %.3f s\n", holdfast_now() - wanted->start);
    fflush(stdout);
  }
}

/* Sleeps until the waiter may have been woken, `seconds` have passed, or there is a line to answer. */
static void sleep_in_poll(request* wanted, holdfast_parker* parker, double seconds) {
  struct pollfd descriptors[2] = {{holdfast_parker_fd(parker), POLLIN, 0}, {wanted->input, POLLIN, 0}};
  uint32_t woken[8];
  /* poll skips a descriptor of -1. Where the parker has none to give, wait.sleep was short. */
  poll(descriptors, 2, (int)(smaller(seconds, LONGEST_SLEEP) * 1000) + 1);
  if (descriptors[1].revents != 0) answer(wanted);
  while (holdfast_parker_sleep(parker, 0, woken, 8) == 8) {
  }
}

/* OK when the lock is taken; TIMEOUT when it could not be had in time. */
static int wait_for_lock(request* wanted, holdfast_parker* parker, holdfast_lease* lease) {
  holdfast_wait wait = {.parker = parker, .waiter = holdfast_waiter_open(parker)};
  if (wait.waiter == 0) return HOLDFAST_NO_MEMORY;
  for (;;) {
    const double left = wanted->start + wanted->timeout - holdfast_now();
    wait.timeout = left > 0 ? left : 0;
    const int code = holdfast_lock_wait(wanted->dict, lock_key, LOCK_KEY_LENGTH, LOCK_SECONDS, &wait, lease);
    if (code != HOLDFAST_LOCKED && code != HOLDFAST_TIMEOUT) return code;
    if (left <= 0) {
      holdfast_lock_leave(wanted->dict, lock_key, LOCK_KEY_LENGTH, parker, wait.waiter);
      return HOLDFAST_TIMEOUT;
    }
    sleep_in_poll(wanted, parker, smaller(wait.sleep, left));
  }
}

/* With holdfast_incr this would need no lock. */
static int add_one(holdfast_dict* dict, double* sum) {
  holdfast_value value = {0};
  const int code = holdfast_get(dict, count_key, COUNT_KEY_LENGTH, &value);
  if (code != HOLDFAST_OK && code != HOLDFAST_NOT_FOUND) return code;
  *sum = (code == HOLDFAST_OK ? value.number : 0) + 1;
  return holdfast_store(dict, HOLDFAST_SET, count_key, COUNT_KEY_LENGTH, HOLDFAST_NUMBER, NULL, 0, *sum, 0, 0, NULL);
}

static int count_under_lock(request* wanted) {
  holdfast_parker* parker = holdfast_parker_new();
  if (parker == NULL) return complain("cannot wait", HOLDFAST_SYSTEM);
  holdfast_lease lease = {0};
  int code = wait_for_lock(wanted, parker, &lease);
  holdfast_parker_free(parker);
  if (code != HOLDFAST_OK) return complain("no lock", code);

  double sum = 0;
  code = add_one(wanted->dict, &sum);
  if (code != HOLDFAST_OK) complain("cannot count", code);
  const int released = holdfast_unlock(wanted->dict, lock_key, LOCK_KEY_LENGTH, &lease);
  if (released != HOLDFAST_OK) return complain("the lock was lost meanwhile", released);
  if (code == HOLDFAST_OK) printf("count %.0f\n", sum);
  return code;
}

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    fprintf(stderr, "Usage: counter DICTIONARY [SECONDS]\n");
    return 2;
  }
  if (holdfast_abi() != HOLDFAST_ABI) {
    fprintf(stderr, "counter: libholdfast has ABI %u, this program needs %d\n", holdfast_abi(), HOLDFAST_ABI);
    return 1;
  }
  const holdfast_options options = {.size = DICTIONARY_SIZE};
  request wanted = {.timeout = argc == 3 ? strtod(argv[2], NULL) : 5.0, .input = STDIN_FILENO};
  const int code = holdfast_open(argv[1], strlen(argv[1]), &options, &wanted.dict);
  if (code != HOLDFAST_OK) return complain(argv[1], code) != HOLDFAST_OK;
  wanted.start = holdfast_now();
  return count_under_lock(&wanted) != HOLDFAST_OK;
}
