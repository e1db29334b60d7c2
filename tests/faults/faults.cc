// In every scenario, makes each allocation or each system call fail in turn, either alone or together with all later
// ones. When nothing fails any longer, everything must work again: in the process itself, in other processes, and after
// the end of the process.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "faults/victim.h"
#include "support/random_run.h"

namespace holdfast::faults {
namespace {

struct Plan {
  Kind kind = Kind::allocations;
  double seconds = 0;
  double limit = 60;
  std::uint64_t seed = 0;
  std::string only;
  std::string repeat;  // "N", "N on", "N other", "N on other"
  bool list = false;
};

/// The maximum number of allocations or calls that a run with faults makes in addition to those of the run without
/// faults.
constexpr std::uint64_t kMoreThanUndisturbed = 200;

std::string name_of(const Module& module, const Case& one) {
  return std::string(module.scenarios[one.scenario].name) + ", mutex " + kMutexNames[one.mutex];
}

std::string describe(const Module& module, const Case& one) {
  return "\"" + name_of(module, one) + "\", number " + std::to_string(one.first) + (one.from_then_on ? " on" : "") +
         (one.other ? " other" : "");
}

class Faults {
 public:
  Faults(const Module& module, const Plan& plan) : module_(module), plan_(plan) {}

  int run() {
    for (std::size_t i = 0; i < module_.count; ++i)
      for (int mutex = 0; mutex < kMutexCount; ++mutex)
        if ((module_.scenarios[i].mutexes >> mutex & 1) != 0) look_at({plan_.kind, i, mutex});
    if (plan_.repeat.empty()) std::shuffle(cases_.begin(), cases_.end(), std::mt19937_64(plan_.seed));
    for (const Case& one : cases_) {
      if (is_over()) break;
      run_one(one);
    }
    // A run with faults may make more calls than the run without faults.
    if (plan_.repeat.empty() && !is_over()) continue_after_undisturbed();
    std::printf("%llu runs of at least %zu, %llu of them with a fault, %d failed\n", runs_, cases_.size(), faults_,
                wrong_);
    return wrong_ == 0 && faults_ != 0 ? 0 : 1;
  }

 private:
  using Clock = std::chrono::steady_clock;

  bool is_over() const {
    return plan_.seconds > 0 && std::chrono::duration<double>(Clock::now() - begin_).count() > plan_.seconds;
  }

  /// Runs a scenario without faults to find out which calls can fail.
  void look_at(Case one) {
    if (name_of(module_, one).find(plan_.only) == std::string::npos) return;
    const Outcome undisturbed = run_case(module_, one, plan_.limit);
    if (!undisturbed.problem.empty()) return complain(one, undisturbed);
    kept_[name_of(module_, one)] = undisturbed.kept;
    undisturbed_.emplace_back(one, undisturbed.counted);
    if (plan_.list) list(one, undisturbed);
    if (!plan_.repeat.empty()) return add_repeated(one);
    for (one.first = 1; one.first <= undisturbed.counted; ++one.first) {
      for (const bool from_then_on : {false, true}) {
        one.from_then_on = from_then_on;
        one.other = false;
        cases_.push_back(one);
        one.other = true;
        if (plan_.kind == Kind::calls && undisturbed.calls[one.first - 1].other_error != 0) cases_.push_back(one);
      }
    }
  }

  void list(const Case& one, const Outcome& undisturbed) const {
    std::printf("\"%s\": %llu", name_of(module_, one).c_str(), static_cast<unsigned long long>(undisturbed.counted));
    for (const Call& call : undisturbed.calls) std::printf(" %s", call.name);
    std::printf("\n");
  }

  void add_repeated(Case one) {
    one.first = std::stoull(plan_.repeat);
    one.from_then_on = plan_.repeat.find("on") != std::string::npos;
    one.other = plan_.repeat.find("other") != std::string::npos;
    cases_.push_back(one);
  }

  /// Runs a case once. Returns the number of faults in the run.
  std::uint64_t run_one(const Case& one) {
    ++runs_;
    Outcome outcome = run_case(module_, one, plan_.limit);
    if (outcome.failed != 0) ++faults_;
    if (outcome.problem.empty()) outcome.problem = kept_too_much(one, outcome);
    if (!outcome.problem.empty()) complain(one, outcome);
    return outcome.failed;
  }

  /// Returns an error if the process has descriptors or mappings that it did not have at the end of the run without
  /// faults. It may have fewer.
  std::string kept_too_much(const Case& one, const Outcome& outcome) const {
    std::vector<std::string> more;
    const std::vector<std::string>& least = kept_.at(name_of(module_, one));
    std::set_difference(outcome.kept.begin(), outcome.kept.end(), least.begin(), least.end(), std::back_inserter(more));
    if (more.empty()) return "";
    std::string text = "it has more files open or mapped than without faults:";
    for (const std::string& name : more) text += " " + name;
    return text;
  }

  void continue_after_undisturbed() {
    for (const auto& [undisturbed, counted] : undisturbed_) {
      for (const bool from_then_on : {false, true}) {
        Case one = undisturbed;
        one.first = counted + 1;
        one.from_then_on = from_then_on;
        while (!is_over() && one.first <= counted + kMoreThanUndisturbed && run_one(one) != 0) ++one.first;
      }
    }
  }

  void complain(const Case& one, const Outcome& outcome) {
    ++wrong_;
    std::printf("%s, %s: %s\n", describe(module_, one).c_str(),
                outcome.first_failed.empty() ? "nothing failed" : outcome.first_failed.c_str(),
                outcome.problem.c_str());
    std::fflush(stdout);
  }

  const Module& module_;
  const Plan& plan_;
  const Clock::time_point begin_ = Clock::now();
  std::vector<Case> cases_;
  std::map<std::string, std::vector<std::string>> kept_;     // by scenario and mutex
  std::vector<std::pair<Case, std::uint64_t>> undisturbed_;  // with their numbers of calls
  unsigned long long runs_ = 0;
  unsigned long long faults_ = 0;
  int wrong_ = 0;
};

}  // namespace
}  // namespace holdfast::faults

int main(int argc, char** argv) {
  using namespace holdfast::faults;
  holdfast::test::RandomRun<Plan> app(
      "Make each allocation or system call fail, and check that everything works afterwards");
  app.add_option("kind", app.settings.kind, "what fails: allocations or calls")
      ->required()
      ->transform(CLI::CheckedTransformer(
          std::map<std::string, Kind>{{"allocations", Kind::allocations}, {"calls", Kind::calls}}));
  app.add_option("--seconds", app.settings.seconds, "seconds of random runs, or 0 for all runs");
  app.add_option("--limit", app.settings.limit, "time limit of a run in seconds");
  app.add_option("--only", app.settings.only, "run only scenarios with this text in their names");
  app.add_option("--repeat", app.settings.repeat,
                 "repeat one run, which a failure prints as \"12\", \"12 on\", \"12 on other\"");
  app.add_flag("--list", app.settings.list, "list what can fail in each scenario");
  return app.run(argc, argv, [](const Plan& plan) {
    // No call of this process is made to fail. It never enters a world, and only forks.
    const Module* const module = load_module();
    return module != nullptr ? Faults(*module, plan).run() : 1;
  });
}
