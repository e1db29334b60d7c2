// Long tests of locks across machines: partitions, a slow disk, a stale leader, and finally all of these together.
#include <signal.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "etcd/etcd_server.h"
#include "etcd/proxy.h"
#include "service/machine.h"
#include "service/workers.h"
#include "support/clock.h"

namespace holdfast::test {
namespace {

using Random = std::mt19937_64;

int below(Random& random, int limit) { return static_cast<int>(random() % static_cast<std::uint64_t>(limit)); }

[[noreturn]] void fail(const std::string& what) { throw std::runtime_error(what); }
void demand(bool holds, const std::string& what) {
  if (!holds) fail(what);
}

int report(const std::vector<std::string>& errors) {
  for (const std::string& error : errors) std::printf("%s\n", error.c_str());
  return errors.empty() ? 0 : 1;
}

/// Machines, each of which has an agent and two workers.
class Fleet {
 public:
  Fleet(const std::vector<std::string>& urls, int ttl_s, const Work& work) : workers_(work) {
    for (const std::string& url : urls) {
      machines_.push_back(std::make_unique<Machine>(url, ttl_s));
      machines_.back()->start_agent();
      for (int n = 0; n < 2; ++n) workers_.start(*machines_.back(), static_cast<int>(machines_.size()) - 1);
    }
  }

  Machine& operator[](std::size_t index) { return *machines_[index]; }
  std::size_t size() const { return machines_.size(); }
  Workers& workers() { return workers_; }
  void demand_progress() {
    for (std::size_t i = 0; i < size(); ++i)
      demand(workers_.get_on(5, static_cast<int>(i)),
             "machine " + std::to_string(i) + " makes no progress; its agents said:\n" + machines_[i]->said());
  }

 private:
  std::vector<std::unique_ptr<Machine>> machines_;
  Workers workers_;
};

struct Settings {
  std::uint64_t seed = std::random_device()();
  int times = 50;
  double seconds = 60;
};

// --- partitions -----------------------------------------------------------------------------------------

/// A machine behind a proxy holds a lock for which a second machine waits.
struct Pair {
  Pair(EtcdServer& etcd, int number)
      : key("k" + std::to_string(number)), proxy(etcd.port()), holder(proxy.url(), 2), other(etcd.url(), 2) {}

  const std::string key;
  Proxy proxy;
  Peer holder;
  Peer other;
};

double seconds_of(const std::string& said, const std::string& expected) {
  if (!said.starts_with(expected)) fail("a program said \"" + said + "\": expected \"" + expected + "\"");
  return static_cast<double>(std::stoll(said.substr(said.rfind(' ')))) / 1e9;
}

/// Cuts off the holders. Returns, for each pair, the seconds from the moment when the holder notices the loss until the
/// other machine has the lock.
std::vector<double> cut_off_all(std::vector<std::unique_ptr<Pair>>& pairs, Random& random, double& longest) {
  for (const auto& pair : pairs)
    demand(pair->holder.lock(pair->key, 50) != 0, "the lock was not granted before a partition");
  sleep_ms(below(random, 700));  // until a random moment between two keepalives
  const double begin = static_cast<double>(platform::boottime_ns()) / 1e9;
  for (const auto& pair : pairs) {
    const int how = below(random, 3);
    how == 0 ? pair->proxy.hold() : how == 1 ? pair->proxy.cut() : pair->proxy.hold_answers();
    pair->holder.say("lose " + pair->key);
    pair->other.say("lock " + pair->key + " 50");
  }
  std::vector<double> gaps;
  for (const auto& pair : pairs) {
    const double lost = seconds_of(pair->holder.hear(), "lost ");
    const double got = seconds_of(pair->other.hear(), "ok ");
    gaps.push_back(got - lost);
    longest = std::max(longest, got - begin);
    pair->proxy.pass();
    demand(pair->other.ask("unlock " + pair->key) == "ok", "the lock was not kept after a partition");
  }
  return gaps;
}

int partitions(const Settings& settings) {
  constexpr int kPairs = 5;
  Random random(settings.seed);
  EtcdServer etcd;
  std::vector<std::unique_ptr<Pair>> pairs;
  for (int i = 0; i < kPairs; ++i) pairs.push_back(std::make_unique<Pair>(etcd, i));
  std::vector<double> gaps;
  double longest = 0;
  while (static_cast<int>(gaps.size()) < settings.times) {
    const std::vector<double> more = cut_off_all(pairs, random, longest);
    gaps.insert(gaps.end(), more.begin(), more.end());
  }
  std::sort(gaps.begin(), gaps.end());
  std::printf("%zu partitions, safety gap %.3f to %.3f s, median %.3f s; another machine had it after %.2f s at most\n",
              gaps.size(), gaps.front(), gaps.back(), gaps[gaps.size() / 2], longest);
  return gaps.front() > 0 ? 0 : 1;
}

// --- a slow disk ----------------------------------------------------------------------------------------

int slow_disk(const Settings& settings) {
  Random random(settings.seed);
  EtcdCluster cluster(EtcdCluster::Disks::slow);
  Work work;
  work.seed = settings.seed;
  work.keys = 3;
  Fleet fleet(std::vector<std::string>(3, joined(cluster.urls())), 10, work);
  fleet.demand_progress();
  const double end = now() + settings.seconds;
  while (now() < end) {
    constexpr int kDelays[] = {0, 0, 20, 100, 400, 1500};
    for (std::size_t i = 0; i < 3; ++i) cluster[i].disk().take(kDelays[below(random, 6)]);
    sleep_ms(500 + below(random, 1000));
  }
  int calls = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    cluster[i].disk().take(0);
    calls += cluster[i].disk().calls();
  }
  fleet.demand_progress();
  fleet.workers().end();
  const StoreHistory store = history_of(cluster[cluster.leader()]);
  const auto errors = fleet.workers().errors(store);
  const int status = report(errors);
  std::printf(
      "%.0f s, %d writes to disk late by up to 1.5 s, %zu sections, %zu transfers, %zu late writes refused; %zu "
      "violations\n",
      settings.seconds, calls, fleet.workers().sections().size(), store.transfers(), fleet.workers().refused(),
      errors.size());
  return calls > 0 ? status : 1;
}

// --- a stale leader -------------------------------------------------------------------------------------

// If a leader is stopped while the other members elect a new leader, it may end leases when it resumes, although the
// new leader has kept them alive. Then two machines may have the same lock, but the lock's tokens still put their
// writes into one order.
int stale_leader(const Settings& settings) {
  constexpr int kTtl = 3;
  Random random(settings.seed);
  EtcdCluster cluster;
  Work work;
  work.seed = settings.seed;
  work.keys = 2;
  Fleet fleet(std::vector<std::string>(3, joined(cluster.urls())), kTtl, work);
  for (int round = 0; round < settings.times; ++round) {
    const std::size_t leader = cluster.leader();
    cluster[leader].stop();
    sleep_ms(1000 * kTtl + 500 + below(random, 2000));
    fleet.demand_progress();
    cluster[leader].go_on();
    sleep_ms(1000 + below(random, 1000));
  }
  fleet.demand_progress();
  fleet.workers().end();
  const StoreHistory store = history_of(cluster[cluster.leader()]);
  const auto errors = fleet.workers().register_errors();
  const int status = report(errors);
  std::printf("%d stale leaders, %zu leases ended, %zu sections, %zu overlaps, %zu late writes refused, %zu accepted\n",
              settings.times, store.ended_leases(), fleet.workers().sections().size(),
              check_sections(fleet.workers().sections()).size(), fleet.workers().refused(), errors.size());
  return status;
}

// --- all faults ---------------------------------------------------------------------------------------------

/// A process's resources, as the kernel reports them.
struct Usage {
  std::size_t descriptors = 0;
  double megabytes = 0;

  static Usage of(pid_t pid) {
    const std::string folder = "/proc/" + std::to_string(pid);
    Usage usage;
    for ([[maybe_unused]] const auto& one : std::filesystem::directory_iterator(folder + "/fd")) ++usage.descriptors;
    long pages = 0;
    std::ifstream(folder + "/statm") >> pages >> pages;
    usage.megabytes = static_cast<double>(pages) * 4096 / 1e6;
    return usage;
  }
};

/// Machines behind proxies, under all kinds of faults. The first machine's agent is never killed, so that the test can
/// check whether it grows.
class Soak {
 public:
  explicit Soak(const Settings& settings) : random_(settings.seed), seconds_(settings.seconds) {
    std::vector<std::string> urls;
    for (int i = 0; i < 3; ++i) {
      proxies_.push_back(std::make_unique<Proxy>(etcd_.port()));
      urls.push_back(proxies_.back()->url());
    }
    Work work;
    work.seed = settings.seed;
    work.keys = 4;
    work.most = std::size_t{1} << 23;
    fleet_ = std::make_unique<Fleet>(urls, kTtl, work);
  }

  int run() {
    const double begin = now();
    Usage before;
    while (now() < begin + seconds_) {
      happen();
      calm_down();
      fleet_->demand_progress();
      // By now, the agent has seen each kind of fault.
      if (before.descriptors == 0 && now() > begin + seconds_ / 4) before = Usage::of((*fleet_)[0].agent().pid());
    }
    const Usage after = Usage::of((*fleet_)[0].agent().pid());
    Workers& workers = fleet_->workers();
    workers.end();
    const StoreHistory store = history_of(etcd_);
    std::vector<std::string> errors = workers.errors(store);
    end_agents(errors);
    const bool grows = after.descriptors > before.descriptors + 10 || after.megabytes > before.megabytes * 1.2 + 2;
    if (grows) errors.emplace_back("the agent's memory or descriptors grow");
    const int status = report(errors);
    std::printf(
        "%.0f s, %d troubles, %zu sections, %zu transfers, %zu late writes refused, %zu updates lost without "
        "fencing; the agent: %zu to %zu descriptors, %.1f to %.1f MB; %zu violations\n",
        seconds_, troubles_, workers.sections().size(), store.transfers(), workers.refused(),
        workers.lost_without_fencing(), before.descriptors, after.descriptors, before.megabytes, after.megabytes,
        errors.size());
    return status;
  }

 private:
  static constexpr int kTtl = 2;

  void happen() {
    ++troubles_;
    Workers& workers = fleet_->workers();
    const int machine = below(random_, static_cast<int>(fleet_->size()));
    Proxy& proxy = *proxies_[static_cast<std::size_t>(machine)];
    const std::function<void()> troubles[] = {
        [&] { proxy.hold(); },
        [&] { proxy.cut(); },
        [&] { proxy.hold_answers(); },
        [&] { proxy.delay(100 + below(random_, 500)); },
        [&] { proxy.repeat(); },
        [&] { proxy.reset(); },
        [&] {
          const std::size_t dead = workers.kill_inside();
          workers.start_again(dead, (*fleet_)[static_cast<std::size_t>(workers.machine_of(dead))]);
        },
        [&] { restart_agent(machine); },
        [&] { hang(); },
        [&] { etcd_.kill(), etcd_.start(); },
    };
    troubles[below(random_, static_cast<int>(std::size(troubles)))]();
  }

  void restart_agent(int machine) {
    Machine& restarted = (*fleet_)[static_cast<std::size_t>(std::max(machine, 1))];
    restarted.agent().kill_and_wait();
    sleep_ms(below(random_, 2) == 0 ? below(random_, 300) : below(random_, 4000));
    restarted.start_agent();
  }

  /// Stops a holder and its agent for longer than the lease.
  void hang() {
    Workers& workers = fleet_->workers();
    const std::size_t stopped = workers.stop_inside();
    Child& agent = (*fleet_)[static_cast<std::size_t>(workers.machine_of(stopped))].agent();
    agent.stop();
    sleep_ms(1000 * kTtl + below(random_, 2000));
    agent.signal(SIGCONT);
    demand(workers.go_on(stopped), "a stopped worker did not continue");
  }

  void calm_down() {
    sleep_ms(below(random_, 3000));
    for (const auto& proxy : proxies_) proxy->pass();
  }

  void end_agents(std::vector<std::string>& errors) {
    for (std::size_t i = 0; i < fleet_->size(); ++i) {
      (*fleet_)[i].agent().signal(SIGTERM);
      if (const int status = (*fleet_)[i].agent().wait(); status != 0)
        errors.push_back("an agent ended with " + std::to_string(status));
    }
    if (!eventually([&] { return etcd_.count(std::string(kSpace) + "/") == 0; }))
      errors.emplace_back("the store still has keys of machines that are gone");
  }

  Random random_;
  const double seconds_;
  EtcdServer etcd_;
  std::vector<std::unique_ptr<Proxy>> proxies_;
  std::unique_ptr<Fleet> fleet_;
  int troubles_ = 0;
};

int soak(const Settings& settings) { return Soak(settings).run(); }

int run(int argc, char** argv) {
  CLI::App app("Long tests of locks across machines");
  Settings settings;
  app.add_option("--seed", settings.seed, "repeat a run's random choices, but not the races of its processes");
  std::function<int(const Settings&)> chosen;
  const auto add = [&](const char* name, const char* what, int (*body)(const Settings&)) {
    CLI::App* const part = app.add_subcommand(name, what);
    part->callback([&chosen, body] { chosen = body; });
    return part;
  };
  const auto timed = [&](CLI::App* part) { part->add_option("--seconds", settings.seconds, "length of the run"); };
  const auto counted = [&](CLI::App* part) { part->add_option("--times", settings.times, "how often"); };
  counted(add("partitions", "cut holders off, and measure how long nobody has their locks", partitions));
  timed(add("slow_disk", "give etcd slow disks", slow_disk));
  counted(add("stale_leader", "stop leaders of etcd, and let them resume", stale_leader));
  timed(add("soak", "apply all faults repeatedly", soak));
  app.require_subcommand(1);
  app.fallthrough();
  CLI11_PARSE(app, argc, argv);
  std::printf("seed %" PRIu64 "\n", settings.seed);
  std::fflush(stdout);  // otherwise, children print the buffered text again
  return chosen(settings);
}

}  // namespace
}  // namespace holdfast::test

int main(int argc, char** argv) try { return holdfast::test::run(argc, argv); } catch (const std::exception& error) {
  std::printf("%s\n", error.what());
  return 1;
}
