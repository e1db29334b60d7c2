#include "scratch.h"

#include <stdlib.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <random>
#include <system_error>

namespace holdfast::bench {

ScratchDictionary::ScratchDictionary(benchmark::State& state, std::uint64_t size, holdfast_mutex mutex) {
  static int count = 0;
  name_ = "scratch-" + std::to_string(++count);
  const holdfast_options options{size, mutex, HOLDFAST_TEMPORARY, 0, nullptr};
  if (holdfast_open(name_.data(), name_.size(), &options, &handle_) != HOLDFAST_OK) {
    handle_ = nullptr;
    state.SkipWithError(holdfast_error());
  }
}

ScratchDictionary::~ScratchDictionary() { holdfast_remove(name_.data(), name_.size()); }

std::vector<std::string> shuffled_keys(std::size_t count) {
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < count; ++i) {
    std::string digits = std::to_string(i);
    keys.push_back("k" + std::string(8 - digits.size(), '0') + digits);
  }
  std::shuffle(keys.begin(), keys.end(), std::mt19937{20090101});
  return keys;
}

}  // namespace holdfast::bench

namespace {

/// A runtime directory that exists until this object is destroyed.
class ScratchWorld {
 public:
  ScratchWorld() {
    if (mkdtemp(path_.data()) == nullptr) {
      std::perror("micro_benchmarks: cannot make a folder in /dev/shm");
      std::exit(1);
    }
    setenv("HOLDFAST_DIR", path_.c_str(), 1);
  }
  ~ScratchWorld() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchWorld(const ScratchWorld&) = delete;
  ScratchWorld& operator=(const ScratchWorld&) = delete;

 private:
  std::string path_ = "/dev/shm/holdfast-micro.XXXXXX";
};

}  // namespace

int main(int argc, char** argv) {
  const ScratchWorld world;
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
