// Any single word of a dictionary, or of the table of processes, is set to anything while others hold and wait for
// something: every call returns in time, nobody is robbed, what was lost is counted, and all is in order again.
#include <sys/wait.h>

#include <CLI/CLI.hpp>

#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <map>
#include <random>

#include "crash/ledger.h"
#include "damage/battery.h"
#include "damage/places.h"
#include "support/process.h"

namespace holdfast::damage {
namespace {

/// What the process that damages tells the one that watches it.
struct Ledger {
  std::atomic<std::uint64_t> done;   // cases
  std::atomic<std::uint64_t> count;  // that there are
  std::atomic<const char*> call;     // that is running
  char place[96];                    // of the case
  std::atomic<std::uint32_t> found;
  char problems[4096][192];

  void add(const char* what) {
    const std::uint32_t number = found.fetch_add(1);
    if (number < std::size(problems)) std::snprintf(problems[number], sizeof problems[number], "%s: %s", place, what);
  }
};

/// The cases of this run: all, or some of them.
class Choice {
 public:
  Choice(std::uint64_t wanted, std::uint64_t seed) : wanted_(wanted), seed_(seed) {}
  std::uint64_t count(std::uint64_t all) const { return wanted_ == 0 ? all : std::min(wanted_, all); }
  std::uint64_t index(std::uint64_t number, std::uint64_t all) const {
    if (wanted_ == 0) return number;
    std::mt19937_64 random(seed_ + number);
    return random() % all;
  }

 private:
  std::uint64_t wanted_;
  std::uint64_t seed_;
};

std::string judge(const Battery& battery, const Places& places, const Damage& damage, std::string problem) {
  if (!problem.empty()) return problem;
  if (battery.lost() && !battery.named() && places.is_structure(damage)) return "something is lost and not counted";
  if (battery.robbed() && !places.frees_theirs(damage)) return "the lock of a living process is given to another";
  return "";
}

void apply(const Box& box, const Damage& damage) {
  std::byte* const at = (damage.in_table ? box.table() : box.bytes()) + damage.offset;
  std::memcpy(at, &damage.value, damage.bytes);
}

/// Goes on where the last one ended.
int damage_all(Ledger& ledger, const Choice& choice, std::uint64_t size) {
  test::CallLimit limit(ledger.call);
  if (!World::current()) return 2;
  Box box(size);
  for (;;) {
    const Places places(box);
    ledger.count = choice.count(places.count());
    const std::byte* const bytes = box.bytes();
    // Until the box had to be made anew, and has its blocks elsewhere.
    for (; box.bytes() == bytes; ledger.done.fetch_add(1), box.restore()) {
      if (ledger.done >= ledger.count) return 0;
      const Damage damage = places.at(choice.index(ledger.done, places.count()));
      std::snprintf(ledger.place, sizeof ledger.place, "%s = %" PRIx64, places.describe(damage).c_str(), damage.value);
      Battery battery(box, limit);
      apply(box, damage);
      const std::string problem = judge(battery, places, damage, battery.run());
      if (!problem.empty()) ledger.add(problem.c_str());
    }
  }
}

void watch(Ledger& ledger, const Choice& choice, std::uint64_t size, std::uint32_t most) {
  do {
    test::Child child([&](test::Channel&) { return damage_all(ledger, choice, size); });
    siginfo_t info{};
    ::waitid(P_PID, static_cast<id_t>(child.pid()), &info, WEXITED | WNOWAIT);
    const int status = child.wait();
    if (status == 0) return;
    const char* const call = ledger.call.load();
    const std::string what = std::string("the process ended, in ") + (call != nullptr ? call : "no call") + ", by " +
                             (status > 128 ? ::strsignal(status - 128) : "itself");
    ledger.add(what.c_str());
    ledger.done.fetch_add(1);
  } while (ledger.found < most);
}

std::uint32_t report(const Ledger& ledger, std::uint64_t size) {
  std::printf("%" PRIu64 " bytes: %" PRIu64 " of %" PRIu64 " words damaged, %u violations\n", size, ledger.done.load(),
              ledger.count.load(), ledger.found.load());
  const auto shown = std::min<std::size_t>(ledger.found, std::size(ledger.problems));
  for (std::size_t i = 0; i < shown; ++i) std::printf("VIOLATION: %s\n", ledger.problems[i]);
  return ledger.found;
}

}  // namespace
}  // namespace holdfast::damage

int main(int argc, char** argv) {
  using namespace holdfast;
  std::uint64_t seed = std::random_device()();
  std::uint64_t cases = 20'000;
  std::uint64_t size = 12'288;
  std::uint32_t most = 40;
  CLI::App app("Sets single words of a dictionary and of its world to anything, and uses them");
  app.add_option("--seed", seed, "of the choice of cases");
  app.add_option("--cases", cases, "how many; 0: all");
  app.add_option("--size", size, "bytes of the dictionary, of one shard");
  app.add_option("--violations", most, "after so many processes that ended it ends");
  CLI11_PARSE(app, argc, argv);
  std::printf("seed %" PRIu64 "\n", seed);
  const test::ScratchDirectory directory;
  auto& ledger = crash::make_shared_memory<damage::Ledger>();
  damage::watch(ledger, {cases, seed}, size, most);
  return damage::report(ledger, size) == 0 ? 0 : 1;
}
