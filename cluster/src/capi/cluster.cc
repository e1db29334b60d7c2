// The C ABI for clusters. Each function calls one function of the gate and converts its result into the C form.
#include "capi/handle.h"
#include "gate/cluster_state.h"

using namespace holdfast;
using namespace holdfast::capi;

static_assert(sizeof(holdfast_cluster::name) == kClusterNameMax + 1);

int holdfast_cluster_state(holdfast_dict* dict, holdfast_cluster* state) {
  return guarded([&]() -> int {
    *state = {};
    ClusterState found;
    const Status status = find_cluster_state(unwrap(dict), found);
    found.name.copy(state->name, kClusterNameMax);
    state->agent = found.agent;
    state->epoch = found.epoch;
    state->seconds = found.seconds;
    state->machine = found.machine;
    return status.ok() ? static_cast<int>(HOLDFAST_OK) : fail(status);
  });
}
