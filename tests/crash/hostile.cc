// Checks that shared memory is never trusted. One process writes random words into a dictionary while other processes
// use it, and opens damaged files. No process may crash, and every call must return within a second.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cinttypes>
#include <random>

#include "crash/hostile.h"
#include "platform/platform.h"
#include "support/process.h"
#include "support/random_run.h"

namespace holdfast::crash {
namespace {

class Hostile {
 public:
  Hostile(std::uint64_t size, std::uint64_t seed)
      : ledger_(make_shared_memory<HostileLedger>()),
        random_(seed),
        dict_("hostile-" + std::to_string(size), {.size = size}),
        scribbler_(dict_, size, seed) {
    if (dict_.status != HOLDFAST_OK) ledger_.violations.add("open: %s", holdfast_error());
  }

  void run(std::uint64_t flips, double seconds) {
    for (int i = 0; i < kUsers; ++i) start(i);
    const std::uint64_t end = platform::monotonic_ns() + static_cast<std::uint64_t>(seconds * 1e9);
    // Writes in bursts. Between two bursts, the other processes have time to create entries that can be damaged.
    while (ledger_.violations.count.load() == 0 && (flips_ < flips || platform::monotonic_ns() < end)) {
      for (int i = 0; i < 25; ++i, ++flips_) scribbler_.scribble();
      ::usleep(100);
      for (int i = 0; i < kUsers; ++i) check(i);
    }
    for (const pid_t pid : pids_) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
  }

  std::uint64_t report(const char* name) {
    std::uint64_t calls = 0;
    for (const auto& count : ledger_.calls) calls += count.load();
    std::printf("%-9s %" PRIu64 " words overwritten, %" PRIu64 " calls; p99 of a few calls <= %" PRIu64
                " us, longest %" PRIu64 " us; %" PRIu64 " violations\n",
                name, flips_, calls, ledger_.turn_us.quantile(0.99), ledger_.turn_us.longest_us.load(),
                ledger_.violations.count.load());
    ledger_.violations.print();
    return ledger_.violations.count.load();
  }

 private:
  void start(int number) {
    const std::uint64_t seed = random_();
    pids_[number] = test::fork_bound([&] { use_anyhow(dict_, ledger_, number, seed); });
  }

  void check(int number) {
    int status = 0;
    if (::waitpid(pids_[number], &status, WNOHANG) != pids_[number]) return;
    const char* const call = ledger_.current[number].load();
    ledger_.violations.add("a process ended, in %s, %s %d", call != nullptr ? call : "no call",
                           WIFSIGNALED(status) ? "signal" : "status",
                           WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    start(number);
  }

  HostileLedger& ledger_;
  std::mt19937_64 random_;
  test::Dict dict_;
  Scribbler scribbler_;
  std::uint64_t flips_ = 0;
  pid_t pids_[kUsers] = {};
};

std::uint64_t run_in_child(std::uint64_t files, std::uint64_t seed) {
  auto& violations = make_shared_memory<Violations>();
  auto& opened = make_shared_memory<std::atomic<std::uint64_t>>();
  test::Child child([&](test::Channel&) {
    ::alarm(120);
    opened = open_damaged_files(files, seed, violations);
    return 0;
  });
  siginfo_t info{};
  ::waitid(P_PID, static_cast<id_t>(child.pid()), &info, WEXITED | WNOWAIT);
  if (const int status = child.wait(); status != 0)
    violations.add("opening damaged files ended with status %d", status);
  std::printf("%" PRIu64 " damaged files, %" PRIu64 " of them opened; %" PRIu64 " violations\n", files, opened.load(),
              violations.count.load());
  violations.print();
  return violations.count.load();
}

struct Settings {
  std::uint64_t seed = 0;
  std::uint64_t flips = 60'000;
  std::uint64_t files = 3'000;
  double seconds = 1;
};

int run(const Settings& settings) {
  const test::ScratchDirectory directory;
  std::uint64_t violations = run_in_child(settings.files, settings.seed);
  const std::uint64_t sizes[] = {65536, 9U << 20};
  const char* const names[] = {"1 shard", "8 shards"};
  for (int i = 0; i < 2; ++i) {
    std::fflush(stdout);
    Hostile hostile(sizes[i], settings.seed);
    hostile.run(settings.flips, settings.seconds);
    violations += hostile.report(names[i]);
  }
  return violations == 0 ? 0 : 1;
}

}  // namespace
}  // namespace holdfast::crash

int main(int argc, char** argv) {
  using namespace holdfast::crash;
  holdfast::test::RandomRun<Settings> app("Overwrites a dictionary that is in use, and opens damaged files");
  app.add_option("--flips", app.settings.flips, "minimum number of words to overwrite in each of two dictionaries");
  app.add_option("--files", app.settings.files, "number of damaged files to open");
  app.add_option("--seconds", app.settings.seconds, "minimum time for each dictionary");
  return app.run(argc, argv, run);
}
