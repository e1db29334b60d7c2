#include "dict/lock_word.h"

#include "sync/shmtx.h"
#include "world/process_table.h"
#include "world/world.h"

namespace holdfast {

static_assert(!LockWord::make(owner_bits(make_token(kSlots - 1, 0)), 0).is_free() &&
              LockWord::make(owner_bits(make_token(kSlots, 0)), 0).is_free());

Token owner_of(World& world, const LockFields& lock) noexcept {
  const LockWord word = load_word_of(lock, kAcquire);
  if (word.is_free()) return kNobody;
  return is_complete(lock, word) ? owner_of(lock, word) : world.token_of(word.owner());
}

Token owner_of(World& world, const SeenGrant& seen) noexcept {
  return seen.complete || seen.word.is_free() ? seen.owner : world.token_of(seen.word.owner());
}

// Completes the grant unless its owner is about to do so. An owner that is about to complete its grant is inside a
// section (lock/fast_path.cc). If it has left the section in the meantime, it has completed the grant, so the grant is
// checked again.
void mend_incomplete(World& world, LockFields& lock) noexcept {
  const LockWord word = load_word_of(lock, kAcquire);
  if (word.is_free() || is_complete(lock, word)) [[likely]]
    return;
  // This thread is inside a section, because it has the mutex.
  const std::uint64_t self = word.owner() == owner_bits(world.known_token()) ? 1 : 0;
  if (count_inside(world, word.owner()) > self || is_complete(lock, word)) return;
  lock.granted.store(word.turn(), kRelaxed);
}

}  // namespace holdfast
