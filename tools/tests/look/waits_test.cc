// Tests the lines that show which process waits for which: their number, and circles.
#include "inspect/waits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace holdfast::inspect {
namespace {

using What = WaitLine::What;

/// Returns a lock with that key, these holders and these waiters.
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

/// Returns the lines as "a", "-3", "--b": a dash for each level; "!" follows a circle.
std::string drawn(const std::vector<Lock>& locks, const Ancestors& ancestors = {}) {
  std::string text;
  for (const WaitLine& line : lines_of_waits(locks, ancestors)) {
    text += std::string(line.depth, '-');
    if (line.what == What::waiter)
      text += std::to_string(line.waiter->owner);
    else if (line.what == What::left_out)
      text += "+" + std::to_string(line.left_out) + (line.has_circle ? "!" : "");
    else
      text += line.lock->key + (line.what == What::circle ? "!" : "");
    text += "\n";
  }
  return text;
}

TEST(Waits, ShowAChainBelowTheLockAtItsEnd) {
  EXPECT_EQ("b\n-1\n--a\n---3\n", drawn({lock("a", {1}, {3}), lock("b", {2}, {1})}));
}

TEST(Waits, ShowACircleAsOne) {
  EXPECT_EQ("a\n-2\n--b\n---1\n----a!\n", drawn({lock("a", {1}, {2}), lock("b", {2}, {1})}));
}

TEST(Waits, BetweenTasksOfOneProcessAreNoCircle) {
  EXPECT_EQ("a\n-1\n--b\n---1\n-1\n", drawn({lock("a", {1}, {1, 1}), lock("b", {1}, {1})}));
}

TEST(Waits, OfACircleAreShownBehindATaskOfTheSameProcess) {
  EXPECT_EQ("a\n-1\n--b\n---2\n----c\n-----1\n------b!\n",
            drawn({lock("a", {1}, {1}), lock("b", {1}, {2}), lock("c", {2}, {1})}));
}

TEST(Waits, OfAChildAreAlsoItsParents) {
  const std::vector<Lock> locks{lock("a", {1}, {20}), lock("b", {2}, {10})};
  EXPECT_EQ("a\n-20\nb\n-10\n", drawn(locks));
  EXPECT_EQ("a\n-20\n--b\n---10\n----a!\n", drawn(locks, {{10, {1}}, {20, {2}}}));
}

TEST(Waits, OfAChildForTheLockOfItsParentAreACircle) {
  EXPECT_EQ("a\n-10\n--a!\n", drawn({lock("a", {1}, {10})}, {{10, {1}}}));
}

TEST(Waits, OfManyTasksOfOneProcessTakeTwoLinesPerLock) {
  constexpr std::size_t kTasks = 5000;
  std::vector<Lock> locks;
  for (std::size_t i = 0; i < kTasks; ++i) locks.push_back(lock("k" + std::to_string(i), {1}, {1}));
  const auto lines = lines_of_waits(locks, {});
  EXPECT_EQ(2 * kTasks, lines.size());
  EXPECT_TRUE(std::all_of(lines.begin(), lines.end(), [](const WaitLine& line) { return line.depth <= 3; }));
}

TEST(Waits, OfManyProcessesInAChainHaveLimitedDepth) {
  constexpr std::uint64_t kProcesses = 100000;
  std::vector<Lock> locks;
  for (std::uint64_t i = 1; i <= kProcesses; ++i) locks.push_back(lock("k" + std::to_string(i), {i}, {i + 1}));
  const auto lines = lines_of_waits(locks, {});
  ASSERT_EQ(WaitLine::kDeepest + 2, lines.size());
  EXPECT_EQ(What::left_out, lines.back().what);
  EXPECT_EQ(kProcesses - WaitLine::kDeepest / 2, lines.back().left_out);
  EXPECT_FALSE(lines.back().has_circle);
  locks.back().waiters.front().owner = 1;
  EXPECT_TRUE(lines_of_waits(locks, {}).back().has_circle);
}

TEST(Waits, HaveALimitedNumberOfLines) {
  std::vector<Lock> locks;
  for (std::uint64_t i = 0; i < WaitLine::kMostLines; ++i) locks.push_back(lock(std::to_string(i), {1}, {2, 3}));
  const auto lines = lines_of_waits(locks, {});
  ASSERT_EQ(WaitLine::kMostLines + 1, lines.size());
  const auto shown = static_cast<std::uint64_t>(
      std::count_if(lines.begin(), lines.end(), [](const WaitLine& line) { return line.what == What::waiter; }));
  EXPECT_EQ(2 * WaitLine::kMostLines, shown + lines.back().left_out);
}

TEST(Waits, CountWaitersThatWereNotRead) {
  std::vector<Lock> locks{lock("a", {1}, {2})};
  locks[0].waiter_count = 10;
  EXPECT_EQ("a\n-2\n-+9\n", drawn(locks));
}

TEST(Waits, KnowWhichBranchesContinueFurtherDown) {
  const std::vector<Lock> locks{lock("a", {1}, {2, 3}), lock("b", {2}, {4}), lock("c", {5}, {6})};
  const auto lines = lines_of_waits(locks, {});  // a -2 --b ---4 -3 c -6
  ASSERT_EQ(7U, lines.size());
  EXPECT_TRUE(lines[1].has_more(1));
  EXPECT_TRUE(lines[3].has_more(1));
  EXPECT_FALSE(lines[2].has_more(2));
  EXPECT_FALSE(lines[3].has_more(3));
  EXPECT_FALSE(lines[4].has_more(1));
}

}  // namespace
}  // namespace holdfast::inspect
