/* Replaces the clock and the random numbers of a process by constants. Preloaded into processes whose instructions are
 * counted, because time and chance change the counts: the library measures some locks, and LuaJIT places objects and
 * machine code at random addresses.
 *
 *   cc -shared -fPIC bench/count/constant.c */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>

int clock_gettime(clockid_t clock, struct timespec* time) {
  (void)clock;
  time->tv_sec = 1000000;
  time->tv_nsec = 0;
  return 0;
}

ssize_t getrandom(void* buffer, size_t size, unsigned flags) {
  (void)flags;
  memset(buffer, 1, size);
  return (ssize_t)size;
}

void srandom(unsigned seed) { (void)seed; }

long syscall(long number, long a, long b, long c, long d, long e, long f) {
  typedef long function(long number, ...);
  static function* next;
  if (number == SYS_getrandom) return getrandom((void*)a, b, c);
  if (next == NULL) next = (function*)dlsym(RTLD_NEXT, "syscall");
  return next(number, a, b, c, d, e, f);
}
