// Lists the words of a box, and the values to which a test sets each word.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "damage/box.h"

namespace holdfast::damage {

/// A word to damage, and its new value.
struct Damage {
  bool in_table;
  std::size_t offset;  // in the dictionary or the table
  std::size_t bytes;   // 4 or 8
  std::uint64_t value;
};

class Places {
 public:
  explicit Places(const Box& box);

  /// Returns the number of cases: each word of the dictionary and of the table's pieces, with each value.
  std::uint64_t count() const { return (segment_words_ + later_words_.size() + table_words_) * kValues; }
  Damage at(std::uint64_t index) const { return word_at(index / kValues, index % kValues); }
  /// Returns the number of cases in which the word contains the position or the length of a block.
  std::uint64_t link_count() const { return links_.size() * kValues; }
  Damage link_at(std::uint64_t index) const { return word_at(links_[index / kValues], index % kValues); }

  std::string describe(const Damage& damage) const;
  /// Returns whether the word contains the position or the length of an entry, or of a block that belongs to an entry.
  /// Damage to such a word can be detected, so losses must be counted.
  bool is_structure(const Damage& damage) const;
  /// Returns whether this damage allows other processes to take the live process's lock: the word belongs to the lock
  /// itself, or counts flushes.
  bool frees_theirs(const Damage& damage) const;

 private:
  static constexpr std::uint64_t kNarrow = 20;  // values of 4 bytes
  static constexpr std::uint64_t kWide = 8;     // values of 8 bytes, at every second word
  static constexpr std::uint64_t kValues = kNarrow + kWide;

  struct Block {
    std::uint32_t at;
    std::uint32_t granules;
    EntryType type;  // EntryType{0} if the block is free
    bool theirs;
  };

  Damage word_at(std::uint64_t word, std::uint64_t kind) const;
  void walk();
  void pick(const void* from, std::size_t bytes);
  void pick_statistics();
  void pick_stripes();
  void note_structure(const Shard& shard, const Block& block);
  const Block* block_at(std::size_t offset) const;
  std::uint32_t first_of(EntryType type) const;
  std::uint32_t narrow(std::uint64_t kind, std::uint32_t old, std::size_t offset, bool in_table) const;
  std::uint64_t wide(std::uint64_t kind, std::uint64_t old) const;

  const Box& box_;
  Geometry geometry_;
  std::uint64_t segment_words_;
  std::vector<std::uint64_t> later_words_;  // some words of each kind of statistics, and of the stripes
  std::uint64_t table_words_ = 0;
  std::vector<Block> blocks_;
  std::vector<bool> structure_;       // by word
  std::vector<std::uint64_t> links_;  // the structure's words that belong to blocks
};

}  // namespace holdfast::damage
