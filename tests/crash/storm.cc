// The kill storm. Workers change one dictionary in every possible way. Every few milliseconds, a random worker is
// killed and replaced. The invariants are checked continuously.
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <random>

#include "crash/kills.h"
#include "crash/storm.h"
#include "crash/storm_pool.h"
#include "dict/guard.h"
#include "platform/platform.h"
#include "support/shard_check.h"

namespace holdfast::crash {
namespace {

struct Shape {
  const char* name;
  std::uint64_t size;
  holdfast_mutex mutex;
  double share;  // its share of the running time
  bool evicts = false;
};
constexpr Shape kShapes[] = {
    {"futex, 1 shard", 262144, HOLDFAST_MUTEX_FUTEX, 0.3},
    {"futex, 8 shards", 9 << 20, HOLDFAST_MUTEX_FUTEX, 0.2},
    {"futex, hardly any memory", 12288, HOLDFAST_MUTEX_FUTEX, 0.2, true},
    {"spin, 1 shard", 262144, HOLDFAST_MUTEX_SPIN, 0.15},
    {"file, 1 shard", 262144, HOLDFAST_MUTEX_FILE, 0.15},
};

class Storm {
 public:
  Storm(const Shape& shape, std::uint64_t seed)
      : shape_(shape),
        random_(seed),
        ledger_(make_shared_memory<Ledger>()),
        dict_("storm-" + std::to_string(shape.size) + "-" + std::to_string(shape.mutex),
              {.size = shape.size, .mutex = shape.mutex}) {
    if (dict_.status != HOLDFAST_OK) ledger_.violations.add("open: %s", holdfast_error());
    free_at_first_ = dict_.free_space();
    ledger_.evicts = shape_.evicts;
    for (int i = 0; i < kCounters; ++i) dict_.set_number(counter_key(i), 0);
  }

  void run(double seconds, int at_least) {
    for (int i = 0; i < kWorkers; ++i) start(i);
    while (kills_.goes_on(seconds, at_least)) {
      ::usleep(static_cast<useconds_t>(1000 + random_() % 2000));
      const int victim = static_cast<int>(random_() % kWorkers);
      stop(victim);
      start(victim);
      check_counters(kWorkers);
      kills_.check_progress(calls());
    }
    for (int i = 0; i < kWorkers; ++i) stop(i);
    settle();
    seconds_ = kills_.spent();
  }

  /// Returns the number of violations.
  std::uint64_t report() {
    std::uint64_t sections = 0;
    for (const Section& section : ledger_.sections) sections += section.entered.load();
    std::uint64_t grants = 0;
    std::uint64_t checks = 0;
    for (const Pool& pool : ledger_.pools) {
      grants += pool.grants.load();
      checks += pool.checks.load();
    }
    std::printf("%-25s %5d kills, %8" PRIu64 " calls, %6u list elements, %6" PRIu64 " critical sections, %6" PRIu64
                " grants of permits (%" PRIu64 " sums), %4" PRIu64 " repairs; lock taken from the dead %4" PRIu64
                " times, p50 <= %" PRIu64 " us, p99 <= %" PRIu64 " us, max %" PRIu64 " us; %" PRIu64
                " violations; %.1f s\n",
                shape_.name, kills(), calls(), ledger_.next_element.load(), sections, grants, checks, repairs_,
                ledger_.takeovers.load(), ledger_.takeover_us.quantile(0.5), ledger_.takeover_us.quantile(0.99),
                ledger_.takeover_us.longest_us.load(), ledger_.violations.count.load(), seconds_);
    ledger_.violations.print();
    return ledger_.violations.count.load();
  }

  int kills() const { return kills_.count(); }

 private:
  void start(int number) {
    Worker& worker = ledger_.workers[static_cast<std::size_t>(number)];
    const std::uint64_t life = worker.life.fetch_add(1) + 1;
    const std::uint64_t seed = random_();
    kills_.start(number, [&] { work(dict_, ledger_, number, life, seed); });
  }

  void stop(int number) {
    Worker& worker = ledger_.workers[static_cast<std::size_t>(number)];
    worker.killed_at_ns[worker.life.load() % kLivesKept].store(platform::monotonic_ns());
    kills_.kill(number);
    if (const std::uint32_t counter = worker.in_flight.exchange(0); counter != 0)
      ledger_.maybe[counter - 1].fetch_add(1);
    if (worker.popping.exchange(0) != 0) ledger_.pops_cut_short.fetch_add(1);
  }

  std::uint64_t acknowledged(std::size_t counter) const {
    std::uint64_t sum = 0;
    for (const Worker& worker : ledger_.workers) sum += worker.acknowledged[counter].load();
    return sum;
  }

  /// `unsure` is the number of calls that may have changed the counter without recording the change in the ledger.
  void check_counters(std::uint64_t unsure) {
    if (shape_.evicts) return;
    for (std::size_t i = 0; i < kCounters; ++i) {
      const std::uint64_t least = acknowledged(i);
      const test::Got got = dict_.get(counter_key(static_cast<int>(i)));
      const std::uint64_t most = acknowledged(i) + ledger_.maybe[i].load() + unsure;
      const auto value = static_cast<std::uint64_t>(got.number);
      if (got.code != HOLDFAST_OK || value < least || value > most)
        ledger_.violations.add("%s: code %d, value %" PRIu64 ", acknowledged %" PRIu64 " to %" PRIu64,
                               counter_key(static_cast<int>(i)).c_str(), got.code, value, least, most);
    }
  }

  /// Pops all elements that remain in the lists. Each pushed element must have been popped exactly once, except for
  /// elements that a process had just popped when it died.
  void empty_lists() {
    for (int i = 0; i < kLists; ++i) {
      const std::string key = list_key(i);
      int left = dict_.llen(key);
      for (test::Got got = dict_.pop(key, left % 2); got.code == HOLDFAST_OK; got = dict_.pop(key, left % 2)) {
        take_element(ledger_, key, got);
        --left;
      }
      if (left != 0) ledger_.violations.add("%s has %d elements fewer than its length says", key.c_str(), left);
    }
    std::uint64_t lost = 0;
    for (std::uint32_t id = 0; id < std::min(ledger_.next_element.load(), kElements); ++id) {
      const std::uint8_t state = ledger_.elements[id].load();
      if ((state & Element::kPushed) != 0 && (state & Element::kTaken) == 0) ++lost;
    }
    if (!shape_.evicts && lost > ledger_.pops_cut_short.load())
      ledger_.violations.add("%" PRIu64 " elements lost, although only %" PRIu64 " processes died in a pop", lost,
                             ledger_.pops_cut_short.load());
  }

  std::uint64_t calls() const {
    std::uint64_t calls = 0;
    for (const Worker& worker : ledger_.workers) calls += worker.calls.load();
    return calls;
  }

  /// Checks, when all workers are dead, that the dictionary is intact and returns all its memory.
  void settle() {
    for (Shard& shard : dict_.segment().shards()) {
      const ShardGuard guard(shard);
      if (!guard.held()) ledger_.violations.add("the mutex of a dead process cannot be taken");
    }
    const std::string problem = test::check_segment(dict_.segment());
    if (!problem.empty()) ledger_.violations.add("at the end: %s", problem.c_str());
    check_counters(0);
    empty_lists();
    check_pools(dict_, ledger_);
    for (const std::string& key : dict_.keys()) {
      if (key.compare(0, 5, "value") != 0) continue;
      if (const test::Got got = dict_.get(key); got.code == HOLDFAST_OK && !is_value_of(key, got.text))
        ledger_.violations.add("%s has a torn value at the end", key.c_str());
    }
    for (Shard& shard : dict_.segment().shards()) repairs_ += shard.header().repairs.load();
    for (int i = 0; i < kValues; ++i) dict_.remove(value_key(i));
    for (int i = 0; i < kCounters; ++i) dict_.remove(counter_key(i));
    for (int i = 0; i < kLocks; ++i) dict_.remove(lock_key(i));
    for (int i = 0; i < 2; ++i) dict_.remove(lease_key(i));
    if (dict_.free_space() != free_at_first_)
      ledger_.violations.add("%" PRIu64 " bytes free at the end, %" PRIu64 " at first", dict_.free_space(),
                             free_at_first_);
    const std::string name = dict_.dictionary().name();
    holdfast_remove(name.data(), name.size());
  }

  const Shape& shape_;
  std::mt19937_64 random_;
  Ledger& ledger_;
  test::Dict dict_;
  std::uint64_t free_at_first_ = 0;
  Kills kills_{ledger_.violations, kWorkers};
  std::uint64_t repairs_ = 0;
  double seconds_ = 0;
};

StormEnd run(const StormSettings& settings) {
  StormEnd end;
  for (const Shape& shape : kShapes) {
    std::fflush(stdout);
    Storm storm(shape, settings.seed);
    storm.run(settings.seconds * shape.share, static_cast<int>(settings.at_least * shape.share) + 1);
    end.violations += storm.report();
    end.kills += storm.kills();
  }
  return end;
}

}  // namespace
}  // namespace holdfast::crash

int main(int argc, char** argv) {
  return holdfast::crash::main_of_storm(
      argc, argv, "Kill processes that use a dictionary, and check that other processes notice nothing", 500,
      holdfast::crash::run);
}
