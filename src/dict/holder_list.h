// The holders of an entry: blocks of the shard's arena, chained on it.
//
// On a permits entry the chain is the truth: a grant of permits is a block in it. On a lock's entry the chain has at
// most one block, which gives the reason why the lock is held; the lock's owner word says which process holds it.
//
// A block is filled, then added by one store to the chain's first link. It is taken out by one store to the link that
// leads to it, then released. In between only its expiry, its count and its task change, by one store each. Each block
// carries the hash of its entry's key, so that an overwritten link does not lead into another chain.
//
// Nothing here trusts what it loads: a block that makes no sense ends a walk and has the shard repaired.
//
// REQUIRES, for every call: the shard's mutex.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "base/token.h"
#include "dict/arena.h"
#include "dict/shard.h"

namespace holdfast {

class DeadOwners;

/// The content of a holder block.
struct Holder {
  Token owner = kNobody;
  std::uint64_t sequence = 0;
  std::uint64_t since_ms = 0;
  std::uint64_t expiry = 0;  // dict/expiry.h
  std::uint32_t count = 1;
  std::uint32_t task = 0;
  std::string_view reason;
};

class HolderList {
 public:
  /// `first`: the link to the chain's first block. `hash`: the lower half of the hash of the entry's key.
  HolderList(const Shard& shard, Arena& arena, Word32& first, std::uint32_t hash) noexcept
      : shard_(shard), arena_(arena), first_(first), hash_(hash) {}

  static constexpr std::uint32_t granules(std::size_t reason_length) noexcept {
    return static_cast<std::uint32_t>(granules_for(0, sizeof(HolderFields) + reason_length));
  }

  bool empty() const noexcept { return first_.load(kRelaxed) == 0; }

  /// Allocates and fills a block that is in no chain; 0 if there is no free run for it. REQUIRES: `reason` has at most
  /// kReasonMax bytes.
  static std::uint32_t create(Arena& arena, const Shard& shard, std::uint32_t hash, const Holder& holder) noexcept;

  /// Adds the block to the chain. REQUIRES: create() returned it.
  void add(std::uint32_t block) noexcept;

  /// Walks along the chain: `for (Cursor at(holders); at.found(); at.advance())`.
  class Cursor {
   public:
    explicit Cursor(const HolderList& holders) noexcept : holders_(holders), link_(&holders.first_) { look(); }

    /// Whether the cursor is on a block: false at the end, and at a block that makes no sense.
    bool found() const noexcept { return block_ != 0; }
    // All that follows REQUIRES: found().
    void advance() noexcept {
      link_ = &view_.entry->next;
      look();
    }
    HolderFields& fields() const noexcept { return view_.holder(); }
    Word64& expiry() const noexcept { return view_.entry->expiry; }
    /// Whether the block is of that grant.
    bool is_of(Token owner, std::uint64_t sequence) const noexcept {
      return fields().sequence.load(kRelaxed) == sequence && fields().owner.load(kRelaxed) == owner;
    }
    Holder copy() const noexcept;
    /// Copies the reason, as many bytes of it as fit. Returns its length.
    std::size_t copy_reason(char* buffer, std::size_t capacity) const noexcept;
    /// Takes the block out and releases it; goes on to the next one.
    void remove() noexcept;
    /// Puts `block` in the place of this one, by one store, and releases this one. The cursor is on `block` then.
    /// REQUIRES: create() returned it.
    void replace(std::uint32_t block) noexcept;

   private:
    void look() noexcept;
    void give_back(std::uint32_t block) noexcept;

    const HolderList& holders_;
    Word32* link_;
    std::uint32_t block_ = 0;
    EntryView view_{};
    std::uint32_t steps_ = 0;
  };

  /// Cuts off the whole chain by one store, and releases its blocks.
  void clear() noexcept;
  /// Takes out the blocks of dead owners. Returns how many there were. `used` is set to the sum of the counts of the
  /// others.
  std::uint32_t remove_dead(const DeadOwners& dead, Word32& used) noexcept;
  /// Releases the blocks. REQUIRES: the entry is cut from its chain.
  void release_all() noexcept { release_from(first_.load(kRelaxed)); }

  /// For repair: keeps the longest beginning of the chain in which all blocks make sense. `occupy(block, granules) ->
  /// bool` marks memory as occupied; it returns false if something else occupies it.
  struct Kept {
    std::uint32_t cuts = 0;
    std::uint32_t used = 0;  // the sum of the counts
  };
  template <class Occupy>
  Kept repair(Occupy&& occupy) noexcept;

 private:
  bool inspect(std::uint32_t block, EntryView& view) const noexcept;
  void release_from(std::uint32_t block) noexcept;

  const Shard& shard_;
  Arena& arena_;
  Word32& first_;
  const std::uint32_t hash_;
};

/// Whether the block is a holder of an entry with this hash of its key.
inline bool is_holder(const EntryView& view, std::uint32_t hash) noexcept {
  return view.type == EntryType::holder && view.key_length == 0 && view.entry->hash.load(kRelaxed) == hash;
}

/// The reason of a lock: a chain of at most one block.
inline HolderList reason_of(const Shard& shard, Arena& arena, const EntryView& lock) noexcept {
  return {shard, arena, lock.lock().reason, lock.entry->hash.load(kRelaxed)};
}
inline HolderList holders_of(const Shard& shard, Arena& arena, const EntryView& permits) noexcept {
  return {shard, arena, permits.permits().holders, permits.entry->hash.load(kRelaxed)};
}

template <class Occupy>
HolderList::Kept HolderList::repair(Occupy&& occupy) noexcept {
  Kept kept;
  Word32* link = &first_;
  // Each step occupies memory, so a circular chain ends where it meets itself.
  for (std::uint32_t block = link->load(kRelaxed); block != 0; block = link->load(kRelaxed)) {
    EntryView view{};
    if (!inspect(block, view) || !occupy(block, view.granules)) {
      commit(*link, 0U);
      ++kept.cuts;
      break;
    }
    const std::uint32_t count = view.holder().count.load(kRelaxed);
    kept.used = count < ~kept.used ? kept.used + count : ~0U;
    link = &view.entry->next;
  }
  return kept;
}

}  // namespace holdfast
