// Sets one word of a dictionary or of the process table at a time to many values, while other processes hold locks and
// wait for locks. Every call must return in time, no live process may lose its lock, losses must be counted, and the
// dictionary must work afterwards.
#include <sys/wait.h>

#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <map>
#include <random>

#include "crash/ledger.h"
#include "damage/battery.h"
#include "damage/places.h"
#include "support/process.h"
#include "support/random_run.h"

namespace holdfast::damage {
namespace {

/// The shared memory in which the damaging process reports to the process that watches it.
struct Ledger {
  std::atomic<std::uint64_t> done;   // number of cases that have ended
  std::atomic<std::uint64_t> count;  // number of all cases
  std::atomic<const char*> call;     // the call in progress
  char place[96];                    // the damaged word of the case
  crash::Violations violations;
};

/// The cases of this run: all of them, or a random part.
struct Choice {
  std::uint64_t wanted = 20'000;  // number of cases, or 0 for all
  std::uint64_t seed = 0;
  std::uint64_t size = 12'288;
  bool versions = false;
  bool links = false;  // only words that contain the position or the length of a block

  std::uint64_t all(const Places& places) const { return links ? places.link_count() : places.count(); }
  std::uint64_t count(const Places& places) const { return wanted == 0 ? all(places) : std::min(wanted, all(places)); }
  Damage damage(const Places& places, std::uint64_t number) const {
    std::mt19937_64 random(seed + number);
    const std::uint64_t index = wanted == 0 ? number : random() % all(places);
    return links ? places.link_at(index) : places.at(index);
  }
};

std::string judge(const Battery& battery, const Places& places, const Damage& damage, std::string problem) {
  if (!problem.empty()) return problem;
  if (battery.lost() && !battery.named() && places.is_structure(damage)) return "a loss was not counted";
  if (battery.ownership_violated() && !places.frees_theirs(damage))
    return "a live process's lock was granted to another process";
  return "";
}

void apply(const Box& box, const Damage& damage) {
  std::byte* const at = (damage.in_table ? box.table() : box.bytes()) + damage.offset;
  std::memcpy(at, &damage.value, damage.bytes);
}

/// Damages one word after another. Continues where the previous process ended.
int damage_all(Ledger& ledger, const Choice& choice) {
  test::CallLimit limit(ledger.call);
  if (!World::current()) return 2;
  Box box(choice.size, choice.versions);
  for (;;) {
    const Places places(box);
    ledger.count = choice.count(places);
    const std::byte* const bytes = box.bytes();
    // If the box had to be created again, the loop ends, because its blocks are then elsewhere.
    for (; box.bytes() == bytes; ledger.done.fetch_add(1), box.restore()) {
      if (ledger.done >= ledger.count) return 0;
      const Damage damage = choice.damage(places, ledger.done);
      std::snprintf(ledger.place, sizeof ledger.place, "%s = %" PRIx64, places.describe(damage).c_str(), damage.value);
      Battery battery(box, limit);
      apply(box, damage);
      const std::string problem = judge(battery, places, damage, battery.run());
      if (!problem.empty()) ledger.violations.add("%s: %s", ledger.place, problem.c_str());
    }
  }
}

void watch(Ledger& ledger, const Choice& choice, std::uint32_t most) {
  do {
    test::Child child([&](test::Channel&) { return damage_all(ledger, choice); });
    siginfo_t info{};
    ::waitid(P_PID, static_cast<id_t>(child.pid()), &info, WEXITED | WNOWAIT);
    const int status = child.wait();
    if (status == 0) return;
    const char* const call = ledger.call.load();
    ledger.violations.add("%s: the process ended, in %s, by %s", ledger.place, call != nullptr ? call : "no call",
                          status > 128 ? ::strsignal(status - 128) : "itself");
    ledger.done.fetch_add(1);
  } while (ledger.violations.count < most);
}

std::uint64_t report(const Ledger& ledger, std::uint64_t size) {
  std::printf("%" PRIu64 " bytes: %" PRIu64 " of %" PRIu64 " words damaged, %" PRIu64 " violations\n", size,
              ledger.done.load(), ledger.count.load(), ledger.violations.count.load());
  ledger.violations.print();
  return ledger.violations.count;
}

}  // namespace
}  // namespace holdfast::damage

int main(int argc, char** argv) {
  using namespace holdfast;
  std::uint32_t most = 40;
  test::RandomRun<damage::Choice> app("Set single words of a dictionary and of its world to any value, and use both");
  app.add_option("--cases", app.settings.wanted, "number of cases, or 0 for all");
  app.add_option("--size", app.settings.size, "size in bytes of the dictionary, which has one shard");
  app.add_flag("--versions", app.settings.versions, "use a dictionary whose keys have versions");
  app.add_flag("--links", app.settings.links, "damage only words that contain the position or the length of a block");
  app.add_option("--violations", most, "stop after this many processes have died");
  return app.run(argc, argv, [&](const damage::Choice& choice) {
    const test::ScratchDirectory directory;
    auto& ledger = crash::make_shared_memory<damage::Ledger>();
    damage::watch(ledger, choice, most);
    return damage::report(ledger, choice.size) == 0 ? 0 : 1;
  });
}
