#include "damage/places.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "sync/shmtx.h"
#include "world/process_table.h"

namespace holdfast::damage {

namespace {

constexpr const char* name_of(EntryType type) {
  constexpr std::pair<EntryType, const char*> kNames[] = {
      {EntryType::boolean, "boolean"}, {EntryType::number, "number"},       {EntryType::string, "string"},
      {EntryType::table, "table"},     {EntryType::list, "list"},           {EntryType::lock, "lock"},
      {EntryType::waiter, "waiter"},   {EntryType::node, "node of a list"}, {EntryType::permits, "permits"},
      {EntryType::holder, "holder"},   {EntryType::watcher, "watcher"}};
  for (const auto& [named, name] : kNames)
    if (named == type) return name;
  return "free block";
}

}  // namespace

Places::Places(const Box& box)
    : box_(box), geometry_(Geometry::of(box.size())), segment_words_(box.size() / 4), structure_(box.size() / 4) {
  for (const Piece& piece : box.pieces()) table_words_ += piece.size / 4;
  pick_statistics();
  pick_stripes();
  walk();
}

void Places::pick(const void* from, std::size_t bytes) {
  const auto first = static_cast<std::uint64_t>(static_cast<const std::byte*>(from) - box_.bytes()) / 4;
  for (std::uint64_t word = first; word < first + bytes / 4; ++word) later_words_.push_back(word);
}

// Chooses the sums, longest times and first counts of all histograms, and all used records.
void Places::pick_statistics() {
  const auto& fields = *reinterpret_cast<const StatisticsFields*>(box_.bytes() + box_.size());
  for (const HistogramFields& histogram : fields.histograms) {
    pick(&histogram, 16);
    pick(&histogram.counts, 32);
  }
  for (const auto& set : fields.contended)
    for (const ContendedFields& record : set)
      if (record.hash.load(kRelaxed) != 0) pick(&record, sizeof record);
}

void Places::pick_stripes() {
  Segment& segment = *const_cast<Box&>(box_).dict().dictionary().segment(EpochGuard());
  if (!segment.has_versions()) return;
  for (const Item& item : box_.items())
    pick(&segment.stripe_at(segment.stripe_number(Key(item.key, segment.seed()).hash)), sizeof(Stripe));
}

// Walks the arena from left to right, which is the order in which the box was filled.
void Places::walk() {
  Segment& segment = *const_cast<Box&>(box_).dict().dictionary().segment(EpochGuard());
  const Shard& shard = segment.shards().front();
  for (std::uint32_t bucket = 0; bucket < shard.buckets(); ++bucket)
    structure_[(kHeaderBytes + sizeof(ShardHeader)) / 4 + bucket] = true;
  for (std::uint32_t at = 1; at < shard.granules();) {
    Block block{at, 0, EntryType{0}, false};
    EntryView view{};
    const bool is_free = (shard.free_bits()[at / 64].load(kRelaxed) >> at % 64 & 1) != 0;
    if (is_free || shard.header().bins[kSpareBin].load(kRelaxed) == at) {
      block.granules = shard.words32(at)[0].load(kRelaxed);
    } else if (shard.inspect(at, view)) {
      block = {at, view.granules, view.type, false};
      const auto* const key = reinterpret_cast<const char*>(view.entry + 1);
      block.theirs = view.key_length == 6 && std::memcmp(key, "theirs", 6) == 0;
      note_structure(shard, block);
    }
    if (block.granules == 0) break;
    blocks_.push_back(block);
    at += block.granules;
  }
  for (std::uint64_t word = (kHeaderBytes + geometry_.arena_at) / 4; word < segment_words_; ++word)
    if (structure_[word]) links_.push_back(word);
}

void Places::note_structure(const Shard& shard, const Block& block) {
  const std::size_t first = (kHeaderBytes + geometry_.arena_at) / 4 + std::size_t{block.at} * (kGranule / 4);
  if (block.type == EntryType::waiter || block.type == EntryType::watcher)
    return;  // their words are derived from other words
  EntryView view{};
  if (!shard.inspect(block.at, view)) return;
  for (std::size_t word = 0; word < 4; ++word) structure_[first + word] = true;  // next, hash, shape, value_size
  const auto note = [&](const void* field, std::size_t words) {
    const auto at = static_cast<std::size_t>(static_cast<const std::byte*>(field) - box_.bytes()) / 4;
    for (std::size_t i = 0; i < words; ++i) structure_[at + i] = true;
  };
  if (block.type == EntryType::list) note(&view.list(), 2);
  if (block.type == EntryType::permits) note(&view.permits().holders, 1);
}

const Places::Block* Places::block_at(std::size_t offset) const {
  if (offset < kHeaderBytes + geometry_.arena_at || offset >= box_.size()) return nullptr;
  const std::size_t granule = (offset - kHeaderBytes - geometry_.arena_at) / kGranule;
  for (const Block& block : blocks_)
    if (granule >= block.at && granule < block.at + block.granules) return &block;
  return nullptr;
}

std::uint32_t Places::first_of(EntryType type) const {
  for (const Block& block : blocks_)
    if (block.type == type) return block.at;
  return 1;
}

Damage Places::word_at(std::uint64_t word, std::uint64_t kind) const {
  const std::uint64_t in_dictionary = segment_words_ + later_words_.size();
  Damage damage{word >= in_dictionary, word * 4, 4, 0};
  const std::byte* base = box_.bytes();
  if (!damage.in_table && word >= segment_words_) damage.offset = later_words_[word - segment_words_] * 4;
  if (damage.in_table) {
    word -= in_dictionary;
    base = box_.table();
    for (const Piece& piece : box_.pieces()) {
      damage.offset = piece.offset + word * 4;
      if (word < piece.size / 4) break;
      word -= piece.size / 4;
    }
  }
  if (kind >= kNarrow) {
    damage.bytes = 8;
    damage.offset = damage.offset / 8 * 8;
  }
  std::uint64_t old = 0;
  std::memcpy(&old, base + damage.offset, damage.bytes);
  damage.value = kind < kNarrow ? narrow(kind, static_cast<std::uint32_t>(old), damage.offset, damage.in_table)
                                : wide(kind - kNarrow, old);
  return damage;
}

// Returns small numbers, owners of mutexes, and blocks of each kind.
std::uint32_t Places::narrow(std::uint64_t kind, std::uint32_t old, std::size_t offset, bool in_table) const {
  const Block* const own = in_table ? nullptr : block_at(offset);
  const std::array<std::uint32_t, 13> numbers{
      0,
      0xFFFFFFFF,
      1,
      old ^ 1,
      old ^ 1U << 31,
      old + 1,
      old ^ 1U << offset / 4 % 32,
      owner_bits(box_.self()),
      owner_bits(box_.living()),
      owner_bits(box_.dead()),
      static_cast<std::uint32_t>(owner_bits(box_.living()) | kShmtxWaiters),
      own != nullptr ? own->at
                     : geometry_.granules - 1,  // in an entry, this link makes the chain lead back to the entry
      own != nullptr ? own->at + own->granules : geometry_.granules};
  if (kind < numbers.size()) return numbers[kind];
  static constexpr std::array kKinds{EntryType::string, EntryType::lock,   EntryType::list,    EntryType::node,
                                     EntryType::waiter, EntryType::holder, EntryType::watcher, EntryType{0}};
  return first_of(kKinds[std::min<std::size_t>(kind - numbers.size(), kKinds.size() - 1)]);
}

std::uint64_t Places::wide(std::uint64_t kind, std::uint64_t old) const {
  const std::uint64_t another = box_.living() + 1;  // a different process in the same slot
  const std::array<std::uint64_t, kWide> numbers{
      0, ~std::uint64_t{0}, old ^ std::uint64_t{1} << 52, old - 1, box_.self(), box_.living(), box_.dead(), another};
  return numbers[kind];
}

std::string Places::describe(const Damage& damage) const {
  const auto plus = [](const std::string& what, std::size_t offset) { return what + " +" + std::to_string(offset); };
  if (damage.in_table) {
    if (damage.offset < kHeaderBytes) return plus("header of the table", damage.offset);
    if (damage.offset >= kWaitTableOffset) return plus("waits", damage.offset - kWaitTableOffset);
    const std::size_t at = damage.offset - kHeaderBytes;
    const auto slot = static_cast<std::uint32_t>(at / sizeof(ProcessSlot));
    const char* const of = slot == slot_of(box_.self()) ? "own" : slot == slot_of(box_.living()) ? "living" : "dead";
    return plus(std::string(of) + " process's slot", at % sizeof(ProcessSlot));
  }
  if (damage.offset < kHeaderBytes) return plus("header", damage.offset);
  if (damage.offset >= box_.size() + kStatisticsBytes)
    return plus("stripes", damage.offset - box_.size() - kStatisticsBytes);
  if (damage.offset >= box_.size()) return plus("statistics", damage.offset - box_.size());
  const std::size_t at = damage.offset - kHeaderBytes;
  if (at < sizeof(ShardHeader)) return plus("header of the shard", at);
  if (at < geometry_.free_bits_at) return plus("bucket", at - sizeof(ShardHeader));
  if (at < geometry_.uses_at) return plus("free bits", at - geometry_.free_bits_at);
  if (at < geometry_.arena_at) return plus("uses", at - geometry_.uses_at);
  const Block* const block = block_at(damage.offset);
  if (block == nullptr) return "no block";
  return plus(name_of(block->type), at - geometry_.arena_at - std::size_t{block->at} * kGranule);
}

bool Places::is_structure(const Damage& damage) const {
  if (damage.in_table || damage.offset >= box_.size()) return false;
  return structure_[damage.offset / 4] || (damage.bytes == 8 && structure_[damage.offset / 4 + 1]);
}

bool Places::frees_theirs(const Damage& damage) const {
  if (damage.in_table) return false;
  if (is_structure(damage)) return true;
  if (damage.offset <= offsetof(DictionaryHeader, flush_epoch) &&
      damage.offset + damage.bytes > offsetof(DictionaryHeader, flush_epoch))
    return true;
  const Block* const block = block_at(damage.offset);
  return block != nullptr && block->theirs;
}

}  // namespace holdfast::damage
