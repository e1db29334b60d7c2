// Measures the C functions in which the Lua loops spend their time.
#include <mutex>
#include <string>

#include "holdfast.hpp"
#include "scratch.h"

namespace holdfast::bench {
namespace {

const std::string kKey = "key000001";
constexpr std::size_t kKeys = 100'000;

void lock_and_unlock(benchmark::State& state) {
  const ScratchDictionary dictionary(state, kMegabyte);
  if (!dictionary) return;
  holdfast_lease lease{};
  for (auto _ : state) {
    benchmark::DoNotOptimize(holdfast_lock_try(dictionary.handle(), kKey.data(), kKey.size(), 30, 0, 0, &lease));
    benchmark::DoNotOptimize(holdfast_unlock(dictionary.handle(), kKey.data(), kKey.size(), &lease));
  }
}
BENCHMARK(lock_and_unlock);

// Uses the function that would wait if the lock were not free.
void lock_that_may_wait_and_unlock(benchmark::State& state) {
  const ScratchDictionary dictionary(state, kMegabyte);
  if (!dictionary) return;
  holdfast_lease lease{};
  for (auto _ : state) {
    benchmark::DoNotOptimize(holdfast_lock(dictionary.handle(), kKey.data(), kKey.size(), 5, 30, &lease));
    benchmark::DoNotOptimize(holdfast_unlock(dictionary.handle(), kKey.data(), kKey.size(), &lease));
  }
}
BENCHMARK(lock_that_may_wait_and_unlock);

// Uses the lock guards of the standard library.
void lock_and_unlock_of_a_mutex(benchmark::State& state) {
  const ScratchDictionary dictionary(state, kMegabyte);
  if (!dictionary) return;
  holdfast::mutex mutex(holdfast::dictionary(dictionary.handle()), kKey);
  for (auto _ : state) const std::scoped_lock guard(mutex);
}
BENCHMARK(lock_and_unlock_of_a_mutex);

void get_hot_number(benchmark::State& state) {
  const ScratchDictionary dictionary(state, kMegabyte);
  if (!dictionary) return;
  dictionary.set(kKey, 1);
  holdfast_value value{};
  for (auto _ : state) {
    benchmark::DoNotOptimize(holdfast_get(dictionary.handle(), kKey.data(), kKey.size(), &value));
  }
}
BENCHMARK(get_hot_number);

void set_hot_number(benchmark::State& state) {
  const ScratchDictionary dictionary(state, kMegabyte);
  if (!dictionary) return;
  for (auto _ : state) benchmark::DoNotOptimize(dictionary.set(kKey, 1));
}
BENCHMARK(set_hot_number);

void incr_hot_number(benchmark::State& state) {
  const ScratchDictionary dictionary(state, kMegabyte);
  if (!dictionary) return;
  dictionary.set(kKey, 1);
  double sum = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(holdfast_incr(dictionary.handle(), kKey.data(), kKey.size(), 1, 0, 0, 0, &sum, nullptr));
  }
}
BENCHMARK(incr_hot_number);

// Calls call(dictionary, key) for 100,000 numbers in a random order.
template <class Call>
void over_100k_numbers(benchmark::State& state, const Call& call) {
  const ScratchDictionary dictionary(state, 16 * kMegabyte);
  if (!dictionary) return;
  const auto keys = shuffled_keys(kKeys);
  for (const auto& key : keys) dictionary.set(key, 1);
  std::size_t next = 0;
  for (auto _ : state) {
    const std::string& key = keys[next];
    next = next + 1 < kKeys ? next + 1 : 0;
    benchmark::DoNotOptimize(call(dictionary, key));
  }
}

void get_100k_numbers(benchmark::State& state) {
  holdfast_value value{};
  over_100k_numbers(state, [&value](const ScratchDictionary& dictionary, const std::string& key) {
    return holdfast_get(dictionary.handle(), key.data(), key.size(), &value);
  });
}
BENCHMARK(get_100k_numbers);

void set_100k_numbers(benchmark::State& state) {
  over_100k_numbers(state,
                    [](const ScratchDictionary& dictionary, const std::string& key) { return dictionary.set(key, 2); });
}
BENCHMARK(set_100k_numbers);

}  // namespace
}  // namespace holdfast::bench
