// Who holds something: blocks of the shard's arena, chained on an entry.
//
// On a permits entry the chain is the truth: who has permits is who has a block in it. On a lock's entry it has at most
// one block, the note, which says why the lock is held; who holds it is said by the lock's owner word.
//
// A block is filled, then added by one store of the chain's first link; it is taken out by one store of the link that
// leads to it, then given back. Only its expiry, its count and its task change in between, by one store each. Each
// carries the hash of its entry's key, so that a link which was overwritten does not lead into another chain.
//
// Nothing here trusts what it loads. What makes no sense ends a walk and has the shard repaired.
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

/// What a block says.
struct Holder {
  Token owner = kNobody;
  std::uint64_t sequence = 0;
  std::uint64_t since_ms = 0;
  std::uint64_t expiry = 0;  // dict/expiry.h
  std::uint32_t count = 1;
  std::uint32_t task = 0;
  std::string_view why;
};

class HolderList {
 public:
  /// `first`: the link to the chain's first block. `hash`: the lower half of the hash of the entry's key.
  HolderList(const Shard& shard, Arena& arena, Word32& first, std::uint32_t hash) noexcept
      : shard_(shard), arena_(arena), first_(first), hash_(hash) {}

  static constexpr std::uint32_t granules(std::size_t why_length) noexcept {
    return static_cast<std::uint32_t>(granules_for(0, sizeof(HolderFields) + why_length));
  }

  bool empty() const noexcept { return first_.load(kRelaxed) == 0; }

  /// A filled block, in no chain; 0 if there is no free run for it. REQUIRES: `why` has at most kWhyMax bytes.
  static std::uint32_t create(Arena& arena, const Shard& shard, std::uint32_t hash, const Holder& hold) noexcept;

  /// REQUIRES: create() gave the block.
  void add(std::uint32_t block) noexcept;

  /// Goes along the chain: `for (Cursor at(holds); at.found(); at.advance())`.
  class Cursor {
   public:
    explicit Cursor(const HolderList& holds) noexcept : holders_(holds), link_(&holds.first_) { look(); }

    /// Whether there is a block; false at the end, and at what makes no sense.
    bool found() const noexcept { return block_ != 0; }
    // The rest REQUIRES: found().
    void advance() noexcept {
      link_ = &view_.entry->next;
      look();
    }
    HolderFields& fields() const noexcept { return view_.holder(); }
    Word64& expiry() const noexcept { return view_.entry->expiry; }
    /// Whether it is that grant's.
    bool is_of(Token owner, std::uint64_t sequence) const noexcept {
      return fields().sequence.load(kRelaxed) == sequence && fields().owner.load(kRelaxed) == owner;
    }
    Holder copy() const noexcept;
    /// The text, as many bytes as fit. Returns how many it has.
    std::size_t copy_why(char* buffer, std::size_t capacity) const noexcept;
    /// Takes the block out and gives it back; goes on to the next one.
    void remove() noexcept;
    /// Puts the block, which create() gave, in this one's place, by one store. Stands on the new one then.
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

  /// Cuts the whole chain off by one store, and gives its blocks back.
  void clear() noexcept;
  /// Takes out what `dead` hold. How many that were. `used`: where the counts of the rest are summed up.
  std::uint32_t remove_dead(const DeadOwners& dead, Word32& used) noexcept;
  /// Gives the blocks back. REQUIRES: the entry is cut from its chain.
  void release_all() noexcept { release_from(first_.load(kRelaxed)); }

  /// For repair: keeps the longest beginning of the chain of which all blocks make sense. `claim(block, granules) ->
  /// bool` marks memory as taken; false: it is somebody else's.
  struct Kept {
    std::uint32_t cuts = 0;
    std::uint32_t used = 0;  // the counts together
  };
  template <class Claim>
  Kept repair(Claim&& claim) noexcept;

 private:
  bool inspect(std::uint32_t block, EntryView& view) const noexcept;
  void release_from(std::uint32_t block) noexcept;

  const Shard& shard_;
  Arena& arena_;
  Word32& first_;
  const std::uint32_t hash_;
};

/// A hold of the entry whose key has this hash.
inline bool is_holder(const EntryView& view, std::uint32_t hash) noexcept {
  return view.type == EntryType::holder && view.key_length == 0 && view.entry->hash.load(kRelaxed) == hash;
}

/// The note of a lock; a chain of one at most.
inline HolderList reason_of(const Shard& shard, Arena& arena, const EntryView& lock) noexcept {
  return {shard, arena, lock.lock().reason, lock.entry->hash.load(kRelaxed)};
}
inline HolderList holders_of(const Shard& shard, Arena& arena, const EntryView& permits) noexcept {
  return {shard, arena, permits.permits().holders, permits.entry->hash.load(kRelaxed)};
}

template <class Claim>
HolderList::Kept HolderList::repair(Claim&& claim) noexcept {
  Kept kept;
  Word32* link = &first_;
  // Each step claims memory, so a chain that runs in a circle ends where it meets itself.
  for (std::uint32_t block = link->load(kRelaxed); block != 0; block = link->load(kRelaxed)) {
    EntryView view{};
    if (!inspect(block, view) || !claim(block, view.granules)) {
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
