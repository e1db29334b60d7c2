// The versions of keys. A key's version is a number that changes whenever the key's value is set, deleted, evicted or
// flushed, or its expiry changes. The version does not change when the value expires, because everybody who has read
// the value knows when it ends.
//
// Only a dictionary that was made with versions has them. Several keys share a version: a key's hash selects one of the
// *stripes*, each of which has a version. So a version may change although the key has not changed, but a key never
// changes without its version.
//
// A change makes the stripe's word odd, commits, and makes the word even again, one higher, all in one critical
// section. This has three consequences:
//
//   - A process that sees the new value also sees that the word has changed (release of commit(), acquire of readers).
//   - A process that loads an even word and then reads a value reads the value of that version or a newer value
//     (release of the third step).
//   - A word that stays odd belongs to a process that died or was stopped in a change, and does not match any known
//     version. After a death, the next owner of the mutex repairs the shard, which gives every stripe a new version.
//
// A copy of a value is therefore current as long as the word is even and has the value that it had before the copy was
// made. No messages are needed for this.
//
// A process that waits for a change sets the bit of its slot in the stripe's word `watchers`, and then compares the
// version. A process that has changed a value loads the word after it has released the mutex. A full fence on both
// sides makes sure that at least one of the two processes sees the store of the other. The bits are hints: if a process
// dies between taking the bits and posting, the watchers notice the change at their next check (wait/parking_lot.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/atomic.h"
#include "base/failpoint.h"

namespace holdfast {

class World;

struct Stripe {
  Word64 version;  // odd while a change is under way
  // Bit s: a process whose slot is s modulo 64 may wait for a change. A hint, which readers also write.
  mutable Word64 watchers;
};
static_assert(sizeof(Stripe) == 16);

/// Returns the size, in bytes, of all stripes of a dictionary.
constexpr std::uint64_t stripe_bytes(std::uint32_t shards, std::uint32_t stripes_each) noexcept {
  return std::uint64_t{shards} * stripes_each * sizeof(Stripe);
}

/// The versions of a dictionary are the sum of words that only grow. The sum is truncated to 53 bits, so that a double
/// represents it exactly.
inline constexpr std::uint64_t kVersionMask = (std::uint64_t{1} << 53) - 1;

constexpr bool is_settled_version(std::uint64_t version) noexcept { return version % 2 == 0; }

/// Stands for the stripes of a shard that was never used.
inline const Stripe kUnusedStripe{};

/// The stripes of one shard. A dictionary without versions has none.
class Stripes {
 public:
  Stripes() = default;
  /// Makes the view. `count` is a power of two.
  Stripes(Stripe* first, std::uint32_t count) noexcept : first_(first), mask_(count - 1) {}

  explicit operator bool() const noexcept { return first_ != nullptr; }
  Stripe* begin() const noexcept { return first_; }
  Stripe* end() const noexcept { return first_ != nullptr ? first_ + mask_ + 1 : nullptr; }
  /// Returns the number of stripes, a power of two. REQUIRES: there are stripes.
  std::uint32_t count() const noexcept { return mask_ + 1; }
  /// Returns the stripe of the keys with this hash (Key::short_hash). REQUIRES: there are stripes.
  Stripe& of(std::uint32_t hash) const noexcept { return first_[hash & mask_]; }

  /// Reserves the memory of the stripes, if there are any. Returns false if there is no memory.
  bool reserve() const noexcept;

  // REQUIRES, for the calls below: the shard's mutex is held.

  /// Begins a change of all keys, or ends it.
  void begin_changes() const noexcept {
    for (Stripe& stripe : *this) begin_change(stripe);
  }
  void end_changes() const noexcept {
    for (Stripe& stripe : *this) end_change(stripe);
  }
  /// Makes the word odd. The commit that follows is a release, so a process that sees the commit sees the odd word or a
  /// later one.
  static void begin_change(Stripe& stripe) noexcept {
    stripe.version.store(stripe.version.load(kRelaxed) | 1, kRelaxed);
    crash_order();
  }
  // Release: pairs with the acquire load of a reader, which then finds the change.
  static void end_change(Stripe& stripe) noexcept { commit(stripe.version, (stripe.version.load(kRelaxed) | 1) + 1); }

 private:
  Stripe* first_ = nullptr;
  std::uint32_t mask_ = 0;
};

/// Commits a change of the value of a key with this hash, by one store. REQUIRES: the shard's mutex is held.
template <class T, class V>
[[gnu::always_inline]] inline void commit_change(const Stripes& stripes, std::uint32_t hash, std::atomic<T>& where,
                                                 V value) noexcept {
  if (!stripes) [[likely]]
    return commit(where, value);
  Stripe& stripe = stripes.of(hash);
  Stripes::begin_change(stripe);
  HOLDFAST_FAILPOINT("version.odd");
  commit(where, value);
  HOLDFAST_FAILPOINT("version.committed");
  Stripes::end_change(stripe);
}

/// Wakes the processes that wait for a change of the stripe, so that they compare its version.
void wake_watchers_of(World& world, const Stripe& stripe) noexcept;

}  // namespace holdfast
