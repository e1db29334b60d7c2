// The parts that the kill storms share: the processes that are killed and replaced, the length of the run, and the
// command line.
#pragma once

#include <signal.h>
#include <sys/wait.h>

#include <cstdio>
#include <functional>
#include <vector>

#include "crash/ledger.h"
#include "platform/platform.h"
#include "support/process.h"
#include "support/random_run.h"

namespace holdfast::crash {

/// The processes of a storm, by number.
class Kills {
 public:
  Kills(Violations& violations, int processes) : violations_(violations), pids_(processes) {}

  void start(int number, const std::function<void()>& body) {
    pids_[static_cast<std::size_t>(number)] = test::fork_bound(body);
  }
  void kill(int number) {
    const pid_t pid = pids_[static_cast<std::size_t>(number)];
    ::kill(pid, SIGKILL);
    int status = 0;
    ::waitpid(pid, &status, 0);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
      violations_.add("a process ended by itself with status %d", status);
    ++count_;
  }
  int count() const { return count_; }

  /// Returns the number of seconds since the storm began.
  double spent() const { return static_cast<double>(platform::monotonic_ns() - begin_ns_) / 1e9; }
  /// Returns whether to continue. The storm lasts for `seconds`, or longer, until there were `at_least` kills. A
  /// violation ends the storm.
  bool goes_on(double seconds, int at_least) const {
    return violations_.count.load() == 0 && (spent() < seconds || (count_ < at_least && spent() < 8 * seconds));
  }
  /// Adds a violation if no process makes progress. `calls` is the number of calls that all processes have made; it
  /// grows while any process makes progress.
  void check_progress(std::uint64_t calls) {
    const std::uint64_t now = platform::monotonic_ns();
    if (calls != last_calls_) {
      last_calls_ = calls;
      progress_ns_ = now;
    } else if (now - progress_ns_ > kStallNs) {
      violations_.add("no process makes progress");
    }
  }

 private:
  static constexpr std::uint64_t kStallNs = 20 * kNsPerSecond;

  Violations& violations_;
  std::vector<pid_t> pids_;
  int count_ = 0;
  const std::uint64_t begin_ns_ = platform::monotonic_ns();
  std::uint64_t last_calls_ = 0;
  std::uint64_t progress_ns_ = begin_ns_;
};

struct StormSettings {
  std::uint64_t seed = 0;
  double seconds = 12;
  int at_least = 0;
};

struct StormEnd {
  int kills = 0;
  std::uint64_t violations = 0;
};

/// The main function of a storm. Fails if there were fewer kills than `at_least`.
inline int main_of_storm(int argc, char** argv, const char* what, int at_least,
                         const std::function<StormEnd(const StormSettings&)>& storm) {
  test::RandomRun<StormSettings> app(what);
  app.settings.at_least = at_least;
  app.add_option("--seconds", app.settings.seconds, "minimum length of the run");
  app.add_option("--at-least", app.settings.at_least, "minimum number of kills for the run to succeed");
  return app.run(argc, argv, [&](const StormSettings& settings) {
    const test::ScratchDirectory directory;
    const StormEnd end = storm(settings);
    std::printf("%d kills, %llu violations\n", end.kills, static_cast<unsigned long long>(end.violations));
    if (end.kills < settings.at_least) std::printf("fewer than %d kills\n", settings.at_least);
    return end.violations == 0 && end.kills >= settings.at_least ? 0 : 1;
  });
}

}  // namespace holdfast::crash
