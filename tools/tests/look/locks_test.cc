// Tests how the command collects locks.
#include "inspect/locks.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/process.h"

namespace holdfast::inspect {
namespace {

class Locks : public ::testing::Test {
 protected:
  void SetUp() override {
    const holdfast_options options{1U << 20, HOLDFAST_MUTEX_FUTEX, HOLDFAST_TEMPORARY, 0, nullptr};
    ASSERT_EQ(HOLDFAST_OK, holdfast_open("a", 1, &options, &dict_)) << holdfast_error();
  }

  test::ScratchDirectory folder_;
  holdfast_dict* dict_ = nullptr;
};

TEST_F(Locks, TakeOnlyTheMemoryThatTheirHoldersNeed) {
  constexpr std::uint32_t kReaders = 40;  // more readers than fit into the first read
  for (std::uint32_t i = 0; i < kReaders; ++i) {
    holdfast_lease lease{};
    const std::string key = "lock" + std::to_string(i);
    ASSERT_EQ(HOLDFAST_OK, holdfast_lock_try(dict_, key.data(), key.size(), 0, 0, 0, &lease));
    ASSERT_EQ(HOLDFAST_OK,
              holdfast_permits_try(dict_, "many", 4, HOLDFAST_RWLOCK, 1, HOLDFAST_ALL_PERMITS, 0, 0, 0, &lease));
  }
  std::vector<Lock> locks;
  ASSERT_TRUE(gather_locks(dict_, "a", "", Which::all, 1000, locks).ok());
  ASSERT_EQ(kReaders + 1, locks.size());
  for (const Lock& lock : locks) {
    EXPECT_EQ(lock.key == "many" ? kReaders : 1, lock.holders.size());
    EXPECT_EQ(lock.holders.size(), lock.holders.capacity());
    EXPECT_EQ(0U, lock.waiters.capacity());
  }
}

}  // namespace
}  // namespace holdfast::inspect
