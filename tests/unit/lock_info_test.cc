// Tests holdfast_lock_holder, which returns the holder of a lock, and the reason, which is kept in a separate block.
#include "lock/lock_info.h"

#include <gtest/gtest.h>

#include <string>

#include "dict/holder_list.h"
#include "support/dict_test.h"
#include "support/started.h"
#include "support/waiting.h"

namespace holdfast::test {
namespace {

class LockInfoTest : public DictTest {
 protected:
  LockInfoTest() : DictTest({.size = 16384}) {}

  LockFields& lock() { return view().lock(); }
  EntryView view() { return place_of("lock").view; }
  holdfast_lease take(double exptime = 0) {
    holdfast_lease lease{};
    EXPECT_EQ(dict.try_lock("lock", exptime, &lease), HOLDFAST_OK);
    return lease;
  }
  holdfast_lease take_and_explain(const std::string& why, double exptime = 0) {
    const holdfast_lease lease = take(exptime);
    EXPECT_EQ(dict.explain("lock", lease, why), HOLDFAST_OK);
    return lease;
  }
  /// Returns the holder's reason, or "nobody" if the lock is not held.
  std::string why() {
    holdfast_holder holder{};
    const int code = dict.holder("lock", &holder);
    return code == HOLDFAST_OK ? holder.why : code == HOLDFAST_NOT_FOUND ? "nobody" : holdfast_code_text(code);
  }
  std::uint32_t notes() { return count_shard(shard()).holders; }
};

TEST_F(LockInfoTest, a_dead_holder_is_reported_as_dead_until_another_process_takes_the_lock) {
  Resident child([&] { take_and_explain("dies with it"); });
  holdfast_holder holder{};
  ASSERT_EQ(dict.holder("lock", &holder), HOLDFAST_OK);
  EXPECT_EQ(holder.alive, 1U);
  EXPECT_EQ(holder.pid, static_cast<std::uint32_t>(child.pid()));
  EXPECT_EQ(holder.worker, 0xFFFFFFFF);
  EXPECT_EQ(std::string(holder.program), "lock_info_test");
  child.kill_and_wait();
  ASSERT_EQ(dict.holder("lock", &holder), HOLDFAST_OK);
  EXPECT_EQ(holder.alive, 0U);
  EXPECT_EQ(std::string(holder.why), "dies with it");
  holdfast_lease lease = take();
  EXPECT_EQ(why(), "") << "the next holder inherited the reason";
  EXPECT_EQ(notes(), 0U);
  dict.unlock("lock", &lease);
}

// --- the reason ---

TEST_F(LockInfoTest, an_empty_text_removes_the_reason) {
  const holdfast_lease lease = take_and_explain("a reason");
  EXPECT_EQ(dict.explain("lock", lease, ""), HOLDFAST_OK);
  EXPECT_EQ(why(), "");
  EXPECT_EQ(notes(), 0U);
}

TEST_F(LockInfoTest, any_text_up_to_the_limit_is_kept) {
  const holdfast_lease lease = take();
  for (std::size_t length = 1; length <= HOLDFAST_WHY_MAX; ++length) {
    std::string text(length, '\xFF');
    text.front() = static_cast<char>('a' + length % 26);
    ASSERT_EQ(dict.explain("lock", lease, text), HOLDFAST_OK);
    ASSERT_EQ(why(), text);
  }
  EXPECT_EQ(dict.explain("lock", lease, std::string(HOLDFAST_WHY_MAX + 1, 'x')), HOLDFAST_INVALID);
  EXPECT_STREQ(holdfast_error(), "bad why: expected at most 127 bytes, got 128");
  EXPECT_EQ(why().size(), std::size_t{HOLDFAST_WHY_MAX}) << "the refused reason replaced the old one";
}

TEST_F(LockInfoTest, only_the_holder_can_give_a_reason) {
  holdfast_lease lease = take_and_explain("mine");
  holdfast_lease other = lease;
  ++other.sequence;
  EXPECT_EQ(dict.explain("lock", other, "no"), HOLDFAST_NOT_OWNER);
  in_process([&] {
    EXPECT_EQ(dict.explain("lock", lease, "no"), HOLDFAST_NOT_OWNER) << "a child does not hold its parent's lock";
  });
  EXPECT_EQ(why(), "mine");
  dict.unlock("lock", &lease);
  other = {lease.owner, 0};
  EXPECT_EQ(dict.explain("lock", other, "no"), HOLDFAST_NOT_OWNER);
  lease = take(0.001);
  sleep_ms(10);
  EXPECT_EQ(why(), "nobody");
  EXPECT_EQ(dict.explain("lock", lease, "late"), HOLDFAST_NOT_OWNER);
  dict.set("lock", "value");
  EXPECT_EQ(dict.explain("lock", lease, "a value"), HOLDFAST_NOT_OWNER);
}

TEST_F(LockInfoTest, a_reason_is_removed_when_an_expired_lock_is_taken) {
  take_and_explain("expires", 0.001);
  sleep_ms(10);
  holdfast_lease lease = take();
  EXPECT_EQ(notes(), 0U);
  EXPECT_EQ(check_shard(shard()), "");
  dict.unlock("lock", &lease);
}

TEST_F(LockInfoTest, the_waiter_that_is_granted_the_lock_does_not_inherit_the_reason) {
  holdfast_lease lease = take_and_explain("the holder's");
  Waiting waiting;
  holdfast_lease next{};
  EXPECT_EQ(waiting.once(dict, "lock", &next), HOLDFAST_LOCKED);
  sleep_ms(5);
  EXPECT_EQ(dict.unlock("lock", &lease), HOLDFAST_OK);
  EXPECT_EQ(notes(), 0U);
  EXPECT_EQ(waiting.once(dict, "lock", &next), HOLDFAST_OK);
  EXPECT_EQ(why(), "");
  dict.unlock("lock", &next);
}

TEST_F(LockInfoTest, a_full_dictionary_makes_room_for_a_reason_or_reports_no_memory) {
  const holdfast_lease lease = take();
  for (int i = 0; dict.store(HOLDFAST_SAFE_SET, "fill" + std::to_string(i), std::string(40, 'f'), 0, 0) == HOLDFAST_OK;)
    ++i;
  EXPECT_EQ(dict.explain("lock", lease, std::string(127, 'w')), HOLDFAST_OK) << "values must be evicted to make room";
  EXPECT_EQ(why(), std::string(127, 'w'));
  dict.explain("lock", lease, "");
  dict.flush_all();
  std::vector<holdfast_lease> leases;
  for (int i = 0;; ++i) {
    holdfast_lease other{};
    if (dict.try_lock("lock-" + std::to_string(i), 0, &other) != HOLDFAST_OK) break;
    leases.push_back(other);
  }
  ASSERT_GT(leases.size(), 10U);
  EXPECT_EQ(dict.explain("lock-0", leases[0], std::string(127, 'w')), HOLDFAST_NO_MEMORY)
      << "held locks cannot be evicted";
  holdfast_holder holder{};
  EXPECT_EQ(dict.holder("lock-0", &holder), HOLDFAST_OK) << "the lock is still held";
}

// --- repair ---

TEST_F(LockInfoTest, repair_cuts_an_invalid_reason) {
  for (int damage = 0; damage < 5; ++damage) {
    SCOPED_TRACE(damage);
    holdfast_lease lease = take_and_explain("damaged");
    Entry& record = shard().entry(lock().reason.load());
    if (damage == 0) lock().reason.store(shard().granules());
    if (damage == 1) record.shape.store(record.shape.load() ^ 0x10000);
    if (damage == 2) record.hash.store(record.hash.load() ^ 1);
    if (damage == 3) record.value_size.store(sizeof(HolderFields) + kReasonMax + 1);
    if (damage == 4)
      lock().reason.store(static_cast<std::uint32_t>(
          (reinterpret_cast<std::byte*>(view().entry) - reinterpret_cast<std::byte*>(&shard().entry(0))) / kGranule));
    EXPECT_EQ(why(), "") << "the holder must be found although the reason is invalid";
    EXPECT_EQ(check_shard(shard()), "");
    EXPECT_EQ(dict.unlock("lock", &lease), HOLDFAST_OK);
  }
}

}  // namespace
}  // namespace holdfast::test
