// A list: nodes in the shard's arena, attached to an entry. Every change commits by one store to the entry's word, or
// to the link that leads to a node that moves (dict/layout.h).
//
// `first`, `length`, and the `next` of all nodes but the last define the list. `last`, and the `previous` of all nodes
// but the first, are derived, and are correct whenever the mutex is free. The `next` of the last node and the
// `previous` of the first node are meaningless, so a push may write them before it commits.
//
// Nothing here trusts what it loads. A call that finds damage only reports it. repair() leaves lists in a state in
// which every call works.
//
// REQUIRES, for every call: the shard's mutex is held.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "dict/arena.h"
#include "dict/key.h"
#include "dict/shard.h"

namespace holdfast {

enum class End { left = 0, right = 1 };

class List {
 public:
  /// Makes the view of a list. REQUIRES: the entry's type is list.
  List(const Shard& shard, Arena& arena, const EntryView& entry) noexcept
      : shard_(shard), arena_(arena), list_(entry), hash_(entry.entry->hash.load(kRelaxed)) {}

  std::uint32_t length() const noexcept { return ends().length; }

  /// Allocates a node with the value. The node is not in a list yet. Returns 0 if there is no free block for it.
  static std::uint32_t create(const Shard& shard, Arena& arena, const Key& key, const ValueIn& value) noexcept;
  /// Returns the value of a list that consists of this node.
  static ValueIn only(std::uint32_t node) noexcept {
    return {EntryType::list, node, ListEnds{node, node, 1}.word(), nullptr, sizeof(ListFields)};
  }

  /// Adds the node. On damage, returns false and changes nothing.
  bool push(End end, std::uint32_t node) noexcept;
  /// Copies the element at this end. Returns ok or corrupt, or buffer if the buffer is too small; `out.size` is then
  /// the size needed.
  Code peek(End end, ValueOut& out) const noexcept;
  /// Removes the element at this end. On damage, returns false and changes nothing. REQUIRES: the list has more than
  /// one element.
  bool pop(End end) noexcept;

  /// Releases all nodes. REQUIRES: the list's entry was cut from its chain.
  void release_nodes() noexcept;

  /// Repairs the list: keeps it up to the first inconsistent node, and rebuilds the derived parts. `occupy(block,
  /// granules) -> bool` marks a node's memory as occupied; it returns false if something else occupies it. Returns the
  /// number of cuts. If length() is 0 afterwards, the caller must remove the entry.
  template <class Occupy>
  std::uint32_t repair(Occupy&& occupy) noexcept;

  /// Replaces the node `from`, at any position of its list, with the copy at `to`, by one store. Returns false and
  /// changes nothing if the node's list cannot be found. REQUIRES: the two nodes do not overlap.
  ///
  /// The commit is a store to the `next` of the previous node or, for the first node, to the entry's word. After it,
  /// the `previous` of the next node, and `last`, are set to `to`. If the process dies in between, repair sets them;
  /// each of the two copies is complete.
  static bool relink(const Shard& shard, std::uint32_t from, std::uint32_t to) noexcept;

 private:
  /// A node whose fields were loaded once and found to be inside the arena.
  struct Node {
    ListNode* fields;
    EntryType type;  // of the value
    std::uint32_t value_size;
    std::uint32_t granules;
  };

  ListEnds ends() const noexcept { return list_.list_ends(); }
  /// Commits the change by the store of the word. If the process dies before the second store, repair() makes this
  /// store.
  void change(const ListEnds& then) noexcept {
    commit_change(shard_.stripes(), hash_, list_.list().word, then.word());
    list_.entry->flags.store(then.last, kRelaxed);
  }
  /// Describes the node at `block`. Returns false if no node of this list begins there.
  bool inspect(std::uint32_t block, Node& node) const noexcept;
  bool relink_end(const ListEnds& now, std::uint32_t from, std::uint32_t to) noexcept;
  bool relink_inner(std::uint32_t from, std::uint32_t to) noexcept;

  const Shard& shard_;
  Arena& arena_;
  const EntryView list_;
  std::uint32_t hash_;  // of the key; the nodes also contain it
};

template <class Occupy>
std::uint32_t List::repair(Occupy&& occupy) noexcept {
  const ListEnds old = ends();
  ListEnds kept{old.first, 0, 0};
  // Each step marks memory as occupied, so the walk along a circular list ends where it meets itself.
  for (std::uint32_t block = old.first; kept.length < old.length; ++kept.length) {
    Node node{};
    if (!inspect(block, node) || !occupy(block, node.granules)) break;
    node.fields->previous.store(kept.last, kRelaxed);
    kept.last = block;
    block = node.fields->next.load(kRelaxed);
  }
  if (kept.word() != old.word() || kept.last != old.last) {
    commit(list_.list().word, kept.word());  // the versions of all keys change with the repair
    list_.entry->flags.store(kept.last, kRelaxed);
  }
  return kept.length == old.length && kept.length != 0 ? 0 : 1;
}

}  // namespace holdfast
