// A dictionary with entries of every kind, which can be damaged and restored thousands of times a second.
//
// Three processes have locks in the box: one uses the box, one is alive and idle, and one is dead.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "support/dict.h"
#include "support/process.h"
#include "world/world.h"

namespace holdfast::damage {

enum class Kind {
  text,
  number,
  list,
  mine,     // a lock that the box's user holds
  theirs,   // a lock of the live process
  dead,     // a lock of the dead process
  quiet,    // a lock that nobody holds
  rwlock,   // three readers, one in each process
  permits,  // a semaphore with the same three holders
  expired,
};

struct Item {
  std::string key;
  Kind kind;
};

/// A part of the process table that is saved and may be damaged: the header page, a slot in use, or some waits.
struct Piece {
  std::size_t offset;  // from the beginning of the table
  std::size_t size;
  std::vector<std::byte> copy;
};

class Box {
 public:
  /// REQUIRES: this process has entered the world. `size` is the dictionary's size in bytes.
  explicit Box(std::uint64_t size, bool versions = false);

  test::Dict& dict() { return *dict_; }
  const std::vector<Item>& items() const { return items_; }
  const holdfast_lease& lease() const { return lease_; }  // of the lock `mine`
  /// Returns the largest fencing token that the box contains.
  std::uint64_t last_sequence() const { return last_sequence_; }
  Token self() const { return self_; }
  Token living() const { return living_token_; }
  Token dead() const { return dead_token_; }

  /// Returns the mapped dictionary.
  std::byte* bytes() const { return bytes_; }
  std::size_t size() const { return size_; }  // without the statistics at the end
  const std::vector<std::byte>& copy() const { return copy_; }
  /// Returns the mapped process table.
  std::byte* table() const { return table_; }
  const std::vector<Piece>& pieces() const { return pieces_; }

  /// Restores the initial state. Creates a new dictionary if the old one was abandoned.
  void restore();

 private:
  void make();
  void fill();
  void let_others_in();
  void live(test::Channel& parent);
  void take_part();
  void find_table();

  std::uint64_t size_;
  bool versions_;
  unsigned made_ = 0;
  std::optional<test::Dict> dict_;
  std::unique_ptr<test::Child> living_;
  std::vector<Item> items_;
  holdfast_lease lease_{};
  std::uint64_t last_sequence_ = 0;
  Token self_ = kNobody;
  Token living_token_ = kNobody;
  Token dead_token_ = kNobody;
  std::shared_ptr<const Segment> segment_;  // keeps the mapping if damage looks like a removal
  std::byte* bytes_ = nullptr;
  std::byte* table_ = nullptr;
  std::vector<std::byte> copy_;
  std::vector<Piece> pieces_;
};

}  // namespace holdfast::damage
