// The header's calls for clusters, in a library that is built without cluster/: no dictionary belongs to a cluster.
#include "capi/handle.h"

using namespace holdfast;
using namespace holdfast::capi;

namespace {

int fail_without_cluster(holdfast_dict* dict) {
  const std::string name(unwrap(dict).quoted_name());
  return fail({Code::not_found, "dictionary " + name + " belongs to no cluster"});
}

}  // namespace

int holdfast_cluster_state(holdfast_dict* dict, holdfast_cluster* state) {
  return guarded([&]() -> int {
    *state = {};
    return fail_without_cluster(dict);
  });
}

int holdfast_ask(holdfast_dict* dict, int, const char*, size_t, uint64_t, int*) {
  return guarded([&]() -> int { return fail_without_cluster(dict); });
}

int holdfast_answer(int, char*, size_t*) {
  return guarded([&]() -> int { return fail(Code::unavailable, "this library was built without cluster support"); });
}

// Only checks the lease, because there is no other machine that could have the lock.
int holdfast_lock_verify(holdfast_dict* dict, const char* key, size_t key_length, const holdfast_lease* lease, double) {
  double left = 0;
  return holdfast_lock_remaining(dict, key, key_length, lease, &left);
}
