#include "dict/lock_word.h"

#include "world/world.h"

namespace holdfast {

Token owner_of(World& world, const LockFields& lock) noexcept {
  const LockWord word = load_word_of(lock, kAcquire);
  if (word.is_free()) return kNobody;
  return is_complete(lock, word) ? owner_of(lock, word) : world.token_of(word.owner());
}

}  // namespace holdfast
