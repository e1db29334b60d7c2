#include "dict/arena.h"

#include <bit>

#include "base/failpoint.h"

namespace holdfast {

namespace {

// Words in the first granule of a free block. The block's last word also contains its size.
constexpr std::uint32_t kSize = 0;
constexpr std::uint32_t kNext = 1;
constexpr std::uint32_t kPrevious = 2;
constexpr std::uint32_t kWordsPerGranule = kGranule / 4;

std::uint32_t bin_of(std::uint32_t count) noexcept {
  if (count < kExactBins) return count;
  const auto log = static_cast<std::uint32_t>(std::bit_width(count)) - 1;  // 6..31
  return kExactBins + (log - 6) * 4 + (count >> (log - 2) & 3);
}
static_assert(kExactBins == 64);

}  // namespace

bool Arena::free_bit(std::uint32_t block) const noexcept {
  return (shard_.free_bits()[block / 64].load(kRelaxed) >> block % 64 & 1) != 0;
}

void Arena::set_free_bit(std::uint32_t block, bool free) noexcept {
  Word64& word = shard_.free_bits()[block / 64];
  const std::uint64_t bit = std::uint64_t{1} << block % 64;
  const std::uint64_t old = word.load(kRelaxed);
  word.store(free ? old | bit : old & ~bit, kRelaxed);
}

std::uint32_t Arena::size_at(std::uint32_t block) noexcept {
  if (block != 0 && block < shard_.granules() && free_bit(block)) {
    const std::uint32_t size = shard_.words32(block)[kSize].load(kRelaxed);
    if (size != 0 && size <= shard_.granules() - block && free_bit(block + size - 1)) return size;
  }
  damaged_ = true;
  return 0;
}

void Arena::add_free(std::uint32_t block, std::uint32_t count) noexcept {
  const std::uint32_t bin = bin_of(count);
  const std::uint32_t first = header_.bins[bin].load(kRelaxed);
  Word32* words = shard_.words32(block);
  words[kNext].store(first, kRelaxed);
  words[kPrevious].store(0, kRelaxed);
  words[kSize].store(count, kRelaxed);
  words[count * kWordsPerGranule - 1].store(count, kRelaxed);
  set_free_bit(block, true);
  set_free_bit(block + count - 1, true);
  if (first != 0 && size_at(first) != 0) shard_.words32(first)[kPrevious].store(block, kRelaxed);
  header_.bins[bin].store(block, kRelaxed);
  Word64& map = header_.bin_map[bin / 64];
  map.store(map.load(kRelaxed) | std::uint64_t{1} << bin % 64, kRelaxed);
  header_.free_granules.store(header_.free_granules.load(kRelaxed) + count, kRelaxed);
}

// Removes a block from its bin. The block's two sizes must agree, and its neighbours in the bin must point back at it.
// So even after a word was overwritten, the memory of an entry is not allocated again, and no link leads into the
// middle of an entry.
bool Arena::remove(std::uint32_t block, std::uint32_t count) noexcept {
  const std::uint32_t bin = bin_of(count);
  const Word32* words = shard_.words32(block);
  const std::uint32_t next = words[kNext].load(kRelaxed);
  const std::uint32_t previous = words[kPrevious].load(kRelaxed);
  if (words[count * kWordsPerGranule - 1].load(kRelaxed) != count ||
      (next != 0 && (size_at(next) == 0 || shard_.words32(next)[kPrevious].load(kRelaxed) != block)) ||
      (previous != 0 && (size_at(previous) == 0 || shard_.words32(previous)[kNext].load(kRelaxed) != block)) ||
      (previous == 0 && header_.bins[bin].load(kRelaxed) != block)) {
    damaged_ = true;
    return false;
  }
  if (next != 0) shard_.words32(next)[kPrevious].store(previous, kRelaxed);
  if (previous != 0) {
    shard_.words32(previous)[kNext].store(next, kRelaxed);
  } else {
    header_.bins[bin].store(next, kRelaxed);
    Word64& map = header_.bin_map[bin / 64];
    if (next == 0) map.store(map.load(kRelaxed) & ~(std::uint64_t{1} << bin % 64), kRelaxed);
  }
  set_free_bit(block, false);
  set_free_bit(block + count - 1, false);
  header_.free_granules.store(header_.free_granules.load(kRelaxed) - count, kRelaxed);
  return true;
}

std::uint32_t Arena::next_bin(std::uint32_t from) const noexcept {
  for (std::uint32_t word = from / 64; word < kBinWords; ++word) {
    std::uint64_t bits = header_.bin_map[word].load(kRelaxed);
    if (word == from / 64) bits &= ~std::uint64_t{0} << from % 64;
    const auto bin = word * 64 + static_cast<std::uint32_t>(std::countr_zero(bits));
    if (bits != 0 && bin < kBins) return bin;
  }
  return kBins;
}

// Returns the first block of the bin that is long enough. Every block of a higher bin is long enough, but blocks of the
// request's own bin may be shorter.
Arena::Run Arena::search(std::uint32_t bin, std::uint32_t count) noexcept {
  std::uint32_t block = header_.bins[bin].load(kRelaxed);
  for (std::uint32_t steps = 0; block != 0; ++steps) {
    const std::uint32_t size = size_at(block);
    if (size == 0 || bin_of(size) != bin || steps == shard_.granules()) {
      damaged_ = true;
      break;
    }
    if (size >= count) return {block, size};
    block = shard_.words32(block)[kNext].load(kRelaxed);
  }
  return {0, 0};
}

Arena::Run Arena::find_run(std::uint32_t count) noexcept {
  for (std::uint32_t bin = next_bin(bin_of(count)); bin < kBins && !damaged_; bin = next_bin(bin + 1)) {
    const Run run = search(bin, count);
    if (run.block != 0) return run;
  }
  return {0, 0};
}

Arena::Run Arena::find_run_or_settle(std::uint32_t count) noexcept {
  const Run run = find_run(count);
  if (run.block != 0 || spare() == 0) return run;
  settle();
  return find_run(count);
}

bool Arena::can_allocate(std::uint32_t count) noexcept { return find_run_or_settle(count).block != 0; }

// Moves the hand of the clock sweep past a new block, so that the sweep reaches the block only after a complete lap.
inline void Arena::step_over(std::uint32_t block, std::uint32_t count) noexcept {
  if (header_.hand.load(kRelaxed) == block) header_.hand.store(block + count, kRelaxed);
}

// Takes the first `count` granules of the run. Returns false on damage. REQUIRES: run.size is at least count.
inline bool Arena::cut_off(const Run& run, std::uint32_t count) noexcept {
  if (!remove(run.block, run.size)) return false;
  if (run.size > count) add_free(run.block + count, run.size - count);
  step_over(run.block, count);
  return true;
}

std::uint32_t Arena::allocate(std::uint32_t count) noexcept {
  if (const std::uint32_t block = take_spare(count)) return block;
  const Run run = find_run_or_settle(count);
  return run.block != 0 && cut_off(run, count) ? run.block : 0;
}

std::uint32_t Arena::allocate_lines(std::uint32_t count) noexcept {
  const Run run = find_run(count + kGranulesPerLine - 1);
  if (run.block == 0) return damaged_ ? 0 : allocate(count);
  const std::uint32_t before = -run.block % kGranulesPerLine;
  if (before == 0) return cut_off(run, count) ? run.block : 0;
  if (!remove(run.block, run.size)) return 0;
  const std::uint32_t block = run.block + before;
  add_free(run.block, before);
  if (run.size > before + count) add_free(block + count, run.size - before - count);
  return block;
}

bool Arena::take(std::uint32_t block, std::uint32_t count) noexcept {
  const Run run{block, size_at(block)};
  if (run.size < count) damaged_ = true;
  return run.size >= count && cut_off(run, count);
}

void Arena::announce_reuse() noexcept {
  HOLDFAST_FAILPOINT("arena.release");
  // The release store comes after the cut of the link that led to the block, so a reader that sees the new epoch also
  // sees the cut. The fence comes before the first store into the block, so a reader that sees that store also sees the
  // new epoch (pairs with Shard::unchanged_since).
  header_.reuse_epoch.store(header_.reuse_epoch.load(kRelaxed) + 1, kRelease);
  std::atomic_thread_fence(kRelease);
  crash_order();
}

std::uint32_t Arena::release(std::uint32_t block, std::uint32_t count) noexcept {
  announce_reuse();
  return merge(block, count);
}

std::uint32_t Arena::merge(std::uint32_t block, std::uint32_t count) noexcept {
  if (block + count < shard_.granules() && free_bit(block + count)) {
    const std::uint32_t next = block + count;
    const std::uint32_t size = size_at(next);
    if (size == 0 || !remove(next, size)) return 0;
    count += size;
  }
  if (free_bit(block - 1)) {
    const std::uint32_t size = shard_.words32(block)[-1].load(kRelaxed);
    if (size == 0 || size >= block || size_at(block - size) != size || !remove(block - size, size)) {
      damaged_ = true;
      return 0;
    }
    block -= size;
    count += size;
  }
  add_free(block, count);
  if (header_.hand.load(kRelaxed) - block < count) header_.hand.store(block, kRelaxed);
  return block;
}

// --- the spare block ---

void Arena::keep(std::uint32_t block, std::uint32_t count) noexcept {
  announce_reuse();
  if (spare() != 0) settle();
  make_spare(block, count);
  header_.free_granules.store(header_.free_granules.load(kRelaxed) + count, kRelaxed);
}

void Arena::change_spare(std::uint32_t allocated, std::uint32_t kept, std::uint32_t count) noexcept {
  announce_reuse();
  step_over(allocated, count);
  make_spare(kept, count);
}

// Returns the size of the spare block in granules, or 0 on damage.
inline std::uint32_t Arena::spare_size(std::uint32_t block) noexcept {
  const std::uint32_t size = shard_.holds_granule(block) ? shard_.words32(block)[SpareWords::kSize].load(kRelaxed) : 0;
  if (is_spare(block, size)) return size;
  header_.bins[kSpareBin].store(0, kRelaxed);
  damaged_ = true;
  return 0;
}

// Returns the spare block if it has exactly this size, otherwise 0.
inline std::uint32_t Arena::take_spare(std::uint32_t count) noexcept {
  const std::uint32_t block = spare();
  if (block == 0 || spare_size(block) != count) return 0;
  drop_spare(count);
  step_over(block, count);
  return block;
}

inline void Arena::drop_spare(std::uint32_t count) noexcept {
  header_.bins[kSpareBin].store(0, kRelaxed);
  header_.free_granules.store(header_.free_granules.load(kRelaxed) - count, kRelaxed);
}

void Arena::settle() noexcept {
  const std::uint32_t block = spare();
  const std::uint32_t size = block != 0 ? spare_size(block) : 0;
  if (size == 0) return;
  drop_spare(size);
  merge(block, size);
}

// --- for walks over the whole arena ---

bool Arena::next_in_bin(std::uint32_t bin, std::uint32_t block, std::uint32_t& next) noexcept {
  next = block == 0 ? header_.bins[bin].load(kRelaxed) : shard_.words32(block)[kNext].load(kRelaxed);
  if (block == 0 && (next != 0) != ((header_.bin_map[bin / 64].load(kRelaxed) >> bin % 64 & 1) != 0)) return false;
  if (next == 0) return true;
  const std::uint32_t size = size_at(next);
  return size != 0 && bin_of(size) == bin && shard_.words32(next)[kPrevious].load(kRelaxed) == block;
}

void Arena::clear_bins() noexcept {
  for (Word64& word : header_.bin_map) word.store(0, kRelaxed);
  for (Word32& bin : header_.bins) bin.store(0, kRelaxed);
  header_.free_granules.store(0, kRelaxed);
}

}  // namespace holdfast
