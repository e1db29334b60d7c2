// Makes millions of changes to a full dictionary. The values are 1 byte to 64 KB long, in changing mixes; a few take a
// quarter of a shard. A set must never fail, the share of memory in use must not shrink, and every value that is read
// must be complete.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "support/dict.h"
#include "support/process.h"
#include "support/random_run.h"
#include "support/shard_check.h"

namespace holdfast {
namespace {

struct Mix {
  const char* name;
  std::size_t shortest;
  std::size_t longest;  // maximum; up to it, all powers of two are equally likely
};
constexpr Mix kMixes[] = {
    {"1 to 64", 1, 64},
    {"1 to 65536", 1, 65536},
    {"100 to 2000", 100, 2000},
    {"16 to 256", 16, 256},
    {"2000 to 65536", 2000, 65536},
    {"8", 8, 8},
    {"30000 to 65536", 30000, 65536},
    {"1 to 4096", 1, 4096},
};

struct Settings {
  std::uint64_t seed = 0;
  std::uint64_t operations = 10'000'000;
  std::uint64_t size = 32U << 20;
  std::uint64_t laps = 2;  // how often each mix runs
  double least = 0.80;     // minimum share of the arenas that live entries take
};

/// Returns the byte that fills a value. The byte depends on the value's key and length.
char filler(std::uint64_t number, std::size_t size) { return static_cast<char>('!' + (number * 31 + size) % 90); }

class Churn {
 public:
  explicit Churn(const Settings& settings)
      : settings_(settings), random_(settings.seed), dict_("churn", {.size = settings.size}) {
    if (dict_.status != HOLDFAST_OK) {
      fail(holdfast_error());
      return;
    }
    const Geometry& geometry = dict_.segment().geometry();
    granules_ = std::uint64_t{geometry.granules - 1} * geometry.shards;
    quarter_ = geometry.granules / 4 * kGranule - sizeof(Entry) - 32;
    buffer_.resize(quarter_ + 65536);
    value_.resize(quarter_ + 65536);
  }

  int run() {
    fill_up();
    const std::uint64_t turns = std::size(kMixes) * settings_.laps;
    for (std::uint64_t turn = 0; turn < turns && problems_ == 0; ++turn) take_turn(turn);
    check_drift();
    const std::string problem = test::check_segment(dict_.segment());
    if (!problem.empty()) fail(problem);
    for (const Shard& shard : dict_.segment().shards())
      if (shard.header().repairs.load() != 0) fail("a shard had to be repaired although no process died");
    if (problems_ == 0)
      std::printf("least live memory %.1f %%; first lap %.1f %%, last %.1f %%\n", 100 * least_, 100 * averages_.front(),
                  100 * averages_.back());
    return problems_ == 0 ? 0 : 1;
  }

 private:
  static constexpr std::uint64_t kChecks = 50;  // checks of the live memory in each turn

  void fail(const std::string& what) {
    if (++problems_ <= 10) std::printf("FAILED: %s\n", what.c_str());
  }

  std::size_t size_of(const Mix& mix) {
    if (random_() % 5000 == 0) return quarter_ - random_() % 1000;
    const double low = std::log2(static_cast<double>(mix.shortest));
    const double high = std::log2(static_cast<double>(mix.longest));
    const double at = std::uniform_real_distribution<double>(low, high)(random_);
    return std::clamp(static_cast<std::size_t>(std::exp2(at)), mix.shortest, mix.longest);
  }

  static std::uint64_t mean(const Mix& mix) {
    const auto shortest = static_cast<double>(mix.shortest);
    const auto longest = static_cast<double>(mix.longest);
    return static_cast<std::uint64_t>(longest > shortest ? (longest - shortest) / std::log(longest / shortest)
                                                         : longest);
  }

  /// Returns a key. Each turn has new keys, so that old entries are evicted, not overwritten by smaller ones.
  std::string key_of(std::uint64_t number) const { return std::to_string(turn_) + "-" + std::to_string(number); }

  void set(std::uint64_t number, std::size_t size) {
    const std::string key = key_of(number);
    std::memset(value_.data(), filler(number, size), size);
    const int code = dict_.set(key, {value_.data(), size});
    if (code != HOLDFAST_OK) fail("set of " + std::to_string(size) + " bytes: " + holdfast_code_text(code));
  }

  void get(std::uint64_t number) {
    const std::string key = key_of(number);
    holdfast_value value{};
    value.data = buffer_.data();
    value.capacity = buffer_.size();
    const int code = holdfast_get(dict_.handle, key.data(), key.size(), &value);
    if (code == HOLDFAST_NOT_FOUND) return;
    const char expected = filler(number, value.size);
    if (code != HOLDFAST_OK || std::any_of(value.data, value.data + value.size, [&](char c) { return c != expected; }))
      fail("get of " + key + ": not the value that was stored");
  }

  /// Returns the share of the arenas that live entries take. All entries are live, because none has an exptime.
  double live() {
    std::uint64_t free = 0;
    for (Shard& shard : dict_.segment().shards()) free += shard.free_granules();
    return 1 - static_cast<double>(free) / static_cast<double>(granules_);
  }

  bool is_full() {
    const auto& shards = dict_.segment().shards();
    return std::all_of(shards.begin(), shards.end(),
                       [](const Shard& shard) { return shard.header().evictions.load() != 0; });
  }

  void fill_up() {
    for (std::uint64_t i = 0; !is_full() && problems_ == 0; ++i) set(i, size_of(kMixes[1]));
  }

  void step(const Mix& mix, std::uint64_t keys) {
    // Some keys are used far more often than others.
    const double share = std::uniform_real_distribution<double>(0, 1)(random_);
    const auto number = static_cast<std::uint64_t>(share * share * share * static_cast<double>(keys));
    const std::uint64_t kind = random_() % 100;
    if (kind < 60) return set(number, size_of(mix));
    if (kind < 97) return get(number);
    dict_.remove(key_of(number));
  }

  void take_turn(std::uint64_t turn) {
    turn_ = turn + 1;
    const Mix& mix = kMixes[turn % std::size(kMixes)];
    const std::uint64_t steps = settings_.operations / settings_.laps / std::size(kMixes);
    const std::uint64_t keys = 5 * settings_.size / (mean(mix) + 64);  // several times the number of keys that fit
    const auto begin = std::chrono::steady_clock::now();
    double sum = 0;
    double least = 1;
    for (std::uint64_t i = 0; i < steps && problems_ == 0; ++i) {
      step(mix, keys);
      if (i % (steps / kChecks + 1) != 0) continue;
      const double now = live();
      sum += now;
      least = std::min(least, now);
      ++checks_;
      if (now < settings_.least) fail("only " + std::to_string(100 * now) + " % of the memory is live");
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    std::printf("%-16s live at least %.1f %%, %4.2f us per operation\n", mix.name, 100 * least,
                1e6 * seconds.count() / static_cast<double>(steps));
    std::fflush(stdout);
    least_ = std::min(least_, least);
    if (turn % std::size(kMixes) == 0) averages_.push_back(0);
    averages_.back() += sum / static_cast<double>(checks_) / std::size(kMixes);
    checks_ = 0;
  }

  void check_drift() {
    if (problems_ == 0 && averages_.back() < averages_.front() - 0.02) fail("the share of live memory shrinks");
  }

  const Settings settings_;
  std::mt19937_64 random_;
  test::Dict dict_;
  std::uint64_t granules_ = 0;
  std::size_t quarter_ = 0;
  std::vector<char> buffer_;
  std::vector<char> value_;
  std::uint64_t problems_ = 0;
  std::uint64_t turn_ = 0;
  std::uint64_t checks_ = 0;
  double least_ = 1;
  std::vector<double> averages_;  // averages of the live memory, one per lap
};

}  // namespace
}  // namespace holdfast

int main(int argc, char** argv) {
  holdfast::test::RandomRun<holdfast::Settings> app(
      "Changes a full dictionary over and over, and checks that its memory stays in use");
  app.add_option("--operations", app.settings.operations, "number of operations")->check(CLI::Range(1000UL, ~0UL));
  app.add_option("--size", app.settings.size, "bytes of the dictionary")->check(CLI::Range(1UL << 20, 1UL << 34));
  app.add_option("--laps", app.settings.laps, "how often each mix of sizes runs")->check(CLI::Range(1, 1000));
  app.add_option("--least", app.settings.least, "share of the memory that live entries must always take");
  return app.run(argc, argv, [](const holdfast::Settings& settings) {
    const holdfast::test::ScratchDirectory directory;
    return holdfast::Churn(settings).run();
  });
}
