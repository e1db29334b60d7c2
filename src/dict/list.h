// A list: nodes of the shard's arena, hung on an entry. Every change is one store of the entry's word (dict/layout.h).
//
// REQUIRES, for every call: the shard's mutex.
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
  List(const Shard& shard, Arena& arena, ListFields& fields) noexcept : shard_(shard), arena_(arena), fields_(fields) {}

  std::uint32_t length() const noexcept { return ends().length; }

  /// A node filled with the value, in no list yet; 0 if there is no free block for it.
  static std::uint32_t create(const Shard& shard, Arena& arena, const Key& key, const ValueIn& value) noexcept;
  /// The word of a list that has just this node.
  static std::uint64_t only(std::uint32_t node) noexcept { return ListEnds{node, node, 1}.packed(); }

  /// Adds the node. False on damage, with nothing changed.
  bool push(End end, std::uint32_t node) noexcept;
  /// Copies the element at that end: ok, buffer (too small: `out.size` says what it takes), corrupt.
  /// REQUIRES: it is not empty.
  Code peek(End end, ValueOut& out) const noexcept;
  /// Takes the element at that end out. False on damage, with nothing changed. REQUIRES: it has more than one.
  bool pop(End end) noexcept;

  /// Gives all nodes back. REQUIRES: the list's entry is cut from its chain.
  void release_nodes() noexcept;
  /// For repair: keeps the longest beginning of the list of which all nodes make sense, and rebuilds what is derived.
  /// `claim(block, granules) -> bool` marks a node's memory as taken; false: it is somebody else's. Number of cuts.
  template <class Claim>
  std::uint32_t repair(Claim&& claim) noexcept;

  /// Lets the copy at `to` take the place of the node `from` in its list, wherever that is, by one store. False if the
  /// node is in no list that can be found.
  static bool relink(const Shard& shard, std::uint32_t from, std::uint32_t to) noexcept;

 private:
  ListEnds ends() const noexcept { return ListEnds::of(fields_.ends.load(kRelaxed)); }

  const Shard& shard_;
  Arena& arena_;
  ListFields& fields_;
};

}  // namespace holdfast
