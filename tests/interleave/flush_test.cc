// Tests concurrent flushes when the epoch is about to wrap around.
#include <gtest/gtest.h>

#include "dict/expiry.h"
#include "dict/segment.h"
#include "interleave/failpoint.h"
#include "support/dict.h"

namespace holdfast::test {
namespace {

constexpr std::uint32_t kLastBeforeASweep = (kFlushMask >> 1) - 1;

// Fails if a flush checks whether it must sweep, but then advances an epoch that another flush has changed after the
// check.
TEST(interleave_flush, the_epoch_never_advances_without_its_sweep) {
  const ScratchDirectory directory;
  Dict dict("dict");
  ASSERT_EQ(dict.status, HOLDFAST_OK) << holdfast_error();
  Word32& epoch = dict.segment().header().flush_epoch;
  epoch.store(kLastBeforeASweep);
  ASSERT_EQ(dict.set("key", "flushed"), HOLDFAST_OK);
  int other = -1;
  at_failpoint("flush.looked", [&] { other = holdfast_flush_all(dict.handle); });
  EXPECT_EQ(holdfast_flush_all(dict.handle), HOLDFAST_OK);
  EXPECT_EQ(other, HOLDFAST_OK);
  EXPECT_EQ(dict.get("key"), nothing());
  EXPECT_EQ(holdfast_flush_all(dict.handle), HOLDFAST_OK);
  EXPECT_GT(epoch.load(), kLastBeforeASweep + 1);
  epoch.store(kLastBeforeASweep + kFlushMask + 1);
  EXPECT_EQ(dict.get("key"), nothing()) << "the flushed key has come back";
}

}  // namespace
}  // namespace holdfast::test
