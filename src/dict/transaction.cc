#include "dict/transaction.h"
#include "dict/reclaimer.h"

namespace holdfast {

// Takes over the lock that was found. REQUIRES: the entry found is a lock.
void Transaction::take_over_found() noexcept {
  LockFields& lock = view().lock();
  take_over(lock);
  if (load_word_of(lock).unowned() == abandoned_) end_grant_of(lock);
  mend_incomplete(world_, lock);
}

bool Transaction::is_lock_settled() noexcept {
  if (wait_until_complete(view().lock())) return true;
  in_the_way_ = load_word_of(view().lock()).unowned();
  return false;
}

Code Transaction::make_room(std::uint32_t granules, Evict evict) noexcept {
  if (granules > segment_.geometry().block_max()) return Code::too_large;
  return Reclaimer(world_, segment_, shard_, arena_).make(granules, evict, key_, position_, evicted_);
}

// Keeps the entry's block as the spare block, because a value that replaces another value, or is stored again after a
// removal, often has the same size.
inline void Transaction::discard(std::uint32_t block, const EntryView& view) noexcept {
  if (is_holdable(view.type) || view.type == EntryType::list)
    Reclaimer(world_, segment_, shard_, arena_).discard(block, view);
  else
    arena_.keep(block, view.granules);
}

// Moves the waiters, in their order, to the entry that replaces their entry. No link leads to the new entry yet.
static void move_waiters(const EntryView& from, const EntryView& to) noexcept {
  const auto move = [](Word32& word, Word32& target) {
    target.store(word.load(kRelaxed), kRelaxed);
    word.store(0, kRelaxed);
  };
  move(from.queue().head, to.queue().head);
  move(from.queue().tail, to.queue().tail);
  move(from.overtakes(), to.overtakes());
}

// Locks and permits do not replace live values, so they do not change the version.
[[gnu::cold, gnu::noinline]] void Transaction::link_with_version(std::uint32_t block, EntryType type) const noexcept {
  commit_change(is_holdable(type) ? Stripes() : shard_.stripes(), key_.short_hash(), *position_.link, block);
}

inline void Transaction::link(std::uint32_t block, EntryType type) const noexcept {
  if (shard_.stripes()) [[unlikely]]
    return link_with_version(block, type);
  commit(*position_.link, block);
}

Code Transaction::put(const ValueIn& value, std::uint64_t end_ms, Evict evict) noexcept {
  if (value.size > kValueMax) return Code::too_large;
  const std::uint64_t needed = granules_for(key_.length, value.size);
  if (needed > segment_.geometry().block_max()) return Code::too_large;
  if (!is_settled()) return Code::timeout;
  const auto granules = static_cast<std::uint32_t>(needed);
  std::uint32_t block = value.type == EntryType::lock ? arena_.allocate_lines(granules) : arena_.allocate(granules);
  if (block == 0) {
    const Code code = make_room(granules, evict);
    if (code != Code::ok) return code;
    block = arena_.allocate(granules);
    if (block == 0) return Code::corrupt;
  }
#ifdef HOLDFAST_TEST_MISORDER  // links the entry before it is filled: tests/crash must catch this
  commit(*position_.link, block);
#endif
  shard_.fill(block, key_, value, expiry_word(end_ms, flush_epoch()));
  note_end(shard_, end_ms);
  const std::uint32_t old = position_.block;
  const EntryView old_view = old != 0 ? position_.view : EntryView{};
  shard_.entry(block).next.store(old != 0 ? old_view.entry->next.load(kRelaxed) : 0, kRelaxed);
  const EntryView view{&shard_.entry(block), value.type, key_.length, static_cast<std::uint32_t>(value.size), granules};
  if (old != 0 && is_holdable(old_view.type) && is_holdable(value.type)) move_waiters(old_view, view);
  link(block, value.type);
  if (old != 0) {
    discard(old, old_view);
    shard_.touch_replacement(block, old);
  } else {
    Word32& entries = shard_.header().entries;
    shard_.uses(block).store(0, kRelaxed);
    entries.store(entries.load(kRelaxed) + 1, kRelaxed);
  }
  position_.block = block;
  position_.view = view;
  return Code::ok;
}

Code Transaction::cut() noexcept {
  if (!is_settled()) return Code::timeout;
  commit_value(*position_.link, view().entry->next.load(kRelaxed));
  discard(position_.block, view());
  Word32& entries = shard_.header().entries;
  entries.store(entries.load(kRelaxed) - 1, kRelaxed);
  position_.block = 0;
  return Code::ok;
}

}  // namespace holdfast
