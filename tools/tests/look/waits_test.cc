// Tests the lines that show which process waits for which, the limit of their number, and how they show circles.
#include "inspect/waits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace holdfast::inspect {
namespace {

using What = WaitLine::What;

/// Returns a lock with this key, these holders and these waiters.
Lock lock(const std::string& key, const std::vector<std::uint64_t>& holders,
          const std::vector<std::uint64_t>& waiters) {
  Lock made;
  made.key = key;
  for (const std::uint64_t owner : holders) made.holders.emplace_back().owner = owner;
  for (const std::uint64_t owner : waiters) made.waiters.emplace_back().owner = owner;
  made.holder_count = static_cast<std::uint32_t>(holders.size());
  made.waiter_count = static_cast<std::uint32_t>(waiters.size());
  return made;
}

/// Makes each process its own kind, so that no waiters share a line.
std::string each_apart(const holdfast_waiter& waiter) { return std::to_string(waiter.owner); }

/// Returns the lines in the form "a", "-3", "--b", with a dash for each level. "!" marks a circle, and "x2" marks a
/// line for two waiters.
std::string drawn(const std::vector<Lock>& locks, const Ancestors& ancestors = {},
                  const KindOfWaiter& kind_of = each_apart) {
  std::string text;
  for (const WaitLine& line : lines_of_waits(locks, ancestors, kind_of)) {
    text += std::string(line.depth, '-');
    if (line.what == What::ring)
      text += (line.is_certain ? "ring of " : "perhaps a ring of ") + std::to_string(line.count);
    else if (line.what == What::waiter)
      text +=
          std::to_string(line.waiter->owner) + (line.equal.empty() ? "" : "x" + std::to_string(line.equal.size() + 1));
    else if (line.what == What::left_out)
      text += "+" + std::to_string(line.count) + (line.has_circle ? "!" : "");
    else
      text += line.lock->key + (line.what == What::circle ? "!" : "");
    text += "\n";
  }
  return text;
}

TEST(Waits, ShowAChainBelowTheLockAtItsEnd) {
  EXPECT_EQ("b\n-1\n--a\n---3\n", drawn({lock("a", {1}, {3}), lock("b", {2}, {1})}));
}

TEST(Waits, ShowARingAsAGroup) {
  EXPECT_EQ("perhaps a ring of 2\n-a\n--2\n-b\n--1\n", drawn({lock("a", {1}, {2}), lock("b", {2}, {1})}));
  EXPECT_EQ("perhaps a ring of 2\n-a\n--2\n--4\n---c\n----5\n-b\n--1\nd\n-1\n",
            drawn({lock("a", {1}, {2, 4}), lock("b", {2}, {1}), lock("c", {4}, {5}), lock("d", {6}, {1})}))
      << "waits for the ring must be below it, and other waits of its processes must be separate";
}

TEST(Waits, ShowACircleThatIsNotARing) {
  std::vector<Lock> locks{lock("a", {1, 3}, {2}), lock("b", {2}, {1})};
  for (holdfast_holder& holder : locks[0].holders) holder.kind = HOLDFAST_HELD_SEMAPHORE;
  EXPECT_EQ("a\n-2\n--b\n---1\n----a!\n", drawn(locks)) << "process 3 may return its permit";
}

TEST(Waits, OfTheSameKindShareALine) {
  const auto parity = [](const holdfast_waiter& waiter) { return std::string(waiter.owner % 2 == 0 ? "even" : "odd"); };
  EXPECT_EQ("a\n-2x3\n-3x2\n", drawn({lock("a", {1}, {2, 3, 4, 5, 6})}, {}, parity));
  EXPECT_EQ("a\n-2x2\n-4\n--b\n---3\n-3\n", drawn({lock("a", {1}, {2, 4, 3, 6}), lock("b", {4}, {3})}, {}, parity))
      << "a waiter with a lock below it must have its own line";
  std::vector<Lock> locks{lock("a", {1}, {2, 4})};
  locks[0].waiter_count = 5;
  EXPECT_EQ("a\n-2x2\n-+3\n", drawn(locks, {}, parity));
  std::vector<std::uint64_t> many(50000);
  for (std::size_t i = 0; i < many.size(); ++i) many[i] = i + 2;
  EXPECT_EQ("a\n-2x25000\n-3x25000\n", drawn({lock("a", {1}, many)}, {}, parity));
}

TEST(Waits, BetweenTasksOfOneProcessAreNoCircle) {
  EXPECT_EQ("a\n-1\n--b\n---1\n-1\n", drawn({lock("a", {1}, {1, 1}), lock("b", {1}, {1})}));
}

TEST(Waits, ForARingAreShownBelowATaskOfTheSameProcess) {
  EXPECT_EQ("perhaps a ring of 2\n-b\n--2\n-c\n--1\n---a\n----1\n",
            drawn({lock("a", {1}, {1}), lock("b", {1}, {2}), lock("c", {2}, {1})}));
}

TEST(Waits, OfAChildCountAsWaitsOfItsParent) {
  const std::vector<Lock> locks{lock("a", {1}, {20}), lock("b", {2}, {10})};
  EXPECT_EQ("a\n-20\nb\n-10\n", drawn(locks));
  EXPECT_EQ("ring of 2\n-a\n--20\n-b\n--10\n", drawn(locks, {{10, {1}}, {20, {2}}}));
}

TEST(Waits, OfChildrenForTheLockOfTheirParentAreARing) {
  const auto same = [](const holdfast_waiter&) { return std::string(); };
  EXPECT_EQ("ring of 1\n-a\n--10x2\n", drawn({lock("a", {1}, {10, 11})}, {{10, {1}}, {11, {1}}}, same));
}

TEST(Waits, OfManyTasksOfOneProcessTakeTwoLinesPerLock) {
  constexpr std::size_t kTasks = 5000;
  std::vector<Lock> locks;
  for (std::size_t i = 0; i < kTasks; ++i) locks.push_back(lock("k" + std::to_string(i), {1}, {1}));
  const auto lines = lines_of_waits(locks, {}, each_apart);
  EXPECT_EQ(2 * kTasks, lines.size());
  EXPECT_TRUE(std::all_of(lines.begin(), lines.end(), [](const WaitLine& line) { return line.depth <= 3; }));
}

TEST(Waits, OfManyProcessesInAChainHaveLimitedDepth) {
  constexpr std::uint64_t kProcesses = 100000;
  std::vector<Lock> locks;
  for (std::uint64_t i = 1; i <= kProcesses; ++i) locks.push_back(lock("k" + std::to_string(i), {i}, {i + 1}));
  const auto lines = lines_of_waits(locks, {}, each_apart);
  ASSERT_EQ(WaitLine::kDeepest + 2, lines.size());
  EXPECT_EQ(What::left_out, lines.back().what);
  EXPECT_EQ(kProcesses - WaitLine::kDeepest / 2, lines.back().count);
  EXPECT_FALSE(lines.back().has_circle);
}

TEST(Waits, OfManyProcessesInARingAreOneRing) {
  constexpr std::uint64_t kProcesses = 1000;
  std::vector<Lock> locks;
  for (std::uint64_t i = 1; i <= kProcesses; ++i)
    locks.push_back(lock("k" + std::to_string(i), {i}, {i % kProcesses + 1}));
  const auto lines = lines_of_waits(locks, {}, each_apart);
  ASSERT_EQ(1 + 2 * kProcesses, lines.size());
  EXPECT_EQ(What::ring, lines.front().what);
  EXPECT_EQ(kProcesses, lines.front().count);
  EXPECT_TRUE(std::all_of(lines.begin(), lines.end(), [](const WaitLine& line) { return line.depth <= 2; }));
}

TEST(Waits, HaveALimitedNumberOfLines) {
  std::vector<Lock> locks;
  for (std::uint64_t i = 0; i < WaitLine::kMostLines; ++i) locks.push_back(lock(std::to_string(i), {1}, {2, 3}));
  const auto lines = lines_of_waits(locks, {}, each_apart);
  ASSERT_EQ(WaitLine::kMostLines + 1, lines.size());
  const auto shown = static_cast<std::uint64_t>(
      std::count_if(lines.begin(), lines.end(), [](const WaitLine& line) { return line.what == What::waiter; }));
  EXPECT_EQ(2 * WaitLine::kMostLines, shown + lines.back().count);
}

TEST(Waits, CountWaitersThatWereNotRead) {
  std::vector<Lock> locks{lock("a", {1}, {2})};
  locks[0].waiter_count = 10;
  EXPECT_EQ("a\n-2\n-+9\n", drawn(locks));
}

TEST(Waits, KnowWhichBranchesContinueFurtherDown) {
  const std::vector<Lock> locks{lock("a", {1}, {2, 3}), lock("b", {2}, {4}), lock("c", {5}, {6})};
  const auto lines = lines_of_waits(locks, {}, each_apart);  // a -2 --b ---4 -3 c -6
  ASSERT_EQ(7U, lines.size());
  EXPECT_TRUE(lines[1].has_more(1));
  EXPECT_TRUE(lines[3].has_more(1));
  EXPECT_FALSE(lines[2].has_more(2));
  EXPECT_FALSE(lines[3].has_more(3));
  EXPECT_FALSE(lines[4].has_more(1));
}

}  // namespace
}  // namespace holdfast::inspect
