// Creates dictionaries for the benchmarks, in a private world.
#pragma once

#include <benchmark/benchmark.h>

#include <cstdint>
#include <string>
#include <vector>

#include "capi/handle.h"
#include "dict/segment.h"
#include "dict/shard.h"
#include "holdfast.h"

namespace holdfast::bench {

/// A new dictionary, which the destructor removes. If it cannot be created, the benchmark is marked as failed and
/// `handle` is null.
class ScratchDictionary {
 public:
  ScratchDictionary(benchmark::State& state, std::uint64_t size, holdfast_mutex mutex = HOLDFAST_MUTEX_FUTEX);
  ~ScratchDictionary();
  ScratchDictionary(const ScratchDictionary&) = delete;
  ScratchDictionary& operator=(const ScratchDictionary&) = delete;

  explicit operator bool() const { return handle_ != nullptr; }
  holdfast_dict* handle() const { return handle_; }
  /// Returns the first shard, which is in use and empty. REQUIRES: the dictionary has one shard.
  Shard& first_shard() const {
    set("key", 1);
    holdfast_delete(handle_, "key", 3);
    return capi::unwrap(handle_).segment(EpochGuard())->shards().front();
  }

  int set(const std::string& key, double value, holdfast_store_op op = HOLDFAST_SET) const {
    return holdfast_store(handle_, op, key.data(), key.size(), HOLDFAST_NUMBER, nullptr, 0, value, 0, 0, nullptr);
  }

 private:
  std::string name_;
  holdfast_dict* handle_ = nullptr;
};

inline constexpr std::uint64_t kMegabyte = std::uint64_t{1} << 20;

/// Returns keys of nine bytes in a random order, which is the same in every run.
std::vector<std::string> shuffled_keys(std::size_t count);

}  // namespace holdfast::bench
