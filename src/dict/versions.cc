#include "dict/versions.h"

#include "base/failpoint.h"
#include "platform/platform.h"
#include "sync/mailbox.h"

namespace holdfast {

bool Stripes::reserve() const noexcept {
  if (first_ == nullptr) return true;
  return platform::reserve_pages(reinterpret_cast<std::byte*>(first_), (std::size_t{mask_} + 1) * sizeof(Stripe)) == 0;
}

void wake_watchers_of(World& world, const Stripe& stripe) noexcept {
  // Pairs with the fence in announce() (lock/changes.cc): either this process sees the watcher's bit, or the watcher
  // sees the new version.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (stripe.watchers.load(kRelaxed) == 0) return;
  // Acquire and release: each watcher whose bit is taken here gets a post below. If the version is still the one that
  // the watcher knows, it sets the bit again.
  const std::uint64_t watchers = stripe.watchers.exchange(0, std::memory_order_acq_rel);
  HOLDFAST_FAILPOINT("watchers.taken");
  post_to_slots(world, watchers);
}

}  // namespace holdfast
