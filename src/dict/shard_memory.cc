// The memory of a shard, reserved as it is used.
#include "base/failpoint.h"
#include "dict/arena.h"
#include "dict/repair.h"
#include "dict/reserved.h"
#include "dict/shard.h"
#include "dict/short_time.h"
#include "platform/platform.h"

namespace holdfast {

// Reserves the arena up to `end`, and lets this process touch it.
bool Shard::reserve_to(std::uint32_t end) noexcept {
  const std::uint32_t begin = granules();
  if (end <= begin) return true;
  if (platform::reserve_pages(arena_ + std::size_t{begin} * kGranule, std::size_t{end - begin} * kGranule) != 0)
    return false;
  granules_.raise(end);
  return true;
}

Code Shard::open(Unopened unopened) noexcept {
  // Relaxed: what else there is to see comes with the mutex, or with the links that readers load.
  const bool is_new = opened_->load(kRelaxed) == 0;
  if (is_new && unopened == Unopened::leave) return Code::not_found;
  const std::uint32_t first = first_reserved(all_granules_);
  auto* const begin = reinterpret_cast<std::byte*>(header_);
  const auto bytes = static_cast<std::size_t>(arena_ - begin) + std::size_t{first} * kGranule;
  if (platform::reserve_pages(begin, bytes) != 0) return Code::no_memory;
  HOLDFAST_FAILPOINT("shard.reserved");
  if (is_new) opened_->store(1, kRelaxed);
  granules_.raise(first);
  catch_up();
  return Code::ok;
}

void Shard::note_opened() noexcept {
  if (opened_ != nullptr && opened_->load(kRelaxed) == 0) opened_->store(1, kRelaxed);
}

bool Shard::catch_up() noexcept {
  if (opened_ == nullptr) return false;
  // Acquire: pairs with the release in add_reserved(). A reader that was led behind what it knows, by a link of a later
  // critical section, sees the mark that was written before that.
  const std::uint32_t end = ReservedMark::granules_of(header_->reserved().load(kAcquire), all_granules_);
  return end > granules() && reserve_to(end);
}

void Shard::follow_mark() noexcept {
  if (opened_ != nullptr) {
    catch_up();
    if (ReservedMark::granules_of(header_->reserved().load(kRelaxed), all_granules_) == granules())
      return known_mark_.store(ReservedMark::of(granules(), all_granules_));
  }
  put_mark_right();
}

// The mark of a shard that is used for the first time is 0. Any other was overwritten: it tells of less than this
// process knows, of memory that cannot be had, or of nothing.
void Shard::put_mark_right() noexcept {
  Word32& mark = header_->reserved();
  const std::uint32_t word = mark.load(kRelaxed);
  const bool is_unused = word == 0 && header_->in_use.load(kRelaxed) == 0;
  if (opened_ != nullptr && !is_unused &&
      (word == 0 || ReservedMark::granules_of(word, all_granules_) == 0 ||
       ReservedMark::granules_of(word, all_granules_) > granules())) {
    // What was reserved is there, so as far as memory goes is far enough.
    for (std::uint32_t end = granules(); end < all_granules_ && reserve_to(end);)
      end = next_reserved(end, 1, all_granules_);
  }
  const std::uint32_t right = opened_ != nullptr ? ReservedMark::of(granules(), all_granules_) : 0;
  mark.store(right, kRelease);
  known_mark_.store(right);
  if (opened_ != nullptr && !is_unused) repair(*this);
}

bool Shard::can_grow() const noexcept {
  if (granules() == all_granules_) return false;
  const std::uint32_t refused = refused_ms_.load();
  return refused == 0 || refused_now() - refused > kRefusedMs;
}

std::uint32_t Shard::reserve_more(std::uint32_t count) noexcept {
  const std::uint32_t begin = granules();
  const std::uint32_t end = next_reserved(begin, count, all_granules_);
  const auto bytes = std::size_t{end - begin} * kGranule;
  const bool refused = platform::reserve_pages(arena_ + std::size_t{begin} * kGranule, bytes) != 0;
  refused_ms_.store(refused ? refused_now() : 0);
  HOLDFAST_FAILPOINT("shard.grown");
  return refused ? 0 : end;
}

void Shard::add_reserved(std::uint32_t end) noexcept {
  const std::uint32_t begin = granules();
  if (end <= begin) return;  // another process or thread was first
  const std::uint32_t mark = ReservedMark::of(end, all_granules_);
  header_->reserved().store(mark, kRelease);
  crash_order();
  HOLDFAST_FAILPOINT("shard.marked");
  granules_.raise(end);
  known_mark_.store(mark);
  // Where the shard was never used, its first allocation makes one free run of all (Reclaimer::make).
  if (header_->in_use.load(kRelaxed) == 0) return;
  Arena arena(*this);
  arena.release(begin, end - begin);
  if (arena.damaged()) repair(*this);
}

std::uint32_t Shard::free_granules() const noexcept {
  if (header_->in_use.load(kRelaxed) == 0) return all_granules_ - 1;
  std::uint32_t arena = all_granules_;
  if (opened_ != nullptr) {
    const std::uint32_t marked = ReservedMark::granules_of(header_->reserved().load(kRelaxed), all_granules_);
    arena = marked != 0 ? marked : granules();
  }
  const std::uint32_t counted = header_->free_granules.load(kRelaxed);
  return std::min(counted, arena) + (all_granules_ - arena);
}

}  // namespace holdfast
