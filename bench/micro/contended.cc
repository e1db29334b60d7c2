// Measures a mutex in a segment, and a lock in a dictionary, while several processes keep requesting it. The constants
// of sync/spin.h were chosen by these results. "items_per_second" counts the critical sections of all processes
// together.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <new>
#include <string>

#include "platform/platform.h"
#include "scratch.h"
#include "sync/shmtx.h"

namespace holdfast::bench {
namespace {

constexpr std::size_t kMostProcesses = 8;
const std::string kKey = "key000001";

/// The memory that the processes share.
struct Page {
  struct alignas(64) Count {
    std::atomic<std::uint64_t> sections;
  };
  std::atomic<bool> stop;
  std::array<Count, kMostProcesses> counts;

  std::uint64_t sections() const {
    std::uint64_t sum = 0;
    for (const Count& count : counts) sum += count.sections.load(std::memory_order_relaxed);
    return sum;
  }
};

void keep_busy(std::uint64_t ns) {
  if (ns == 0) return;
  const std::uint64_t end = platform::monotonic_ns() + ns;
  while (platform::monotonic_ns() < end) continue;
}

/// Forks processes that run `section() -> bool` in a loop until this object is destroyed.
class Contenders {
 public:
  template <class Section>
  Contenders(std::size_t processes, const Section& section) {
    void* const memory = ::mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) std::abort();
    page_ = new (memory) Page{};
    for (; count_ < processes; ++count_) {
      const pid_t child = ::fork();
      if (child < 0) std::abort();
      if (child == 0) {
        while (!page_->stop.load(std::memory_order_relaxed) && section()) add(count_);
        ::_exit(0);
      }
      children_.at(count_) = child;
    }
    while (started() < count_) continue;
  }
  ~Contenders() {
    page_->stop.store(true, std::memory_order_relaxed);
    for (std::size_t i = 0; i < count_; ++i) ::waitpid(children_.at(i), nullptr, 0);
    ::munmap(page_, sizeof(Page));
  }
  Contenders(const Contenders&) = delete;
  Contenders& operator=(const Contenders&) = delete;

  std::uint64_t sections() const { return page_->sections(); }

 private:
  void add(std::size_t process) {
    auto& sections = page_->counts.at(process).sections;
    sections.store(sections.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  std::size_t started() const {
    std::size_t number = 0;
    for (std::size_t i = 0; i < count_; ++i)
      number += page_->counts.at(i).sections.load(std::memory_order_relaxed) != 0 ? 1 : 0;
    return number;
  }

  Page* page_;
  std::size_t count_ = 0;
  std::array<pid_t, kMostProcesses> children_{};
};

/// Measures `section() -> bool` in this process, while state.range(0) - 1 other processes run the same section.
template <class Section>
void contend(benchmark::State& state, const Section& section) {
  const Contenders others(static_cast<std::size_t>(state.range(0)) - 1, section);
  const std::uint64_t before = others.sections();
  for (auto _ : state) {
    if (section()) continue;
    state.SkipWithError("refused");
    break;
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(others.sections() - before) + state.iterations());
}

// Each process holds the mutex for range(1) nanoseconds and requests it again immediately.
void contended_mutex(benchmark::State& state, holdfast_mutex strategy) {
  const ScratchDictionary dictionary(state, kMegabyte, strategy);
  if (!dictionary) return;
  Shmtx& mutex = dictionary.first_shard().mutex();
  const auto held_ns = static_cast<std::uint64_t>(state.range(1));
  contend(state, [&] {
    if (mutex.lock_for(kNsPerMs * 1000) != LockResult::acquired) return false;
    keep_busy(held_ns);
    mutex.unlock();
    return true;
  });
}

void contended_lock(benchmark::State& state) {
  const ScratchDictionary dictionary(state, kMegabyte);
  if (!dictionary) return;
  const auto held_ns = static_cast<std::uint64_t>(state.range(1));
  contend(state, [&] {
    holdfast_lease lease{};
    if (holdfast_lock(dictionary.handle(), kKey.data(), kKey.size(), 10, 30, &lease) != HOLDFAST_OK) return false;
    keep_busy(held_ns);
    return holdfast_unlock(dictionary.handle(), kKey.data(), kKey.size(), &lease) == HOLDFAST_OK;
  });
}

void cases(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"processes", "held_ns"})->UseRealTime();
  for (const std::int64_t processes : {2, 4})
    for (const std::int64_t held_ns : {0, 1'000, 10'000}) benchmark->Args({processes, held_ns});
}
BENCHMARK_CAPTURE(contended_mutex, futex, HOLDFAST_MUTEX_FUTEX)->Apply(cases);
BENCHMARK_CAPTURE(contended_mutex, spin, HOLDFAST_MUTEX_SPIN)
    ->ArgNames({"processes", "held_ns"})
    ->UseRealTime()
    ->Args({2, 0});
BENCHMARK(contended_lock)->Apply(cases);

}  // namespace
}  // namespace holdfast::bench
