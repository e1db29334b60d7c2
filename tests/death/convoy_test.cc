// Tests that there is no convoy: a waiter in a slow event loop, which polls only every few milliseconds, does not keep
// other waiters from the key, and still gets the key itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#include "crash/ledger.h"
#include "death/contender.h"

namespace holdfast::test {
namespace {

constexpr double kHeld = 100e-6;  // seconds
constexpr int kLearnt = 5;        // rounds after which the library knows that a loop is slow

/// The counts that all processes of a run share.
struct Ledger {
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> held_ns{0};  // total time for which any process held the key
  std::atomic<std::uint32_t> slow{0};     // how often slow loops got the key
  std::atomic<double> longest{0};         // longest wait of a slow loop (s)
};

void hold(const Way& way, Dict& dict, Ledger& ledger, holdfast_lease& lease) {
  const double start = now();
  double end = start;
  while ((end = now()) < start + kHeld) {
  }
  ledger.held_ns += static_cast<std::uint64_t>((end - start) * 1e9);
  way.release(dict, "k", &lease);
}

/// Requests the key again and again. Waits for it in a sleeping thread or, if `round_ms` is given, in a loop that does
/// other work for this long whenever it has to wait.
int contend(const Way& way, Dict& dict, Ledger& ledger, int round_ms = 0) {
  const OwnedParker parker(holdfast_parker_new());
  const std::uint32_t waiter = holdfast_waiter_open(parker.get());
  while (!ledger.stop) {
    const double asked = now();
    holdfast_lease lease{};
    double sleep = 0;
    const auto attempt = [&] { return way.wait(dict, "k", 0, parker.get(), waiter, &lease, &sleep); };
    int code = attempt();
    while ((code == HOLDFAST_LOCKED || code == HOLDFAST_TIMEOUT) && !ledger.stop) {
      if (round_ms != 0) sleep_ms(round_ms);
      std::uint32_t woken = 0;
      holdfast_parker_sleep(parker.get(), round_ms != 0 ? 0 : std::min(sleep, 0.1), &woken, 1);
      code = attempt();
    }
    if (round_ms != 0) ledger.longest = std::max(ledger.longest.load(), now() - asked);
    if (code != HOLDFAST_OK) continue;
    if (round_ms != 0) ++ledger.slow;
    hold(way, dict, ledger, lease);
  }
  way.leave(dict, "k", parker.get(), waiter);
  return 0;
}

struct Outcome {
  double in_use;  // share of the time in which the key was held
  double longest;
  std::uint32_t slow;
};

class ConvoyTest : public DeathTest {
 protected:
  /// Starts to measure in round `from`. If `from` is 0, measures for a second after the first hold.
  Outcome run(int slow_loops, int round_ms, int from) {
    auto& ledger = crash::make_shared_memory<Ledger>();
    std::vector<std::unique_ptr<Child>> children;
    for (int i = 0; i <= slow_loops; ++i)
      children.push_back(
          std::make_unique<Child>([&](Channel&) { return contend(GetParam(), dict, ledger, i == 0 ? 0 : round_ms); }));
    if (from == 0) {
      EXPECT_TRUE(eventually([&ledger] { return ledger.held_ns != 0; }));
    }
    sleep_ms(from * round_ms);
    const std::uint64_t held = ledger.held_ns;
    const double start = now();
    sleep_ms(from == 0 ? 1000 : std::max(1000, 20 * round_ms));
    const double in_use = static_cast<double>(ledger.held_ns - held) / 1e9 / (now() - start);
    const Outcome outcome{in_use, ledger.longest, ledger.slow};
    ledger.stop = true;
    for (const auto& child : children) EXPECT_EQ(child->wait(), 0);
    return outcome;
  }

  /// If the machine stalls, it may spoil one run, but not every run.
  void expect_no_convoy(int slow_loops, int round_ms, int from = kLearnt) {
    constexpr int kRuns = 4;
    // If each process has a processor, the share is nearly 1. When the key was still reserved for absent waiters, the
    // share was 0.03 to 0.5.
    constexpr double kInUse = 0.6;
    const double kWaitMax = std::max(1.0, 0.02 * round_ms);
    for (int i = 1;; ++i) {
      const Outcome outcome = run(slow_loops, round_ms, from);
      RecordProperty("in_use_" + std::to_string(i), std::to_string(outcome.in_use));
      if (outcome.in_use >= kInUse && outcome.slow > 0 && outcome.longest <= kWaitMax) return;
      if (i < kRuns) continue;
      EXPECT_GE(outcome.in_use, kInUse) << "the key is unused for too long";
      EXPECT_GT(outcome.slow, 0U) << "the slow loops never get the key";
      EXPECT_LE(outcome.longest, kWaitMax) << "a slow loop waits for too long";
      return;
    }
  }
};

// Fair locks are excluded: strict order makes each waiter wait for all earlier waiters.
constexpr Way kWays[] = {kExclusiveWays[0], kExclusiveWays[2], kExclusiveWays[3]};
INSTANTIATE_TEST_SUITE_P(, ConvoyTest, ::testing::ValuesIn(kWays), name_of_way);

TEST_P(ConvoyTest, a_loop_that_polls_every_30_ms_does_not_delay_the_others) { expect_no_convoy(1, 30); }
TEST_P(ConvoyTest, four_loops_that_poll_every_30_ms_do_not_delay_the_others) { expect_no_convoy(4, 30); }
TEST_P(ConvoyTest, a_loop_that_polls_every_5_ms_does_not_delay_the_others) { expect_no_convoy(1, 5); }
TEST_P(ConvoyTest, a_loop_slower_than_a_claim_delays_nobody_and_gets_its_turn) { expect_no_convoy(1, 100); }

// Fails if the key is reserved for 50 ms for each loop whose speed is not known yet.
TEST_P(ConvoyTest, eight_new_loops_delay_nobody_in_their_first_second) { expect_no_convoy(8, 100, 0); }

}  // namespace
}  // namespace holdfast::test
