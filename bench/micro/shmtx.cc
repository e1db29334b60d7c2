// Measures a free mutex in a segment, for each of the three kinds.
#include "sync/shmtx.h"

#include "scratch.h"

namespace holdfast::bench {
namespace {

void shmtx_lock_and_unlock(benchmark::State& state, holdfast_mutex strategy) {
  const ScratchDictionary dictionary(state, kMegabyte, strategy);
  if (!dictionary) return;
  Shmtx& mutex = dictionary.first_shard().mutex();
  for (auto _ : state) {
    if (mutex.try_lock() != LockResult::acquired) {
      state.SkipWithError("the mutex is not free");
      break;
    }
    mutex.unlock();
  }
}
BENCHMARK_CAPTURE(shmtx_lock_and_unlock, futex, HOLDFAST_MUTEX_FUTEX);
BENCHMARK_CAPTURE(shmtx_lock_and_unlock, spin, HOLDFAST_MUTEX_SPIN);
BENCHMARK_CAPTURE(shmtx_lock_and_unlock, file, HOLDFAST_MUTEX_FILE);

}  // namespace
}  // namespace holdfast::bench
