// The holders of an entry: a chain of blocks in the shard's arena, attached to the entry.
//
// In a permits entry, this chain alone determines who holds permits: each grant is a block in it. In a lock's entry,
// the chain has at most one block, which contains the reason why the lock is held. The lock's owner word says which
// process holds it.
//
// A block is filled, then added by one store to the chain's first link. It is removed by one store to the link that
// leads to it, then released. While the chain reaches it, only its expiry, its count and its task change, each by one
// store. Each block contains the hash of its entry's key, so that an overwritten link does not lead into another chain.
//
// Each block is added at the front, and each fencing token is larger than all earlier tokens. So the tokens descend
// along the chain of a permits entry. An overwritten token misleads a search only if the token is out of order.
//
// Shortcuts, which are derived from the chain, skip about 32 or about 1024 holders each, so the holder with a given
// token is found in a few dozen steps. A search takes a shortcut only if the skipped holders have larger tokens than
// the token that is searched for. So an overwritten shortcut is detected, or only costs time.
//
// No function here trusts the fields that it loads: an inconsistent block ends a walk, and the shard is then repaired.
//
// REQUIRES, for every call: the shard's mutex is held.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "base/token.h"
#include "dict/arena.h"
#include "dict/shard.h"

namespace holdfast {

class DeadOwners;

/// The Entry::shape of a holder, and the mask of its meaningful bits.
inline constexpr std::uint32_t kHolderShape = Entry::make_shape(0, EntryType::holder);
inline constexpr std::uint32_t kHolderShapeMask = 0xFFFFFF;

/// Returns the fields of a holder. REQUIRES: the block is a holder.
inline HolderFields& holder_of(const EntryView& view) noexcept {
  return *reinterpret_cast<HolderFields*>(view.entry + 1);
}
constexpr std::uint32_t granules_of_holder(std::uint32_t value_size) noexcept {
  return static_cast<std::uint32_t>(sizeof(Entry) + value_size + kGranule - 1) / kGranule;
}

/// The content of a holder block.
struct Holder {
  Token owner = kNobody;
  std::uint64_t sequence = 0;
  Since since{};
  std::uint64_t expiry = 0;  // dict/expiry.h
  std::uint32_t count = 1;
  std::uint32_t task = 0;
  std::string_view reason;
};

class HolderList {
 public:
  /// Makes the list of a permits entry's holders. `hash` is the lower half of the hash of the entry's key.
  HolderList(const Shard& shard, Arena& arena, PermitFields& permits, std::uint32_t hash) noexcept
      : shard_(shard), arena_(arena), first_(permits.holders), shortcuts_(permits.shortcuts.data()), hash_(hash) {}
  /// Makes the list of a lock's holder. `first` is the link to its only block.
  HolderList(const Shard& shard, Arena& arena, Word32& first, std::uint32_t hash) noexcept
      : shard_(shard), arena_(arena), first_(first), shortcuts_(nullptr), hash_(hash) {}

  static constexpr std::uint32_t granules(std::size_t reason_length) noexcept {
    return static_cast<std::uint32_t>(granules_for(0, sizeof(HolderFields) + reason_length));
  }

  bool empty() const noexcept { return first_.load(kRelaxed) == 0; }

  /// Allocates and fills a block that is not in a chain yet. Returns 0 if there is no free run for it. REQUIRES:
  /// `reason` has at most kReasonMax bytes.
  static std::uint32_t create(Arena& arena, const Shard& shard, std::uint32_t hash, const Holder& holder) noexcept;
  /// Fills a block that is not in a chain yet. REQUIRES: the block was allocated with granules() for the reason.
  static void fill(const Shard& shard, std::uint32_t block, std::uint32_t hash, const Holder& holder) noexcept;

  /// Adds the block to the chain. REQUIRES: create() returned it, with a token larger than all tokens in the chain.
  void add(std::uint32_t block) noexcept;

  /// Sets the shortcuts to the chain's only block. Call this after creating an entry with that block.
  void add_shortcuts(std::uint32_t block) noexcept;

  /// Walks along the chain: `for (Cursor at(holders); at.found(); at.advance())`.
  class Cursor {
   public:
    explicit Cursor(const HolderList& holders) noexcept;
    /// Starts at the first holder with a token of at most `sequence`, ignoring lost tokens. REQUIRES: the chain belongs
    /// to permits.
    Cursor(const HolderList& holders, std::uint64_t sequence) noexcept;

    /// Returns whether the cursor is on a block. Returns false at the end, and at an inconsistent block.
    bool found() const noexcept { return block_ != 0; }
    // REQUIRES, for all calls below: found().
    void advance() noexcept;
    HolderFields& fields() const noexcept { return holder_of(view_); }
    Word64& expiry() const noexcept { return view_.entry->expiry; }
    std::uint64_t sequence() const noexcept { return fields().sequence.load(kRelaxed); }
    /// Returns whether the block belongs to the grant with this owner and fencing token.
    bool is_of(Token owner, std::uint64_t sequence) const noexcept {
      return fields().sequence.load(kRelaxed) == sequence && fields().owner.load(kRelaxed) == owner;
    }
    Holder copy() const noexcept;
    /// Copies the reason, or as many bytes of it as fit. Returns the reason's full length.
    std::size_t copy_reason(char* buffer, std::size_t capacity) const noexcept;
    /// Removes and releases the block, and advances to the next block. On damage, changes nothing.
    void remove() noexcept;
    /// Replaces this block with `block` by one store, and releases this block. The cursor is then on `block`. On
    /// damage, changes nothing. REQUIRES: create() returned `block`, with the token of this block.
    void replace(std::uint32_t block) noexcept;

   private:
    friend class HolderList;
    void look() noexcept;
    void set_damaged() noexcept;
    bool hop(std::uint32_t level, std::uint64_t sequence) noexcept;
    bool pass(std::uint32_t block, std::uint64_t number) noexcept;
    bool fits_shortcuts() noexcept;
    bool is_absence_proved() const noexcept;
    void give_back(std::uint32_t block) noexcept;

    const HolderList& holders_;
    std::array<Word32*, kShortcuts + 1>
        links_;  // the links that lead to this block or past it: `next`, then the shortcuts
    std::uint32_t block_ = 0;
    EntryView view_{};
    std::uint32_t steps_ = 0;
    std::uint32_t passed_block_ = 0;  // in a search: the last holder that the cursor passed, and its token
    std::uint64_t passed_ = ~std::uint64_t{0};
  };

  /// Returns a cursor on the block of the grant with this owner and token, or at the end. REQUIRES: the chain belongs
  /// to permits.
  Cursor find(Token owner, std::uint64_t sequence) const noexcept;

  /// Cuts off the whole chain by one store, and releases its blocks.
  void clear() noexcept;
  /// Removes the blocks of dead owners. Returns how many it removed.
  std::uint32_t remove_dead(const DeadOwners& dead) noexcept;
  /// Releases the blocks. REQUIRES: the entry was cut from its chain.
  void release_all() noexcept { release_from(first_.load(kRelaxed)); }

  /// The result of repair(), which keeps a permits entry's chain up to the first inconsistent block. A token that is
  /// out of order was overwritten, and is set to 0. `occupy(block, granules) -> bool` marks memory as occupied, or
  /// returns false if something else occupies it.
  struct Kept {
    std::uint32_t cuts = 0;
    std::uint32_t number = 0;  // how many holders were kept
    std::uint32_t used = 0;    // the sum of their counts
  };
  template <class Occupy>
  Kept repair(Occupy&& occupy) noexcept;

 private:
  /// Rebuilds the shortcuts along the chain.
  class Rebuild {
   public:
    explicit Rebuild(HolderList& holders) noexcept : holders_(holders) {
      for (std::uint32_t i = 0; i < kShortcuts; ++i) links_[i] = &holders.shortcuts_[i];
    }
    void take(std::uint32_t block, const EntryView& view) noexcept;
    void end() noexcept {
      for (Word32* link : links_) link->store(0, kRelaxed);
    }

   private:
    bool is_too_small(std::uint64_t sequence, const EntryView& view) const noexcept;

    const HolderList& holders_;
    std::array<Word32*, kShortcuts> links_{};
    std::uint64_t last_ = ~std::uint64_t{0};
  };

  /// Makes the view of the holder at `block`. Returns false if the block is not a holder of this chain.
  bool inspect(std::uint32_t block, EntryView& view) const noexcept;
  void forget_number_of(std::uint32_t first, std::uint64_t later) noexcept;
  void release_from(std::uint32_t block) noexcept;

  const Shard& shard_;
  Arena& arena_;
  Word32& first_;
  Word32* const shortcuts_;  // null for a lock
  const std::uint32_t hash_;
};

/// Returns whether the block is a holder of an entry with this hash of its key.
inline bool is_holder(const EntryView& view, std::uint32_t hash) noexcept {
  return view.type == EntryType::holder && view.key_length == 0 && view.entry->hash.load(kRelaxed) == hash;
}

// Does the same as Shard::inspect() and is_holder(), but in fewer steps, because each release of permits checks each
// holder that it passes.
inline bool HolderList::inspect(std::uint32_t block, EntryView& view) const noexcept {
  if (!shard_.holds_header(block)) return false;
  Entry& e = shard_.entry(block);
  const std::uint32_t size = e.value_size.load(kRelaxed);
  view.entry = &e;
  view.type = EntryType::holder;
  view.key_length = 0;
  view.value_size = size;
  view.granules = granules_of_holder(size);
  return (e.shape.load(kRelaxed) & kHolderShapeMask) == kHolderShape && e.hash.load(kRelaxed) == hash_ &&
         size - sizeof(HolderFields) <= kReasonMax && view.granules <= shard_.granules() - block;
}

/// Returns the reason of a lock, which is a chain of at most one block.
inline HolderList reason_of(const Shard& shard, Arena& arena, const EntryView& lock) noexcept {
  return {shard, arena, lock.lock().reason, lock.entry->hash.load(kRelaxed)};
}
inline HolderList holders_of(const Shard& shard, Arena& arena, const EntryView& permits) noexcept {
  return {shard, arena, permits.permits(), permits.entry->hash.load(kRelaxed)};
}

template <class Occupy>
HolderList::Kept HolderList::repair(Occupy&& occupy) noexcept {
  Kept kept;
  Rebuild shortcuts(*this);
  Word32* link = &first_;
  // Each step marks memory as occupied, so the walk along a circular chain ends where it meets itself.
  for (std::uint32_t block = link->load(kRelaxed); block != 0; block = link->load(kRelaxed)) {
    EntryView view{};
    if (!inspect(block, view) || !occupy(block, view.granules)) {
      commit(*link, 0U);
      ++kept.cuts;
      break;
    }
    shortcuts.take(block, view);
    ++kept.number;
    const std::uint32_t count = holder_of(view).count.load(kRelaxed);
    kept.used = count < ~kept.used ? kept.used + count : ~0U;
    link = &view.entry->next;
  }
  shortcuts.end();
  return kept;
}

}  // namespace holdfast
