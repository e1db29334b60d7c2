// Measures how long it takes to allocate and free a shard's blocks, and to rebuild a shard after a crash.
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "dict/arena.h"
#include "dict/guard.h"
#include "dict/repair.h"
#include "scratch.h"

namespace holdfast::bench {
namespace {

// The size of a block for a number under a key of 9 bytes.
const auto kSmall = static_cast<std::uint32_t>(granules_for(9, 8));

// Runs step(arena) in the benchmark loop with the arena of a shard, under the shard's mutex.
template <class Step>
void in_arena(benchmark::State& state, const Step& step) {
  const ScratchDictionary dictionary(state, kMegabyte);
  if (!dictionary) return;
  Shard& shard = dictionary.first_shard();
  const ShardGuard guard(shard);
  Arena arena(shard);
  for (auto _ : state) step(arena);
}

void arena_allocate_and_release(benchmark::State& state) {
  in_arena(state, [](Arena& arena) {
    const std::uint32_t block = arena.allocate(kSmall);
    benchmark::DoNotOptimize(block);
    arena.release(block, kSmall);
  });
}
BENCHMARK(arena_allocate_and_release);

// Starts with a thousand blocks of 1 to 64 granules, and replaces random blocks by blocks of other sizes, so that no
// free block fits exactly.
void arena_mixed_sizes(benchmark::State& state) {
  std::mt19937 random{20090101};
  std::vector<std::pair<std::uint32_t, std::uint32_t>> blocks(1000);
  in_arena(state, [&](Arena& arena) {
    auto& [block, count] = blocks[random() % blocks.size()];
    if (block != 0) arena.release(block, count);
    count = 1 + random() % 64;
    block = arena.allocate(count);
  });
}
BENCHMARK(arena_mixed_sizes);

void repair_full_shard(benchmark::State& state) {
  const ScratchDictionary dictionary(state, kMegabyte);
  if (!dictionary) return;
  int entries = 0;
  Shard& shard = dictionary.first_shard();
  while (dictionary.set("k" + std::to_string(10'000'000 + entries), entries, HOLDFAST_SAFE_SET) == HOLDFAST_OK)
    ++entries;
  const ShardGuard guard(shard);
  for (auto _ : state) benchmark::DoNotOptimize(repair(shard));
  state.SetLabel(std::to_string(entries) + " entries");
}
BENCHMARK(repair_full_shard)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace holdfast::bench
