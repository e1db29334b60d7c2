// Checks every state in which a killed process can leave a dictionary. Runs each operation one instruction at a time,
// and checks each distinct image of the segment as if the process had died there.
#include <cstdio>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "crash/judge.h"
#include "crash/scenario.h"
#include "crash/victim.h"
#include "dict/guard.h"
#include "support/process.h"
#include "support/random_run.h"

namespace holdfast::crash {
namespace {

struct Settings {
  std::uint64_t seed = 0;
  std::uint64_t size = 12288;
  bool versions = false;
  int rounds = 1;
  int repairs = 10;               // number of images per round whose repair is also stepped through
  std::uint64_t at_least = 2000;  // the run fails with fewer distinct images
  bool expect_violations = false;
  std::string only;          // steps only operations with this text in "STATE: NAME"
  std::uint64_t one_in = 1;  // steps one in this many operations, chosen at random
};

class Enumeration {
 public:
  explicit Enumeration(const Settings& settings)
      : settings_(settings),
        random_(settings.seed),
        victim_(settings.size, random_(), settings.versions),
        judge_(victim_, true) {}

  void run() {
    for (int round = 0; round < settings_.rounds; ++round) {
      to_repair_.clear();
      locked_images_ = 0;
      const std::vector<State> states = make_states(victim_, random_);
      for (const State& state : states)
        for (const auto make : {make_scenarios, make_permits_scenarios})
          for (const Scenario& scenario : make(victim_, state, random_)) {
            const std::string name = state.name + ": " + scenario.name;
            if (name.find(settings_.only) == std::string::npos || random_() % settings_.one_in != 0) continue;
            step(state, scenario);
            if (settings_.expect_violations && judge_.violations() > 0) return;
          }
      for (const ToRepair& one : to_repair_) step_repair(one);
    }
  }

  const Judge& judge() const { return judge_; }
  std::uint64_t instructions() const { return instructions_; }
  int runs() const { return runs_; }
  int skipped() const { return skipped_; }
  int repairs() const { return repairs_; }

 private:
  struct ToRepair {
    std::string name;
    const State* state;
    std::string key;
    Image image;
  };

  std::vector<Image> images_of(const std::function<void()>& prepare, const std::function<int()>& run, Stepped& result) {
    std::vector<Image> images = step_images(prepare, run, {victim_.bytes(), victim_.size()}, victim_.size(), result);
    instructions_ += result.instructions;
    return images;
  }

  void step(const State& state, const Scenario& scenario) {
    victim_.put(state.image);
    Stepped result;
    const std::vector<Image> images = images_of(scenario.prepare, scenario.run, result);
    if (images.empty() && result.status == kSkip) {
      ++skipped_;
      return;
    }
    ++runs_;
    if (!result.problem.empty()) return judge_.fail(state.name + ": " + scenario.name + ": " + result.problem);
    judge_.judge(scenario.name + " " + scenario.key, state, scenario.key, images, result.start_ns);
    if (result.status == HOLDFAST_SYSTEM || result.status == HOLDFAST_BUSY || result.status == HOLDFAST_CORRUPT ||
        result.status == HOLDFAST_TIMEOUT)
      judge_.fail(std::string("the operation returned ") + holdfast_code_text(result.status));
    for (const Image& image : images)
      if (victim_.is_locked(image)) sample({scenario.name, &state, scenario.key, image});
  }

  /// Keeps a random selection of all images that were passed to it.
  void sample(const ToRepair& one) {
    const auto most = static_cast<std::size_t>(settings_.repairs);
    const std::uint64_t at = random_() % ++locked_images_;
    if (to_repair_.size() < most)
      to_repair_.push_back(one);
    else if (at < most)
      to_repair_[at] = one;
  }

  void step_repair(const ToRepair& wanted) {
    ++repairs_;
    victim_.put(wanted.image);
    Stepped result;
    const std::vector<Image> images = images_of([&] { victim_.dict().get("enters the world"); },
                                                [&] {
                                                  const ShardGuard guard(victim_.segment().shards()[0], 0);
                                                  return guard.held() ? 0 : 1;
                                                },
                                                result);
    if (!result.problem.empty() || result.status != 0)
      return judge_.fail("repair of " + wanted.name + ": " + result.problem + " status " +
                         std::to_string(result.status));
    judge_.judge_repair(wanted.name, *wanted.state, wanted.key, images, result.start_ns);
  }

  const Settings settings_;
  Random random_;
  Victim victim_;
  Judge judge_;
  std::vector<ToRepair> to_repair_;
  std::uint64_t locked_images_ = 0;
  std::uint64_t instructions_ = 0;
  int runs_ = 0;
  int skipped_ = 0;
  int repairs_ = 0;
};

int run(const Settings& settings) {
  const test::ScratchDirectory directory;
  const double start = holdfast_now();
  Enumeration enumeration(settings);
  enumeration.run();
  const Judge& judge = enumeration.judge();
  std::printf(
      "%d operations and %d repairs (%d skipped), %llu instructions: %llu images, %llu distinct; %llu violations; %.1f "
      "s\n",
      enumeration.runs(), enumeration.repairs(), enumeration.skipped(),
      static_cast<unsigned long long>(enumeration.instructions()), static_cast<unsigned long long>(judge.images()),
      static_cast<unsigned long long>(judge.distinct()), static_cast<unsigned long long>(judge.violations()),
      holdfast_now() - start);
  if (settings.expect_violations) return judge.violations() > 0 ? 0 : 1;
  if (judge.distinct() < settings.at_least) {
    std::printf("fewer than %llu distinct images\n", static_cast<unsigned long long>(settings.at_least));
    return 1;
  }
  return judge.violations() == 0 ? 0 : 1;
}

}  // namespace
}  // namespace holdfast::crash

int main(int argc, char** argv) {
  holdfast::test::RandomRun<holdfast::crash::Settings> app(
      "Single-step every operation, and judge each image of the segment");
  app.add_option("--rounds", app.settings.rounds, "number of rounds, each with different states");
  app.add_option("--size", app.settings.size, "bytes of the dictionary")->check(CLI::Range(12288, 1 << 20));
  app.add_flag("--versions", app.settings.versions, "use a dictionary whose keys have versions");
  app.add_option("--repairs", app.settings.repairs, "repairs to step in each round");
  app.add_option("--at-least", app.settings.at_least, "minimum number of distinct images for the run to succeed");
  app.add_flag("--expect-violations", app.settings.expect_violations, "succeed only if the images are wrong");
  app.add_option("--only", app.settings.only, "step only operations with this text in \"STATE: NAME\"");
  app.add_option("--one-in", app.settings.one_in, "step one in this many operations, chosen at random")
      ->check(CLI::PositiveNumber);
  return app.run(argc, argv, holdfast::crash::run);
}
