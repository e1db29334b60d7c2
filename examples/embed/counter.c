/* A host in plain C. Under a lock, it adds one to a counter that many processes share.
 *
 *   counter DICTIONARY [SECONDS]     waits for the lock for at most this long (5) */
#include <holdfast.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int complain(const char* what, int code) {
  fprintf(stderr, "counter: %s: %s\n", what, holdfast_strerror(code));
  return 1;
}

int main(int argc, char** argv) {
  const holdfast_options options = {.size = 1 << 20};
  holdfast_dict* dict;
  holdfast_lease lease;
  holdfast_value count = {0};
  if (argc < 2 || argc > 3) return fputs("Usage: counter DICTIONARY [SECONDS]\n", stderr), 2;
  if (holdfast_abi() != HOLDFAST_ABI) return fputs("counter: libholdfast has another ABI than holdfast.h\n", stderr), 1;
  int code = holdfast_open(argv[1], strlen(argv[1]), &options, &dict);
  if (code) return complain(argv[1], code);

  code = holdfast_lock(dict, "counter lock", 12, argc == 3 ? strtod(argv[2], NULL) : 5, 30, &lease);
  if (code) return complain("no lock", code);
  /* holdfast_incr would need no lock. The counter has its own key, because a value under the lock's key would end the
     lock. */
  code = holdfast_get(dict, "counter", 7, &count);
  if (code && code != HOLDFAST_NOT_FOUND) return complain("cannot count", code);
  count.number += 1;
  code = holdfast_store(dict, HOLDFAST_SET, "counter", 7, HOLDFAST_NUMBER, NULL, 0, count.number, 0, 0, NULL);
  if (code) return complain("cannot count", code);
  code = holdfast_unlock(dict, "counter lock", 12, &lease);
  if (code) return complain("the lock was lost in the meantime", code);
  return printf("count %.0f\n", count.number) < 0;
}
