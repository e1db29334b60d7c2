// Tests which waits count as rings. A ring is a cycle of waits, in which no process can continue.
#include "inspect/rings.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace holdfast::inspect {
namespace {

/// Returns a lock with this key, these holders, and waiters that have waited for a second.
Lock lock(const std::string& key, const std::vector<std::uint64_t>& holders, const std::vector<std::uint64_t>& waiters,
          std::uint32_t kind = HOLDFAST_HELD_LOCK) {
  Lock made;
  made.key = key;
  for (const std::uint64_t owner : holders) {
    made.holders.emplace_back().owner = owner;
    made.holders.back().kind = kind;
  }
  for (const std::uint64_t owner : waiters) {
    made.waiters.emplace_back().owner = owner;
    made.waiters.back().waited = 1;
  }
  made.holder_count = static_cast<std::uint32_t>(holders.size());
  made.waiter_count = static_cast<std::uint32_t>(waiters.size());
  return made;
}

/// Returns each ring as text. In "1>b 2>a", process 1 waits for the lock b, and process 2 for the lock a.
std::vector<std::string> drawn(const std::vector<Lock>& locks, const Ancestors& ancestors = {}, double long_wait = 1) {
  std::vector<std::string> texts;
  for (const Ring& ring : find_rings(locks, ancestors, long_wait)) {
    std::string text;
    for (const RingLink& link : ring)
      text += (text.empty() ? "" : " ") + std::to_string(link.owner) + ">" + link.lock->key;
    texts.push_back(text);
  }
  return texts;
}

using Texts = std::vector<std::string>;

TEST(Rings, ConsistOfProcessesThatWaitForEachOther) {
  EXPECT_EQ((Texts{"1>b 2>a"}), drawn({lock("a", {1}, {2}), lock("b", {2}, {1})}));
  EXPECT_EQ((Texts{}), drawn({lock("a", {1}, {2}), lock("b", {2}, {3})})) << "a chain is not a ring";
}

TEST(Rings, ConsistOfParentsWhoseChildrenWait) {
  const std::vector<Lock> locks{lock("a", {1}, {20}), lock("b", {2}, {10})};
  EXPECT_EQ((Texts{}), drawn(locks));
  EXPECT_EQ((Texts{"1>b 2>a"}), drawn(locks, {{10, {1}}, {20, {2}}}));
  EXPECT_EQ((Texts{"1>a"}), drawn({lock("a", {1}, {10})}, {{10, {1}}}))
      << "a child that waits for its own parent must be in a ring";
}

TEST(Rings, CountOnceHoweverManyProcessesWait) {
  std::vector<Lock> locks;
  for (std::uint64_t i = 1; i <= 51; ++i) locks.push_back(lock(std::to_string(i), {i}, {i % 51 + 1, 100, 101}));
  ASSERT_EQ(1U, find_rings(locks, {}, 1).size());
  EXPECT_EQ(51U, find_rings(locks, {}, 1).front().size());
  std::vector<std::uint64_t> children;
  Ancestors ancestors;
  for (std::uint64_t i = 100; i < 151; ++i) children.push_back(i), ancestors[i] = {1};
  EXPECT_EQ((Texts{"1>a"}), drawn({lock("a", {1}, children)}, ancestors));
}

TEST(Rings, AreFoundBehindAChain) {
  EXPECT_EQ((Texts{"2>c 3>b"}), drawn({lock("a", {1}, {4}), lock("b", {2}, {1, 3}), lock("c", {3}, {2})}));
  EXPECT_EQ((Texts{"1>b 2>a", "3>d 4>c"}),
            drawn({lock("a", {1}, {2}), lock("b", {2}, {1}), lock("c", {3}, {4}), lock("d", {4}, {3})}));
}

TEST(Rings, DoNotIncludeTasksThatMayContinue) {
  EXPECT_EQ((Texts{}), drawn({lock("a", {1}, {1}), lock("b", {1}, {1})})) << "the waits belong to tasks of one process";
  const std::vector<Lock> locks{lock("a", {1}, {2}), lock("b", {2}, {1})};
  EXPECT_EQ((Texts{}), drawn(locks, {}, 1.5)) << "the waits are short, and may belong to different tasks";
  EXPECT_EQ((Texts{"1>b 2>a"}), drawn({lock("a", {1}, {20}), lock("b", {2}, {10})}, {{10, {1}}, {20, {2}}}, 1.5))
      << "commands wait for their children's end, so the time must not matter";
}

TEST(Rings, OfPermitsNeedAllHolders) {
  const Ancestors ancestors{{10, {1}}, {20, {2}}};
  const auto with = [](std::uint32_t kind) { return lock("a", {1, 3}, {20}, kind); };
  EXPECT_EQ((Texts{}), drawn({with(HOLDFAST_HELD_SEMAPHORE), lock("b", {2}, {10})}, ancestors))
      << "3 may return its permit";
  EXPECT_EQ((Texts{"1>b 2>a"}), drawn({with(HOLDFAST_HELD_RWLOCK), lock("b", {2}, {10})}, ancestors));
  EXPECT_EQ((Texts{"1>b 2>a"}),
            drawn({with(HOLDFAST_HELD_SEMAPHORE), lock("b", {2}, {10, 30})}, {{10, {1}}, {20, {2}}, {30, {3}}}));
  std::vector<Lock> cut{lock("a", {1}, {20}, HOLDFAST_HELD_SEMAPHORE), lock("b", {2}, {10})};
  EXPECT_EQ((Texts{"1>b 2>a"}), drawn(cut, ancestors));
  cut[0].holder_count = 2;
  EXPECT_EQ((Texts{}), drawn(cut, ancestors)) << "a holder that was not read may return its permit";
}

}  // namespace
}  // namespace holdfast::inspect
