#include "support/shard_check.h"

#include <algorithm>
#include <vector>

namespace holdfast::test {

namespace {

constexpr std::uint32_t kWordsPerGranule = kGranule / 4;

/// Walks over everything in a shard and records the owner of each granule.
class Walker {
 public:
  explicit Walker(const Shard& shard) : shard_(shard), taken_(shard.granules(), 0), begins_(shard.granules() + 1, 0) {}

  std::string walk() {
    if (shard_.header().in_use.load() == 0) return walk_unused();
    for (std::uint32_t bucket = 0; bucket < shard_.buckets() && problem_.empty(); ++bucket) walk_chain(bucket);
    walk_spare();
    for (std::uint32_t bin = kSpareBin + 1; bin < kBins && problem_.empty(); ++bin) walk_bin(bin);
    if (problem_.empty()) check_totals();
    return problem_;
  }

  const ShardCount& count() const { return count_; }

 private:
  static constexpr char kUsed = 1;
  static constexpr char kFree = 2;
  static constexpr char kFreeStart = 3;

  std::string walk_unused() {
    for (std::uint32_t bucket = 0; bucket < shard_.buckets(); ++bucket)
      if (shard_.bucket(bucket).load() != 0) fail("an unused shard has an entry", bucket);
    if (shard_.header().entries.load() != 0 || shard_.header().free_granules.load() != 0)
      fail("an unused shard has counts", 0);
    count_.free_granules = shard_.free_granules();
    return problem_;
  }

  void fail(const std::string& what, std::uint64_t where) {
    if (problem_.empty()) problem_ = what + " (" + std::to_string(where) + ")";
  }

  bool take(std::uint32_t block, std::uint32_t count, char kind) {
    if (block == 0 || count == 0 || block >= taken_.size() || count > taken_.size() - block) {
      fail("block outside the arena", block);
      return false;
    }
    begins_[block] = 1;
    for (std::uint32_t i = block; i < block + count; ++i) {
      if (taken_[i] != 0) {
        fail("a granule belongs to two blocks", i);
        return false;
      }
      taken_[i] = kind;
    }
    return true;
  }

  void walk_chain(std::uint32_t bucket) {
    std::uint32_t block = shard_.bucket(bucket).load(kRelaxed);
    while (block != 0 && problem_.empty()) {
      EntryView view{};
      if (!shard_.inspect(block, view)) return fail("invalid entry", block);
      if (!has_key(view.type)) return fail("a chain contains a waiter, a holder or a list's node", block);
      if (&shard_.bucket_of(view.entry->hash.load(kRelaxed)) != &shard_.bucket(bucket))
        return fail("an entry is in the wrong chain", block);
      if (!take(block, view.granules, kUsed)) return;
      count_.used_granules += view.granules;
      ++count_.entries;
      if (is_holdable(view.type)) {
        if (view.type == EntryType::lock || view.is_free()) ++perhaps_free_;
        walk_queue(view.queue(), EntryType::waiter);
        if (view.type == EntryType::lock) walk_queue(view.lock().watchers, EntryType::watcher);
        walk_holders(view);
      }
      if (view.type == EntryType::list) walk_list(view);
      block = view.entry->next.load(kRelaxed);
    }
  }

  void walk_queue(const QueueFields& queue, EntryType type) {
    std::uint32_t last = 0;
    for (std::uint32_t block = queue.head.load(kRelaxed); block != 0 && problem_.empty();) {
      EntryView view{};
      if (!shard_.inspect(block, view) || view.type != type)
        return fail("a queue contains something other than a waiter", block);
      if (!take(block, view.granules, kUsed)) return;
      count_.used_granules += view.granules;
      ++count_.waiters;
      last = block;
      block = view.entry->next.load(kRelaxed);
    }
    if (queue.tail.load(kRelaxed) != last) fail("a queue's tail is not its last waiter", last);
  }

  void walk_holders(const EntryView& holdable) {
    const bool is_lock = holdable.type == EntryType::lock;
    const std::uint32_t first = (is_lock ? holdable.lock().reason : holdable.permits().holders).load(kRelaxed);
    std::uint64_t used = 0;
    std::vector<EntryView> holders;
    for (std::uint32_t block = first; block != 0 && problem_.empty();) {
      EntryView view{};
      if (!shard_.inspect(block, view) || view.type != EntryType::holder || view.key_length != 0)
        return fail("a chain of holders contains something other than a holder", block);
      if (!take(block, view.granules, kUsed)) return;
      if (view.entry->hash.load(kRelaxed) != holdable.entry->hash.load(kRelaxed))
        return fail("a holder belongs to another key", block);
      used += view.holder().count.load(kRelaxed);
      holders.push_back(view);
      count_.used_granules += view.granules;
      ++count_.holders;
      block = view.entry->next.load(kRelaxed);
      if (is_lock && block != 0) return fail("a lock has two reasons", block);
    }
    if (is_lock && first != 0 && holdable.is_free()) return fail("a lock that nobody holds has a reason", first);
    if (!is_lock && problem_.empty() && std::min<std::uint64_t>(used, ~0U) != holdable.permits().used.load(kRelaxed))
      fail("the count of used permits is wrong", used);
    if (!is_lock && problem_.empty()) check_shortcuts(holdable.permits(), holders);
  }

  void check_shortcuts(const PermitFields& permits, const std::vector<EntryView>& holders) {
    if (permits.number.load(kRelaxed) != holders.size()) return fail("the number of holders is wrong", holders.size());
    std::uint64_t last = ~std::uint64_t{0};
    for (const EntryView& view : holders) {
      const std::uint64_t sequence = view.holder().sequence.load(kRelaxed);
      if (sequence >= last) return fail("the holders' fencing tokens do not descend", sequence);
      if (sequence != 0) last = sequence;
    }
    for (std::uint32_t level = 1; level <= kShortcuts; ++level) {
      std::uint32_t next = permits.shortcuts[level - 1].load(kRelaxed);
      for (const EntryView& view : holders) {
        const Word32& link = shortcut_of(*view.entry, level);
        if (shortcut_levels(view.holder().sequence.load(kRelaxed)) < level) {
          if (link.load(kRelaxed) != 0) return fail("a holder that should have no shortcut has one", level);
          continue;
        }
        if (next == 0 || &shard_.entry(next) != view.entry)
          return fail("a shortcut skips a holder with a shortcut", next);
        next = link.load(kRelaxed);
      }
      if (next != 0) return fail("a shortcut leads beyond the last holder", next);
    }
  }

  void walk_list(const EntryView& list) {
    const ListEnds ends = list.list_ends();
    if (ends.length == 0) return fail("empty list", ends.first);
    std::uint32_t block = ends.first;
    std::uint32_t previous = 0;
    for (std::uint32_t i = 0; i < ends.length && problem_.empty(); ++i) {
      EntryView view{};
      if (!shard_.inspect(block, view) || view.type != EntryType::node)
        return fail("a list contains something other than a node", block);
      if (!take(block, view.granules, kUsed)) return;
      const auto& node = *reinterpret_cast<const ListNode*>(view.entry);
      if (node.hash.load(kRelaxed) != list.entry->hash.load(kRelaxed))
        return fail("a node belongs to another list", block);
      if (i != 0 && node.previous.load(kRelaxed) != previous) return fail("a node does not point back", block);
      count_.used_granules += view.granules;
      ++count_.nodes;
      previous = block;
      block = node.next.load(kRelaxed);
    }
    if (problem_.empty() && previous != ends.last) fail("a list's end does not name its last node", ends.last);
  }

  bool is_marked(std::uint32_t block) const { return (shard_.free_bits()[block / 64].load() >> block % 64 & 1) != 0; }

  // The arena checks the spare block's seal.
  void walk_spare() {
    const std::uint32_t block = shard_.header().bins[kSpareBin].load();
    if (block == 0) return;
    if (block >= shard_.granules()) return fail("the spare block is outside the arena", block);
    const std::uint32_t size = shard_.words32(block)[0].load();
    if (!take(block, size, kUsed)) return;
    if (is_marked(block) || is_marked(block + size - 1)) return fail("the spare block has marks", block);
    count_.free_granules += size;
  }

  void walk_bin(std::uint32_t bin) {
    const ShardHeader& header = shard_.header();
    const bool in_map = (header.bin_map[bin / 64].load() >> bin % 64 & 1) != 0;
    if (in_map != (header.bins[bin].load() != 0)) return fail("the map of bins disagrees with a bin", bin);
    std::uint32_t previous = 0;
    for (std::uint32_t block = header.bins[bin].load(); block != 0 && problem_.empty();) {
      if (block >= shard_.granules()) return fail("a free block is outside the arena", block);
      const Word32* words = shard_.words32(block);
      const std::uint32_t size = words[0].load();
      if (bin < kExactBins && size != bin) return fail("a free block is in the wrong bin", block);
      if (!take(block, size, kFree)) return;
      taken_[block] = kFreeStart;
      if (words[2].load() != previous) return fail("a free block does not point back", block);
      if (words[size * kWordsPerGranule - 1].load() != size) return fail("a free block has two sizes", block);
      if (!is_marked(block) || !is_marked(block + size - 1)) return fail("a free block lacks its marks", block);
      marks_ += size == 1 ? 1 : 2;
      count_.free_granules += size;
      previous = block;
      block = words[1].load();
    }
  }

  void check_totals() {
    const ShardHeader& header = shard_.header();
    for (std::uint32_t i = 1; i < taken_.size(); ++i) {
      if (taken_[i] == 0) return fail("a granule belongs to no block", i);
      if (taken_[i] == kFreeStart && taken_[i - 1] > kUsed) return fail("two free blocks are adjacent", i);
    }
    std::uint32_t bits = 0;
    for (std::uint32_t i = 0; i < taken_.size(); ++i) bits += is_marked(i) ? 1 : 0;
    if (bits != marks_) return fail("free bits belong to no free block", bits);
    const std::uint32_t hand = header.hand.load();
    if (hand != 0 && hand != taken_.size() && (hand > taken_.size() || begins_[hand] == 0))
      return fail("the sweep's hand points into a block", hand);
    if (header.free_granules.load() != count_.free_granules)
      return fail("the count of free granules is wrong", header.free_granules.load());
    if (header.waiters.load() != count_.waiters) return fail("the count of waiters is wrong", header.waiters.load());
    if (header.entries.load() != count_.entries) return fail("the count of entries is wrong", header.entries.load());
    if (header.perhaps_free.load() != perhaps_free_)
      return fail("the count of free locks and permits is wrong", header.perhaps_free.load());
  }

  const Shard& shard_;
  std::vector<char> taken_;
  std::vector<char> begins_;  // whether a block begins in this granule
  ShardCount count_;
  std::uint32_t perhaps_free_ = 0;
  std::uint32_t marks_ = 0;
  std::string problem_;
};

}  // namespace

std::string check_shard(const Shard& shard) { return Walker(shard).walk(); }

std::string check_segment(Segment& segment) {
  for (std::size_t i = 0; i < segment.shards().size(); ++i) {
    Shard& shard = segment.shards()[i];
    if (shard.open_if_used()) shard.catch_up();  // other processes may have used the shard
    const std::string problem = check_shard(shard);
    if (!problem.empty()) return "shard " + std::to_string(i) + ": " + problem;
  }
  return "";
}

ShardCount count_shard(const Shard& shard) {
  Walker walker(shard);
  walker.walk();
  return walker.count();
}

}  // namespace holdfast::test
