/* A host in C: counts in a dictionary that all its processes share, and prints the count. */
#include <holdfast.h>
#include <stdio.h>

int main(void) {
  const holdfast_options options = {.size = 65536, .mutex = HOLDFAST_MUTEX_FUTEX};
  const holdfast_request request = HOLDFAST_REQUEST(.timeout = 5, .exptime = 30);
  holdfast_lease lease;
  holdfast_dict *dict = NULL;
  double runs = 0;

  if (holdfast_abi() != HOLDFAST_ABI) {
    fprintf(stderr, "built for ABI %d, the library has %u\n", HOLDFAST_ABI, (unsigned)holdfast_abi());
    return 1;
  }
  if (holdfast_open("consumer", 8, &options, &dict) != HOLDFAST_OK ||
      holdfast_acquire(dict, "lock", 4, &request, &lease) != HOLDFAST_OK ||
      holdfast_incr(dict, "runs", 4, 1, 1, 0, 0, &runs, NULL) != HOLDFAST_OK ||
      holdfast_unlock(dict, "lock", 4, &lease) != HOLDFAST_OK) {
    fprintf(stderr, "%s\n", holdfast_error());
    return 1;
  }
  printf("a C host counts to %.0f with holdfast %s\n", runs, holdfast_version());
  return 0;
}
