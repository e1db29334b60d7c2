// The command line of a program that makes random choices.
#pragma once

#include <CLI/CLI.hpp>

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <random>
#include <string>

namespace holdfast::test {

/// Adds the option --seed, whose default is random. `Settings` has a `seed` and the values of other options.
template <class Settings>
class RandomRun : public CLI::App {
 public:
  explicit RandomRun(const std::string& what) : CLI::App(what) {
    settings.seed = std::random_device()();
    add_option("--seed", settings.seed, "repeat a run's random choices, but not the races of its processes");
  }

  /// Parses the command line, prints the seed, runs `body`, and returns its result as the exit status.
  int run(int argc, char** argv, const std::function<int(const Settings&)>& body) {
    CLI11_PARSE(*this, argc, argv);
    std::printf("seed %" PRIu64 "\n", std::uint64_t{settings.seed});
    std::fflush(stdout);  // otherwise, children of the run print the text again
    return body(settings);
  }

  Settings settings;
};

}  // namespace holdfast::test
