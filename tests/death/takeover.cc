// Repeatedly kills the holder of a key for which ten other processes wait. Only one of them at a time may have the key.
// Reports the time from each kill until the first of them has the key.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <random>
#include <vector>

#include "crash/ledger.h"
#include "death/contender.h"
#include "platform/platform.h"
#include "support/random_run.h"
#include "world/world.h"

namespace holdfast::test {
namespace {

constexpr int kWaiters = 10;

struct Settings {
  std::uint64_t seed = 0;
  std::size_t kills = 1000;
  double seconds = 300;
};

/// The state that the processes of a run share, outside the dictionary.
struct Ledger {
  std::atomic<std::uint64_t> inside;    // token of the process in the critical section, or 0
  std::atomic<std::uint64_t> doomed;    // token of the process to be killed inside
  std::atomic<std::uint64_t> first_ns;  // when the first process after the kill entered
  std::atomic<std::uint32_t> entered;
  crash::Violations violations;
};

class Takeover {
 public:
  Takeover(const Way& way, std::uint64_t seed)
      : way_(way),
        random_(seed),
        ledger_(crash::make_shared_memory<Ledger>()),
        dict_(std::string("takeover-") + way.name) {
    for (int i = 0; i < kWaiters + 1; ++i) processes_.push_back(start());
  }
  ~Takeover() {
    const std::string name = dict_.dictionary().name();
    holdfast_remove(name.data(), name.size());
  }
  Takeover(const Takeover&) = delete;
  Takeover& operator=(const Takeover&) = delete;

  /// Kills at most `kills` processes, and stops after about `seconds`.
  void run(std::size_t kills, double seconds) {
    const double end = now() + seconds;
    while (times_ms_.size() < kills && now() < end && ledger_.violations.count.load() == 0) kill_one();
  }

  /// Returns the number of violations.
  std::uint64_t report() {
    std::sort(times_ms_.begin(), times_ms_.end());
    const auto quantile = [this](double part) {
      const auto rank = static_cast<std::size_t>(part * static_cast<double>(times_ms_.size()));
      return times_ms_.empty() ? 0.0 : times_ms_[std::min(rank, times_ms_.size() - 1)];
    };
    std::printf("%-10s %5zu kills with %d waiters; taken over after p50 %.2f ms, p99 %.2f ms, max %.2f ms; %" PRIu64
                " violations\n",
                way_.name, times_ms_.size(), kWaiters, quantile(0.5), quantile(0.99), quantile(1),
                ledger_.violations.count.load());
    ledger_.violations.print();
    return ledger_.violations.count.load() + (times_ms_.empty() ? 1 : 0);
  }

 private:
  void enter(const holdfast_lease& lease, bool dies_inside) {
    const std::uint64_t before = ledger_.inside.exchange(lease.owner);
    const std::uint64_t doomed = ledger_.doomed.load();
    if (before != 0 && before != doomed) ledger_.violations.add("two processes hold the key");
    if (before != 0 && (*World::current())->judge(before) == Liveness::alive)
      ledger_.violations.add("the key was taken from a live process");
    if (dies_inside) return ledger_.doomed.store(lease.owner);
    std::uint64_t nobody = 0;
    ledger_.first_ns.compare_exchange_strong(nobody, platform::monotonic_ns());
    ledger_.entered.fetch_add(1);
    sleep_ms(static_cast<int>(lease.sequence % 2));  // sometimes long enough for other processes to run
    std::uint64_t self = lease.owner;
    if (!ledger_.inside.compare_exchange_strong(self, 0))
      ledger_.violations.add("another process entered at the same time");
  }

  std::unique_ptr<Child> start() {
    return std::make_unique<Child>([this](Channel& channel) {
      Contender contender(way_, dict_);
      for (;;) {
        const std::string order = channel.hear();
        if (order == "hold") {
          if (contender.take() != HOLDFAST_OK) ledger_.violations.add("a free key cannot be taken");
          enter(contender.lease(), true);
          channel.say("holds");
        } else if (order == "wait") {
          channel.say(outcome(contender.queue()));
          const int code = contender.wait(kLong);
          if (code != HOLDFAST_OK) ledger_.violations.add("a waiter gets %s", holdfast_code_text(code));
          enter(contender.lease(), false);
          if (contender.release() != HOLDFAST_OK) ledger_.violations.add("a granted key is not held");
          channel.say("served");
        } else {
          return 0;
        }
      }
    });
  }

  static void expect(Child& child, const std::string& wanted, Ledger& ledger) {
    const std::string answer = child.hear();
    if (answer != wanted) ledger.violations.add("a process says %s instead of %s", answer.c_str(), wanted.c_str());
  }

  void kill_one() {
    std::shuffle(processes_.begin(), processes_.end(), random_);
    Child& doomed = *processes_.back();
    doomed.say("hold");
    expect(doomed, "holds", ledger_);
    for (int i = 0; i < kWaiters; ++i) {
      processes_[i]->say("wait");
      expect(*processes_[i], kLocked, ledger_);
    }
    // The sleep is random, so that the kill can come at any moment between two polls of the waiters.
    ::usleep(static_cast<useconds_t>(random_() % 20'000));
    ledger_.first_ns.store(0);
    ledger_.entered.store(0);
    const std::uint64_t killed = platform::monotonic_ns();
    doomed.kill();
    for (int i = 0; i < kWaiters; ++i) expect(*processes_[i], "served", ledger_);
    if (ledger_.entered.load() != kWaiters) ledger_.violations.add("%u processes got the key", ledger_.entered.load());
    if (ledger_.first_ns.load() < killed) ledger_.violations.add("a live holder lost the key");
    times_ms_.push_back(static_cast<double>(ledger_.first_ns.load() - killed) / 1e6);
    if (doomed.wait() != 128 + SIGKILL) ledger_.violations.add("the holder ended by itself");
    processes_.back() = start();
  }

  const Way& way_;
  std::mt19937_64 random_;
  Ledger& ledger_;
  Dict dict_;
  std::vector<std::unique_ptr<Child>> processes_;
  std::vector<double> times_ms_;
};

int run(const Settings& settings) {
  std::uint64_t violations = 0;
  const double share = settings.seconds / static_cast<double>(std::size(kExclusiveWays));
  for (const Way& way : kExclusiveWays) {
    Takeover takeover(way, settings.seed);
    takeover.run(settings.kills, share);
    violations += takeover.report();
    std::fflush(stdout);
  }
  return violations == 0 ? 0 : 1;
}

}  // namespace
}  // namespace holdfast::test

int main(int argc, char** argv) {
  using namespace holdfast::test;
  RandomRun<Settings> app("Kill holders of a key for which others wait, and measure when the next process gets it");
  app.add_option("--kills", app.settings.kills, "maximum number of kills of each primitive");
  app.add_option("--seconds", app.settings.seconds,
                 "approximate time for all primitives together; the run then ends, even with fewer kills");
  return app.run(argc, argv, run);
}
