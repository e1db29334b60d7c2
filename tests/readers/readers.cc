// Checks readers, which take no lock, while writers change the dictionary. A value must not be torn, belong to a
// different key, or be older than a value that was seen before, and a permanent key must never be missing. Readers and
// writers are processes or, for ThreadSanitizer, threads that share one mapping.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <functional>
#include <memory>
#include <random>
#include <thread>

#include "platform/platform.h"
#include "readers/ledger.h"
#include "support/process.h"
#include "support/random_run.h"
#include "support/shard_check.h"

namespace holdfast::readers {
namespace {

constexpr Shape kShapes[] = {
    {"1 shard, room for all", 1 << 20, 0.3, true, Kinds::all, false, 0},
    {"8 shards, room for all", 9 << 20, 0.2, true, Kinds::all, false, 0},
    {"1 shard, full, nothing evicted", 512 << 10, 0.2, true, Kinds::all, false, 1500},
    {"1 shard, full, with eviction", 512 << 10, 0.2, false, Kinds::all, false, 1500},
    {"8 shards, only locks", 9 << 20, 0.02, true, Kinds::passing_locks, false, 0},
    {"1 shard, writers killed", 1 << 20, 0.08, true, Kinds::no_locks, true, 0},
};

struct Plan {
  std::uint64_t reads = 100'000'000;
  std::uint64_t seed = 0;
  std::uint32_t readers = 2;
  std::uint32_t writers = 2;
  std::uint32_t mixers = 1;
  bool threads = false;
};

/// Runs a function in a thread, or in a process that is killed if this process ends.
class Runner {
 public:
  Runner(bool thread, const std::function<void()>& body) {
    if (thread) {
      thread_ = std::thread(body);
      return;
    }
    pid_ = test::fork_bound([&] {
      body();
      ::_exit(0);
    });
  }

  bool has_ended() {
    int status = 0;
    if (pid_ > 0 && ::waitpid(pid_, &status, WNOHANG) == pid_) end(status);
    return ended_;
  }
  /// Kills the runner in the middle of its work. REQUIRES: the runner is a process.
  void kill() {
    int status = 0;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
  }
  /// Returns whether the runner ended normally.
  bool wait() {
    if (thread_.joinable()) {
      thread_.join();
      return true;
    }
    int status = 0;
    if (!ended_ && ::waitpid(pid_, &status, 0) == pid_) end(status);
    return well_;
  }

 private:
  void end(int status) {
    ended_ = true;
    well_ = status == 0;
  }

  bool ended_ = false;
  bool well_ = false;
  std::thread thread_;
  pid_t pid_ = -1;
};

class Run {
 public:
  Run(const Plan& plan, const Shape& shape, std::uint64_t seed, const std::string& name)
      : plan_(plan),
        shape_(shape),
        random_(seed),
        keys_(make_keys(plan.writers, shape.kinds)),
        ledger_(crash::make_shared_memory<Ledger>()),
        dict_(name, {.size = shape.size}) {
    ledger_.begin_ms.store(platform::monotonic_ns() / kNsPerMs);
  }

  void run() {
    if (dict_.status != HOLDFAST_OK) return ledger_.violations.add("open: %s", holdfast_error());
    const std::uint64_t begin = platform::monotonic_ns();
    prepare_mixed(dict_);
    std::vector<std::unique_ptr<Runner>> others;
    for (std::uint32_t i = 0; i < plan_.writers; ++i) others.push_back(start_writer(i));
    while (ledger_.ready.load() < plan_.writers && platform::monotonic_ns() - begin < 20 * kNsPerSecond)
      std::this_thread::yield();
    if (ledger_.ready.load() < plan_.writers) ledger_.violations.add("the writers did not start");
    for (std::uint32_t i = 0; i < plan_.mixers; ++i) others.push_back(start(i, mix_in));

    const auto share = static_cast<std::uint64_t>(static_cast<double>(plan_.reads) * shape_.share) / plan_.readers + 1;
    std::vector<std::unique_ptr<Runner>> readers;
    for (std::uint32_t i = 0; i < plan_.readers; ++i)
      readers.push_back(start(i, [share](const Work& work) { read(work, share); }));
    if (shape_.kills && !plan_.threads) kill_writers(others, readers);
    for (auto& one : readers) finish(*one);
    // Writers stop last, because the locks of a writer that has ended may disappear, and a mixer may still need them.
    ledger_.mixers_stop.store(true);
    for (std::size_t i = plan_.writers; i < others.size(); ++i) finish(*others[i]);
    ledger_.writers_stop.store(true);
    for (std::size_t i = 0; i < plan_.writers; ++i) finish(*others[i]);
    dict_.flush_expired();  // visits each shard, and repairs the shards in which a process was killed

    if (const std::string problem = test::check_segment(dict_.segment()); !problem.empty())
      ledger_.violations.add("at the end: %s", problem.c_str());
    if (shape_.safe) check_mixed(dict_, ledger_);
    if (shape_.safe && dict_.stats().evictions != 0)
      ledger_.violations.add("a call that must not evict has evicted a key");
    seconds_ = static_cast<double>(platform::monotonic_ns() - begin) / 1e9;
  }

  std::uint64_t reads() const {
    std::uint64_t sum = 0;
    for (const Reader& reader : ledger_.readers)
      for (const auto& count : reader.reads) sum += count.load();
    return sum;
  }

  /// Returns the number of violations.
  std::uint64_t report() {
    std::uint64_t missing = 0;
    std::uint64_t writes = 0;
    std::uint64_t mixed = 0;
    for (const Reader& reader : ledger_.readers) missing += reader.missing.load();
    for (const auto& count : ledger_.writes) writes += count.load();
    for (const auto& count : ledger_.mixed) mixed += count.load();
    const holdfast_stats stats = dict_.stats();
    std::printf("%-32s %10" PRIu64 " reads and %9" PRIu64 " without a value, %9" PRIu64 " writes, %7" PRIu64
                " other calls, %" PRIu64 " evictions, %" PRIu64 " mutex waits, %" PRIu64 " kills, %" PRIu64
                " repairs; %" PRIu64 " violations; %.1f s\n",
                shape_.name, reads(), missing, writes, mixed, stats.evictions, stats.mutex_waits, kills_, stats.repairs,
                ledger_.violations.count.load(), seconds_);
    ledger_.violations.print();
    return ledger_.violations.count.load();
  }

 private:
  std::unique_ptr<Runner> start_writer(std::uint32_t self) {
    return start(self, [this](const Work& work) { write(work, plan_.writers); });
  }
  /// Kills writers while readers run. REQUIRES: the writers are at the beginning of `others`.
  void kill_writers(std::vector<std::unique_ptr<Runner>>& others, std::vector<std::unique_ptr<Runner>>& readers) {
    const auto read = [&] {
      return std::all_of(readers.begin(), readers.end(), [](auto& one) { return one->has_ended(); });
    };
    while (!read()) {
      std::this_thread::sleep_for(std::chrono::microseconds(500 + random_() % 3000));
      const auto victim = static_cast<std::uint32_t>(random_() % plan_.writers);
      others[victim]->kill();
      others[victim] = start_writer(victim);
      ++kills_;
    }
  }
  std::unique_ptr<Runner> start(std::uint32_t self, const std::function<void(const Work&)>& body) {
    const std::uint64_t seed = random_();
    return std::make_unique<Runner>(plan_.threads, [this, self, seed, body] {
      body({dict_, shape_, keys_, ledger_, self, seed});
    });
  }
  void finish(Runner& runner) {
    if (!runner.wait()) ledger_.violations.add("a process of the test did not end normally");
  }

  const Plan& plan_;
  const Shape& shape_;
  std::mt19937_64 random_;
  std::vector<KeyInfo> keys_;
  Ledger& ledger_;
  test::Dict dict_;
  std::uint64_t kills_ = 0;
  double seconds_ = 0;
};

int run(const Plan& plan) {
  const test::ScratchDirectory directory;
  std::uint64_t violations = 0;
  std::uint64_t reads = 0;
  for (const Shape& shape : kShapes) {
    Run one(plan, shape, plan.seed, "readers-" + std::to_string(&shape - kShapes));
    one.run();
    violations += one.report();
    reads += one.reads();
  }
  std::printf("%" PRIu64 " reads, %" PRIu64 " violations\n", reads, violations);
  return violations == 0 && reads >= plan.reads ? 0 : 1;
}

}  // namespace
}  // namespace holdfast::readers

int main(int argc, char** argv) {
  using namespace holdfast::readers;
  holdfast::test::RandomRun<Plan> app("Read a dictionary without a lock while others change it, and check every value");
  app.add_option("--reads", app.settings.reads, "number of reads");
  app.add_option("--readers", app.settings.readers)->check(CLI::Range(1U, kReadersMax));
  app.add_option("--writers", app.settings.writers)->check(CLI::Range(1U, kWritersMax));
  app.add_option("--mixers", app.settings.mixers, "number of processes that make all other calls")
      ->check(CLI::Range(0U, kMixersMax));
  app.add_flag("--threads", app.settings.threads, "use threads of one process instead of processes");
  return app.run(argc, argv, run);
}
