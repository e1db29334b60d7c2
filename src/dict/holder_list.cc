#include "dict/holder_list.h"

#include "dict/dead_owners.h"
#include "dict/words.h"

namespace holdfast {

namespace {

constexpr std::uint32_t kShape = Entry::make_shape(0, EntryType::holder);

Word64* text_of(const EntryView& holder) noexcept { return holder.value() + sizeof(HolderFields) / 8; }

}  // namespace

bool HolderList::inspect(std::uint32_t block, EntryView& view) const noexcept {
  return shard_.inspect(block, view) && is_holder(view, hash_);
}

std::uint32_t HolderList::create(Arena& arena, const Shard& shard, std::uint32_t hash, const Holder& holder) noexcept {
  const std::uint32_t block = arena.allocate(granules(holder.reason.size()));
  if (block == 0) return 0;
  Entry& e = shard.entry(block);
  e.next.store(0, kRelaxed);
  e.hash.store(hash, kRelaxed);
  e.shape.store(kShape, kRelaxed);
  e.value_size.store(static_cast<std::uint32_t>(sizeof(HolderFields) + holder.reason.size()), kRelaxed);
  e.flags.store(0, kRelaxed);
  e.stamp.store(0, kRelaxed);
  e.expiry.store(holder.expiry, kRelaxed);
  auto& fields = *reinterpret_cast<HolderFields*>(&e + 1);
  fields.owner.store(holder.owner, kRelaxed);
  fields.sequence.store(holder.sequence, kRelaxed);
  fields.since.store(holder.since_ms, kRelaxed);
  fields.count.store(holder.count, kRelaxed);
  fields.task.store(holder.task, kRelaxed);
  store_bytes(reinterpret_cast<Word64*>(&fields + 1), holder.reason.data(), holder.reason.size());
  return block;
}

void HolderList::add(std::uint32_t block) noexcept {
  shard_.entry(block).next.store(first_.load(kRelaxed), kRelaxed);
  commit(first_, block);
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

std::uint32_t HolderList::remove_dead(const DeadOwners& dead, Word32& used) noexcept {
  std::uint32_t found = 0;
  std::uint64_t left = 0;
  for (Cursor at(*this); at.found();) {
    if (dead.has(at.fields().owner.load(kRelaxed))) {
      at.remove();
      ++found;
    } else {
      left += at.fields().count.load(kRelaxed);
      at.advance();
    }
  }
  used.store(static_cast<std::uint32_t>(std::min<std::uint64_t>(left, ~0U)), kRelaxed);
  return found;
}

// --- the cursor ---

void HolderList::Cursor::look() noexcept {
  block_ = link_->load(kRelaxed);
  if (block_ == 0) return;
  if (steps_++ < holders_.shard_.granules() && holders_.inspect(block_, view_)) return;
  holders_.arena_.set_damaged();
  block_ = 0;
}

Holder HolderList::Cursor::copy() const noexcept {
  const HolderFields& f = fields();
  return {f.owner.load(kRelaxed),
          f.sequence.load(kRelaxed),
          f.since.load(kRelaxed),
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

void HolderList::Cursor::remove() noexcept {
  const std::uint32_t old = block_;
  commit(*link_, view_.entry->next.load(kRelaxed));
  give_back(old);
  look();
}

void HolderList::Cursor::replace(std::uint32_t block) noexcept {
  const std::uint32_t old = block_;
  holders_.shard_.entry(block).next.store(view_.entry->next.load(kRelaxed), kRelaxed);
  commit(*link_, block);
  give_back(old);
  look();
}

}  // namespace holdfast
