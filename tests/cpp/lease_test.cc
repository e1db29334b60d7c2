// Tests holdfast::lease, which holds a lock as long as the lease object lives.
#include <thread>

#include "cpp/cpp_test.h"

namespace holdfast::test {
namespace {

class CppLease : public CppTest {};

TEST_F(CppLease, releases_the_lock_at_its_end) {
  {
    const result<lease> held = dict.lock("k");
    ASSERT_TRUE(held);
    EXPECT_TRUE(held->valid());
    EXPECT_EQ(held->key(), "k");
    EXPECT_FALSE(is_free("k"));
  }
  EXPECT_TRUE(is_free("k"));
}

TEST_F(CppLease, is_refused_while_another_process_holds_the_lock) {
  const lease held = dict.lock("k").value();
  const auto start = std::chrono::steady_clock::now();
  const result<lease> other = dict.lock("k", 50ms);
  EXPECT_GE(std::chrono::steady_clock::now() - start, 50ms);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, errc::locked);
  EXPECT_EQ(other.error().message, "locked");
}

TEST_F(CppLease, is_granted_when_another_thread_releases_its_lease) {
  lease held = dict.lock("k").value();
  std::thread waits([&] { EXPECT_TRUE(dict.lock("k")); });
  await_waiters("k", 1);
  EXPECT_TRUE(held.unlock());
  waits.join();
}

TEST_F(CppLease, is_held_by_only_one_object_after_a_move) {
  lease first = dict.lock("k").value();
  const std::uint64_t token = first.token();
  lease second = std::move(first);
  EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): it holds nothing
  EXPECT_TRUE(first.unlock());
  EXPECT_TRUE(second.valid());
  EXPECT_EQ(second.token(), token);
  second = dict.lock("l").value();
  EXPECT_TRUE(is_free("k")) << "the lease did not release the lock that it held before";
  EXPECT_FALSE(is_free("l"));
  std::thread([moved = std::move(second)]() mutable { EXPECT_TRUE(moved.unlock()); }).join();
  EXPECT_TRUE(is_free("l"));
}

TEST_F(CppLease, stays_held_after_its_object_released_ownership) {
  holdfast_lease raw{};
  {
    lease held = dict.lock("k").value();
    raw = held.detach();
    EXPECT_FALSE(held);
  }
  EXPECT_FALSE(is_free("k"));
  { const lease again(dict.handle(), "k", raw); }
  EXPECT_TRUE(is_free("k"));
}

TEST_F(CppLease, reports_that_it_was_lost) {
  lease held = dict.lock("k").value();
  EXPECT_TRUE(dict.erase("k"));
  EXPECT_FALSE(held.valid());
  EXPECT_EQ(held.remaining().error().code, errc::not_owner);
  EXPECT_EQ(held.unlock().error().code, errc::not_owner);
  EXPECT_FALSE(held);
}

TEST_F(CppLease, has_the_given_exptime_and_a_new_one_when_it_is_renewed) {
  lease held = dict.lock("k", forever, {.exptime = 50s, .why = "a reason"}).value();
  EXPECT_LE(held.remaining().value(), 52s);
  EXPECT_TRUE(held.renew(500s));
  EXPECT_GT(held.remaining().value(), 100s);
  EXPECT_TRUE(held.renew(duration(0)));
  EXPECT_EQ(held.remaining().value(), forever);
  holdfast_holder holder{};
  ASSERT_EQ(holdfast_lock_holder(dict.handle(), "k", 1, &holder), HOLDFAST_OK);
  EXPECT_STREQ(holder.why, "a reason");
}

TEST_F(CppLease, has_a_larger_token_than_earlier_leases) {
  const std::uint64_t first = dict.lock("k")->token();
  EXPECT_GT(dict.lock("k")->token(), first);
}

TEST_F(CppLease, can_be_shared_by_readers_and_be_downgraded_by_a_writer) {
  lease writer = dict.lock_exclusive("rw").value();
  EXPECT_EQ(dict.lock_shared("rw", duration(0)).error().code, errc::locked);
  EXPECT_TRUE(writer.keep(1));
  const result<lease> reader = dict.lock_shared("rw");
  EXPECT_TRUE(reader);
  EXPECT_EQ(dict.lock_exclusive("rw", duration(0)).error().code, errc::locked);
}

TEST_F(CppLease, can_be_upgraded_by_the_only_reader) {
  lease reader = dict.lock_shared("rw").value();
  lease other = dict.lock_shared("rw").value();
  const std::uint64_t token = reader.token();
  EXPECT_EQ(reader.upgrade(duration(0)).error().code, errc::locked);
  EXPECT_EQ(reader.upgrade(duration(0.01)).error().code, errc::locked);
  EXPECT_TRUE(reader.valid());
  EXPECT_TRUE(other.unlock());
  EXPECT_TRUE(reader.upgrade());
  EXPECT_EQ(reader.token(), token);
  EXPECT_EQ(dict.lock_shared("rw", duration(0)).error().code, errc::locked);
  EXPECT_TRUE(reader.unlock());
  EXPECT_EQ(dict.lock("lock")->upgrade().error().code, errc::invalid);
}

TEST_F(CppLease, has_permits_of_a_semaphore) {
  const holdfast_request two{.kind = HOLDFAST_HELD_SEMAPHORE, .want = 2, .total = 3};
  const result<lease> first = dict.acquire("s", two);
  EXPECT_TRUE(first);
  EXPECT_EQ(dict.acquire("s", two).error().code, errc::locked);
  EXPECT_EQ(dict.acquire("s", {.kind = HOLDFAST_HELD_SEMAPHORE, .want = 4, .total = 3}).error().code, errc::invalid);
}

}  // namespace
}  // namespace holdfast::test
