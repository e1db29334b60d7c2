#include "dict/holder_list.h"

#include "dict/dead_owners.h"
#include "dict/key.h"

namespace holdfast {

namespace {

Word64* text_of(const EntryView& holder) noexcept { return holder.value() + sizeof(HolderFields) / 8; }

}  // namespace

std::uint32_t HolderList::create(Arena& arena, const Shard& shard, std::uint32_t hash, const Holder& holder) noexcept {
  const std::uint32_t block = arena.allocate(granules(holder.reason.size()));
  if (block != 0) fill(shard, block, hash, holder);
  return block;
}

void HolderList::fill(const Shard& shard, std::uint32_t block, std::uint32_t hash, const Holder& holder) noexcept {
  Entry& e = shard.entry(block);
  e.next.store(0, kRelaxed);
  e.hash.store(hash, kRelaxed);
  e.shape.store(kHolderShape, kRelaxed);
  e.value_size.store(static_cast<std::uint32_t>(sizeof(HolderFields) + holder.reason.size()), kRelaxed);
  e.flags.store(0, kRelaxed);
  e.stamp.store(0, kRelaxed);
  e.expiry.store(holder.expiry, kRelaxed);
  auto& fields = *reinterpret_cast<HolderFields*>(&e + 1);
  fields.owner.store(holder.owner, kRelaxed);
  fields.sequence.store(holder.sequence, kRelaxed);
  fields.since.store(holder.since.bits, kRelaxed);
  fields.count.store(holder.count, kRelaxed);
  fields.task.store(holder.task, kRelaxed);
  store_bytes(reinterpret_cast<Word64*>(&fields + 1), holder.reason.data(), holder.reason.size());
}

// Sets the first holder's fencing token to 0 if it is not smaller than a later token, because the token must have been
// overwritten. Only the first holder can be checked. This is enough, because every holder was once the first.
void HolderList::forget_number_of(std::uint32_t first, std::uint64_t later) noexcept {
  EntryView view{};
  if (!inspect(first, view) || holder_of(view).sequence.load(kRelaxed) < later) [[likely]]
    return;
  for (std::uint32_t level = 1; level <= kShortcuts; ++level) {
    Word32& link = shortcut_of(*view.entry, level);
    if (shortcuts_[level - 1].load(kRelaxed) == first) commit(shortcuts_[level - 1], link.load(kRelaxed));
    link.store(0, kRelaxed);
  }
  commit(holder_of(view).sequence, std::uint64_t{0});
}

void HolderList::add(std::uint32_t block) noexcept {
  Entry& e = shard_.entry(block);
  const std::uint32_t first = first_.load(kRelaxed);
  e.next.store(first, kRelaxed);
  std::uint32_t levels = 0;
  if (shortcuts_ != nullptr) {
    const std::uint64_t sequence = reinterpret_cast<HolderFields*>(&e + 1)->sequence.load(kRelaxed);
    if (first != 0) forget_number_of(first, sequence);
    levels = shortcut_levels(sequence);
    for (std::uint32_t level = 1; level <= levels; ++level)
      shortcut_of(e, level).store(shortcuts_[level - 1].load(kRelaxed), kRelaxed);
  }
  commit(first_, block);
  for (std::uint32_t level = 1; level <= levels; ++level) commit(shortcuts_[level - 1], block);
}

void HolderList::add_shortcuts(std::uint32_t block) noexcept {
  const auto& fields = *reinterpret_cast<const HolderFields*>(&shard_.entry(block) + 1);
  const std::uint32_t levels = shortcut_levels(fields.sequence.load(kRelaxed));
  for (std::uint32_t level = 1; level <= levels; ++level) commit(shortcuts_[level - 1], block);
}

// Returns whether the token at `next` shows that `sequence` was overwritten: it is larger than `sequence`, but smaller
// than the token before `sequence`. If the token after `next` is smaller than both, then the token at `next` may be the
// overwritten one, and is checked next.
bool HolderList::Rebuild::is_too_small(std::uint64_t sequence, const EntryView& view) const noexcept {
  EntryView next{};
  EntryView behind{};
  if (!holders_.inspect(view.entry->next.load(kRelaxed), next)) return false;
  const std::uint64_t number = holder_of(next).sequence.load(kRelaxed);
  if (number <= sequence || number >= last_) return false;
  return !holders_.inspect(next.entry->next.load(kRelaxed), behind) ||
         holder_of(behind).sequence.load(kRelaxed) >= sequence;
}

void HolderList::Rebuild::take(std::uint32_t block, const EntryView& view) noexcept {
  Word64& number = holder_of(view).sequence;
  std::uint64_t sequence = number.load(kRelaxed);
  if (sequence >= last_ || is_too_small(sequence, view)) sequence = 0;
  if (sequence != number.load(kRelaxed)) commit(number, sequence);
  if (sequence != 0) last_ = sequence;
  const std::uint32_t levels = shortcut_levels(sequence);
  for (std::uint32_t level = 1; level <= kShortcuts; ++level) {
    Word32& shortcut = shortcut_of(*view.entry, level);
    shortcut.store(0, kRelaxed);
    if (level > levels) continue;
    links_[level - 1]->store(block, kRelaxed);
    links_[level - 1] = &shortcut;
  }
}

void HolderList::release_from(std::uint32_t block) noexcept {
  while (block != 0 && !arena_.damaged()) {
    EntryView view{};
    if (!inspect(block, view)) return arena_.set_damaged();
    block = arena_.release_link(*view.entry, block, view.granules);
  }
}

void HolderList::clear() noexcept {
  const std::uint32_t first = first_.load(kRelaxed);
  if (first == 0) return;
  commit(first_, 0U);
  release_from(first);
}

std::uint32_t HolderList::remove_dead(const DeadOwners& dead) noexcept {
  std::uint32_t found = 0;
  for (Cursor at(*this); at.found();) {
    if (dead.has(at.fields().owner.load(kRelaxed))) {
      at.remove();
      ++found;
    } else {
      at.advance();
    }
  }
  return found;
}

// --- the cursor ---

void HolderList::Cursor::set_damaged() noexcept {
  holders_.arena_.set_damaged();
  block_ = 0;
}

inline void HolderList::Cursor::look() noexcept {
  block_ = links_[0]->load(kRelaxed);
  if (block_ == 0) return;
  if (steps_++ < holders_.shard_.granules() && holders_.inspect(block_, view_)) [[likely]]
    return;
  set_damaged();
}

HolderList::Cursor::Cursor(const HolderList& holders) noexcept
    : holders_(holders),
      links_{&holders.first_, holders.shortcuts_, holders.shortcuts_ != nullptr ? holders.shortcuts_ + 1 : nullptr} {
  look();
}

void HolderList::Cursor::advance() noexcept {
  if (holders_.shortcuts_ != nullptr)
    for (std::uint32_t level = 1; level <= kShortcuts; ++level)
      if (links_[level]->load(kRelaxed) == block_) links_[level] = &shortcut_of(*view_.entry, level);
  links_[0] = &view_.entry->next;
  look();
}

// Records that the search passes this holder. The tokens that the search passes descend, so the search terminates.
inline bool HolderList::Cursor::pass(std::uint32_t block, std::uint64_t number) noexcept {
  if (number >= passed_) [[unlikely]] {
    set_damaged();
    return false;
  }
  passed_ = number;
  passed_block_ = block;
  return true;
}

// Takes the shortcut of this level if it skips only holders with larger tokens.
bool HolderList::Cursor::hop(std::uint32_t level, std::uint64_t sequence) noexcept {
  const std::uint32_t block = links_[level]->load(kRelaxed);
  EntryView view{};
  if (!holders_.inspect(block, view)) {
    set_damaged();
    return false;
  }
  const std::uint64_t number = holder_of(view).sequence.load(kRelaxed);
  if (number <= sequence || !pass(block, number)) return false;
  for (std::uint32_t i = 1; i <= level; ++i) links_[i] = &shortcut_of(*view.entry, i);
  links_[0] = &view.entry->next;
  return true;
}

HolderList::Cursor::Cursor(const HolderList& holders, std::uint64_t sequence) noexcept
    : holders_(holders), links_{&holders.first_, holders.shortcuts_, holders.shortcuts_ + 1} {
  for (std::uint32_t level = kShortcuts; level != 0; --level)
    while (links_[level]->load(kRelaxed) != 0 && hop(level, sequence)) {
    }
  if (holders.arena_.damaged()) [[unlikely]]
    return;
  // Do not follow shortcuts from here on, because the next shortcut leads too far.
  for (look(); found(); links_[0] = &view_.entry->next, look()) {
    const std::uint64_t number = this->sequence();
    if (number == 0) [[unlikely]]  // lost
      continue;
    if (number <= sequence || !pass(block_, number)) return;
  }
}

// Returns whether the absence of the token is certain. The search ended between two neighbours. It was misled if the
// token of one neighbour was overwritten. In this case, that token is out of order, so a search for that token ends at
// another block.
bool HolderList::Cursor::is_absence_proved() const noexcept {
  if (found()) {
    Cursor behind = *this;
    do behind.advance();
    while (behind.found() && behind.sequence() == 0);
    if (behind.found() && behind.sequence() >= sequence()) return false;
  }
  return passed_block_ == 0 || Cursor(holders_, passed_).block_ == passed_block_;
}

HolderList::Cursor HolderList::find(Token owner, std::uint64_t sequence) const noexcept {
  Cursor at(*this, sequence);
  if (at.found() && at.is_of(owner, sequence)) [[likely]]
    return at;
  if (!arena_.damaged() && !at.is_absence_proved()) arena_.set_damaged();
  at.block_ = 0;
  return at;
}

Holder HolderList::Cursor::copy() const noexcept {
  const HolderFields& f = fields();
  return {f.owner.load(kRelaxed),
          f.sequence.load(kRelaxed),
          Since{f.since.load(kRelaxed)},
          expiry().load(kRelaxed),
          f.count.load(kRelaxed),
          f.task.load(kRelaxed),
          {}};
}

std::size_t HolderList::Cursor::copy_reason(char* buffer, std::size_t capacity) const noexcept {
  const std::size_t length = view_.value_size - sizeof(HolderFields);
  load_bytes(text_of(view_), buffer, std::min(length, capacity));
  return length;
}

void HolderList::Cursor::give_back(std::uint32_t block) noexcept {
  view_.entry->shape.store(0, kRelaxed);
  holders_.arena_.release(block, view_.granules);
}

// Returns whether the shortcuts that must lead to this block do so.
bool HolderList::Cursor::fits_shortcuts() noexcept {
  if (holders_.shortcuts_ == nullptr) return true;
  const std::uint32_t levels = shortcut_levels(sequence());
  for (std::uint32_t level = 1; level <= levels; ++level) {
    if (links_[level]->load(kRelaxed) == block_) continue;
    set_damaged();
    return false;
  }
  return true;
}

void HolderList::Cursor::remove() noexcept {
  if (!fits_shortcuts()) return;
  const std::uint32_t old = block_;
  commit(*links_[0], view_.entry->next.load(kRelaxed));
  if (holders_.shortcuts_ != nullptr)
    for (std::uint32_t level = 1; level <= kShortcuts; ++level)
      if (links_[level]->load(kRelaxed) == old) commit(*links_[level], shortcut_of(*view_.entry, level).load(kRelaxed));
  give_back(old);
  look();
}

void HolderList::Cursor::replace(std::uint32_t block) noexcept {
  if (!fits_shortcuts()) return;
  const std::uint32_t old = block_;
  Entry& e = holders_.shard_.entry(block);
  e.next.store(view_.entry->next.load(kRelaxed), kRelaxed);
  const bool has_shortcuts = holders_.shortcuts_ != nullptr;
  for (std::uint32_t level = 1; has_shortcuts && level <= kShortcuts; ++level)
    shortcut_of(e, level).store(shortcut_of(*view_.entry, level).load(kRelaxed), kRelaxed);
  commit(*links_[0], block);
  for (std::uint32_t level = 1; has_shortcuts && level <= kShortcuts; ++level)
    if (links_[level]->load(kRelaxed) == old) commit(*links_[level], block);
  give_back(old);
  look();
}

}  // namespace holdfast
