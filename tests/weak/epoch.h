// The reuse epoch, for the tests of reads without a lock.
#pragma once

#include "weak/protocol.h"

namespace holdfast::weak {

struct EpochOrders : Protocol {
  Ordering epoch_store{this, "epoch_store", kRelease};  // Arena::release, repair
  Ordering reuse_fence{this, "reuse_fence", kRelease};  // Arena::release, repair
  Ordering epoch_load{this, "epoch_load", kAcquire};    // Shard::read
  Ordering check_fence{this, "check_fence", kAcquire};  // Shard::unchanged_since
};

struct Epoch {
  Location word;

  /// Advances the epoch after a block was unlinked, and before it is reused.
  void advance(const EpochOrders& how, Thread& t, Value next) const {
    t.store(word, next, how.epoch_store);
    t.fence(how.reuse_fence);
  }
  /// Loads the epoch before a read.
  Value load(const EpochOrders& how, Thread& t) const { return t.load(word, how.epoch_load); }
  /// Call this after a read. Returns true if the read was not torn.
  bool unchanged_since(const EpochOrders& how, Thread& t, Value before) const {
    t.fence(how.check_fence);
    return t.load(word, kRelaxed) == before;
  }
};

}  // namespace holdfast::weak
