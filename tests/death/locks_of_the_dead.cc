// Two concurrent processes take locks that never expire, each lock under a new key. SIGKILL ends the processes at
// random moments, and new processes replace them. No attempt may fail: all memory that dead processes hold must be
// reusable, however much they hold.

#include <signal.h>
#include <unistd.h>

#include <array>
#include <cinttypes>
#include <memory>
#include <random>
#include <string>

#include "crash/ledger.h"
#include "platform/platform.h"
#include "support/dict.h"
#include "support/process.h"
#include "support/random_run.h"
#include "support/shard_check.h"

namespace holdfast::test {
namespace {

constexpr std::uint64_t kSize = 100 << 10;
constexpr std::size_t kProcesses = 2;
/// The maximum number of locks that one process takes. About 700 locks fit into the dictionary, and live processes keep
/// theirs.
constexpr std::uint64_t kLocksMax = 300;
constexpr int kAttemptsMax = 100;

struct Settings {
  std::uint64_t seed = 0;
  std::uint64_t locks = 100'000;
};

/// The counts that the processes of a run share, outside the dictionary.
struct Ledger {
  std::atomic<std::uint64_t> begun;  // number of attempts, which is also the number in the next key
  std::atomic<std::uint64_t> taken;
  std::array<std::atomic<std::uint64_t>, kProcesses> taken_by_each;
  std::atomic<std::uint64_t> longest_ns;
  crash::Violations violations;
};

class Run {
 public:
  explicit Run(const Settings& settings) : settings_(settings), random_(settings.seed) {}

  bool is_open() const { return dict_.status == HOLDFAST_OK; }

  void run() {
    while (ledger_.taken < settings_.locks && ledger_.violations.count == 0)
      for (std::size_t i = 0; i < kProcesses; ++i) replace(i);
    for (auto& process : processes_) process.reset();
    finish();
  }

  /// Returns the number of violations.
  std::uint64_t report() const {
    std::printf("%" PRIu64 " locks of %" PRIu64 " processes that were killed, in %" PRIu64
                " KB: longest attempt %.1f ms, %" PRIu64 " repairs; %" PRIu64 " violations\n",
                ledger_.taken.load(), killed_, kSize >> 10, static_cast<double>(ledger_.longest_ns.load()) / 1e6,
                repairs_, ledger_.violations.count.load());
    ledger_.violations.print();
    return ledger_.violations.count.load();
  }

 private:
  void take(std::size_t i) {
    const std::string key = "request-" + std::to_string(10'000'000 + ledger_.begun.fetch_add(1));
    holdfast_lease lease{};
    const std::uint64_t begin = platform::monotonic_ns();
    int code = HOLDFAST_TIMEOUT;
    // If the machine stalls, one process may stay inside for longer than the other process waits.
    for (int attempts = 0; code == HOLDFAST_TIMEOUT && attempts < kAttemptsMax; ++attempts)
      code = dict_.try_lock(key, 0, &lease);
    const std::uint64_t ns = platform::monotonic_ns() - begin;
    if (code != HOLDFAST_OK)
      ledger_.violations.add("after %" PRIu64 " locks: %s: %s", ledger_.taken.load(), holdfast_code_text(code),
                             holdfast_error());
    ledger_.taken.fetch_add(1);
    ledger_.taken_by_each[i].fetch_add(1);
    std::uint64_t longest = ledger_.longest_ns.load();
    while (longest < ns && !ledger_.longest_ns.compare_exchange_weak(longest, ns)) {
    }
  }

  /// Waits until process `i` has taken `count` locks. Returns so quickly that the process is often still in the middle
  /// of a call.
  void await_locks(std::size_t i, std::uint64_t count) {
    const auto has_them = [&] { return ledger_.taken_by_each[i] >= count || ledger_.violations.count != 0; };
    for (int looks = 0; looks < 1000; ++looks) {
      if (has_them()) return;
      ::usleep(10);
    }
    if (!eventually(has_them)) ledger_.violations.add("a process cannot take more locks");
  }

  /// Kills process `i` after it has taken some locks, and starts the next process.
  void replace(std::size_t i) {
    if (processes_[i] != nullptr) {
      await_locks(i, 1 + random_() % kLocksMax);
      processes_[i]->kill();
      if (processes_[i]->wait() != 128 + SIGKILL) ledger_.violations.add("a process ended by itself");
      ++killed_;
    }
    ledger_.taken_by_each[i] = 0;
    processes_[i] = std::make_unique<Child>([this, i](Channel& parent) {
      for (std::uint64_t n = 0; n < kLocksMax && ledger_.violations.count == 0; ++n) take(i);
      parent.hear();
      return 0;
    });
  }

  /// Checks the dictionary in a new process, because this process never enters the world.
  void finish() {
    Child last([this](Channel& parent) {
      // If a process was killed inside, this change repairs the dictionary.
      if (dict_.set("next", "one") != HOLDFAST_OK) ledger_.violations.add("after the end: %s", holdfast_error());
      if (const std::string wrong = check_segment(dict_.segment()); !wrong.empty())
        ledger_.violations.add("left damaged: %s", wrong.c_str());
      if (dict_.set("value", std::string(kSize / 4, 'v')) != HOLDFAST_OK)
        ledger_.violations.add("cannot store a value of a quarter of the dictionary: %s", holdfast_error());
      parent.say(std::to_string(dict_.stats().repairs));
      return 0;
    });
    const std::string repairs = last.hear();
    if (last.wait() != 0) return ledger_.violations.add("the last process ended");
    repairs_ = std::stoull(repairs);
  }

  const Settings settings_;
  std::mt19937_64 random_;
  Ledger& ledger_ = crash::make_shared_memory<Ledger>();
  Dict dict_{"requests", {.size = kSize}};
  std::array<std::unique_ptr<Child>, kProcesses> processes_;
  std::uint64_t killed_ = 0;
  std::uint64_t repairs_ = 0;
};

}  // namespace
}  // namespace holdfast::test

int main(int argc, char** argv) {
  using namespace holdfast::test;
  RandomRun<Settings> app(
      "Kill holders of locks that never expire, each under a new key, and check that memory never runs out");
  app.add_option("--locks", app.settings.locks, "number of locks")->check(CLI::Range(1UL, 90'000'000UL));
  return app.run(argc, argv, [](const Settings& settings) {
    const ScratchDirectory directory;
    Run run(settings);
    if (!run.is_open()) {
      std::printf("%s\n", holdfast_error());
      return 2;
    }
    run.run();
    return run.report() == 0 ? 0 : 1;
  });
}
