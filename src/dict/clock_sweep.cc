#include "dict/clock_sweep.h"

#include <algorithm>
#include <utility>

#include "dict/list.h"
#include "dict/probes.h"
#include "platform/platform.h"

namespace holdfast {

namespace {

// If a cold pass has moved this many granules, the sweep starts a warm pass. The limit is a multiple of the request,
// plus a constant. The benchmark is "Hits".
constexpr std::uint64_t kMovedPerGranule = 8;
constexpr std::uint64_t kMovedMin = 256;

}  // namespace

bool ClockSweep::clear(std::uint32_t count) noexcept {
  count_ = count;
  at_ = header_.hand.load(kRelaxed);
  if (at_ == 0 || at_ >= shard_.granules()) at_ = 1;
  forget_ahead();
  const std::uint64_t lap = shard_.granules();
  while (run_ < count_ && !arena_.damaged()) {
    // The last pass may begin in the middle of the arena, so it makes a second lap, to find a window across that point.
    const bool last = evict_ == Evict::no || pass_ == Pass::own;
    if (walked_ > (last ? 2 * lap : lap)) {
      if (last) break;
      next_pass();
    } else if (evict_ == Evict::yes && pass_ == Pass::cold && moved_ > kMovedMin + count_ * kMovedPerGranule) {
      next_pass();
    }
    Block block{};
    if (!reach()) {
      possible_ = possible_ || is_possible();
      if (!possible_) break;
      skip_pinned();
    } else if (look(at_, block)) {
      visit(block);
    }
  }
  const bool done = run_ >= count_ && !arena_.damaged();
  header_.hand.store(done ? run_start_ : at_, kRelaxed);
  return done;
}

void ClockSweep::next_pass() noexcept {
  pass_ = pass_ == Pass::cold ? Pass::warm : Pass::own;
  walked_ = 0;
  forget_ahead();
}

// --- the block at the hand ---

ClockSweep::Kind ClockSweep::kind_of(std::uint32_t at, const EntryView& view) const noexcept {
  if (view.type == EntryType::node) return Kind::node;
  if (!has_key(view.type)) return Kind::pinned;
  // A lock behind a gate may be free while programs wait for the gate to grant it.
  const bool has_gate = view.type == EntryType::lock && view.value_size > sizeof(LockFields);
  if (has_gate && view.is_waited_for()) return Kind::pinned;
  if (!Shard::counts(view, flush_)) return Kind::dead;
  if (is_holdable(view.type)) return view.is_waited_for() || view.is_incomplete() ? Kind::pinned : Kind::held;
  return at == own_ && pass_ != Pass::own ? Kind::held : Kind::live;
}

// Describes the block at `at`. Returns false on damage. REQUIRES: a block begins at `at`.
bool ClockSweep::look(std::uint32_t at, Block& block) noexcept {
  block.at = at;
  block.was_unowned = false;
  block.granules = arena_.is_free(at) ? arena_.size_at(at) : arena_.spare_at(at);
  if (block.granules != 0) {
    block.kind = Kind::free;
    return true;
  }
  if (arena_.damaged()) return false;
  if (!shard_.inspect(at, block.view)) {
    arena_.set_damaged();
    return false;
  }
  block.granules = block.view.granules;
  block.kind = kind_of(at, block.view);
  return true;
}

// Returns how many granules the block may add to the window. The nodes of a list become free with the list, but a cold
// pass cannot rely on this, because it removes lists too rarely.
std::uint32_t ClockSweep::gain(const Block& block) const noexcept {
  switch (block.kind) {
    case Kind::free:
    case Kind::dead:
      return block.granules;
    case Kind::live:
      return evict_ == Evict::yes ? block.granules : 0;
    case Kind::node:
      return evict_ == Evict::yes && pass_ != Pass::cold ? block.granules : 0;
    default:
      return 0;
  }
}

// --- before anything is removed: can a window be cleared, and is it before the next pinned block? ---

// Returns whether any pass can clear a window. A pass can do so if a run of removable neighbours is long enough. It can
// also do so if the entries between such runs can be moved: the smallest entry fits into a run, and there are enough
// granules before a pinned block. First scans ahead of the hand, where there usually is a run, then scans the whole
// arena.
bool ClockSweep::is_possible() noexcept {
  const Pass pass = std::exchange(pass_, evict_ == Evict::yes ? Pass::own : pass_);
  Windows seen;
  for (std::uint32_t at : {seen_, 1U}) {
    seen.run = seen.window = 0;
    Block block{};
    for (; at < shard_.granules() && seen.longest_run < count_ && look(at, block); at += block.granules) {
      seen.add(block, gain(block));
      if (block.kind == Kind::pinned) note_pinned(block);
    }
  }
  pass_ = pass;
  return seen.longest_run >= count_ || seen.joinable(count_);
}

void ClockSweep::Windows::add(const Block& block, std::uint32_t gained) noexcept {
  const bool pinned = block.kind == Kind::pinned;
  run = gained != 0 ? run + gained : 0;
  window = pinned ? 0 : window + gained;
  longest_run = std::max(longest_run, run);
  widest_window = std::max(widest_window, window);
  if (!pinned && gained == 0) smallest_kept = std::min(smallest_kept, block.granules);
}

// Checks whether a run could be made. Other processes change the shard during this walk, so the walk may meet something
// that is not a block. If the walk does not end exactly at the end of the arena, it is repeated. If a misled walk ends
// there by chance, the result is only a wrong hint.
Prospect ClockSweep::foresee(std::uint32_t count) noexcept {
  pass_ = evict_ == Evict::yes ? Pass::own : Pass::cold;
  Windows seen;
  Prospect prospect;
  Block block{};
  std::uint32_t at = 1;
  for (; at < shard_.granules() && look(at, block); at += block.granules) {
    seen.add(block, gain(block));
    prospect.evictable = prospect.evictable || block.kind == Kind::live || block.kind == Kind::node;
    if (seen.run == 0) prospect.entry = 0;
    if (seen.run != 0 && prospect.entry == 0 && block.kind != Kind::free && has_key(block.view.type)) {
      prospect.entry = at;
      prospect.hash = block.view.entry->hash.load(kRelaxed);
    }
    if (seen.longest_run < count) continue;
    prospect.way = Prospect::Way::removal;
    return prospect;
  }
  prospect.way = at != shard_.granules() ? Prospect::Way::unknown
                 : seen.joinable(count)  ? Prospect::Way::moving
                                         : Prospect::Way::none;
  return prospect;
}

void ClockSweep::note_pinned(const Block& block) noexcept {
  met_unsettled_ = met_unsettled_ || block.view.is_incomplete();
}

bool ClockSweep::reach() noexcept {
  Block block{};
  while (run_ + ahead_ < count_) {
    if (seen_ >= shard_.granules() || !look(seen_, block) || block.kind == Kind::pinned) return false;
    seen_ += block.granules;
    ahead_ += gain(block);
  }
  return true;
}

// Continues after the pinned block that reach() has met, or at the beginning if reach() has met the end of the arena.
void ClockSweep::skip_pinned() noexcept {
  met_held_ = true;
  walked_ += seen_ - at_;
  at_ = seen_;
  run_ = 0;
  Block block{};
  if (at_ >= shard_.granules())
    at_ = 1;
  else if (look(at_, block))
    pass(block.granules);
  forget_ahead();
}

void ClockSweep::forget_ahead() noexcept {
  seen_ = at_;
  ahead_ = 0;
}

// --- one block ---

void ClockSweep::visit(Block block) noexcept {
  // `ahead_` may be too high, and is corrected when the hand reaches seen_: an entry may expire and change its kind,
  // and a moved block may fill a gap that was counted.
  ahead_ -= std::min(ahead_, gain(block));
  if (block.is_lock()) {
    // Decide only when the state can no longer change.
    block.was_unowned = !take_over(block.view.lock()).is_mutex_owned();
    block.kind = kind_of(block.at, block.view);
  }
  switch (block.kind) {
    case Kind::free:
      run_start_ = block.at;
      run_ = block.granules;
      return pass(block.granules);
    case Kind::dead:
      return remove(block);
    case Kind::live:
      return visit_live(block);
    case Kind::held:
      met_held_ = met_held_ || block.at != own_;
      return keep(block);
    case Kind::node:
      return keep(block);
    case Kind::pinned:
      met_held_ = true;
      note_pinned(block);
      return leave(block);
  }
}

void ClockSweep::visit_live(const Block& block) noexcept {
  if (evict_ == Evict::no) return keep(block);
  if (pass_ != Pass::cold) return remove(block);
  Word8& word = shard_.uses(block.at);
  const std::uint8_t uses = word.load(kRelaxed);
  if (uses == 0) return remove(block);
  word.store(uses - 1, kRelaxed);
  // If too little memory follows before the next pinned block, remove the entry rather than give up the current window.
  if (run_ != 0 && !reach()) return remove(block);
  keep(block);
}

// Keeps the block. Moves it to the left end of the window or to a gap elsewhere, or starts a new window after it.
void ClockSweep::keep(const Block& block) noexcept {
  if (run_ != 0 && block.granules <= run_) {
    if (arena_.take(run_start_, block.granules) && move(block, run_start_)) return;
  } else if (run_ != 0 && block.granules < count_) {  // all gaps are shorter than `count`
    const std::uint32_t gap = arena_.allocate(block.granules);
    if (gap != 0 && move(block, gap)) return;
  }
  leave(block);
}

// Leaves the block where it is, and starts a new window after it.
void ClockSweep::leave(const Block& block) noexcept {
  if (block.was_unowned) release_word(block.view.lock());
  run_ = 0;
  pass(block.granules);
}

void ClockSweep::pass(std::uint32_t granules) noexcept {
  walked_ += granules;
  at_ += granules;
  if (at_ >= seen_) forget_ahead();
}

// Returns the fields of the lock. REQUIRES: a lock was copied to `block`.
LockFields& ClockSweep::lock_at(std::uint32_t block) const noexcept {
  EntryView view{};
  shard_.inspect(block, view);
  return view.lock();
}

// Returns the link in the chain that leads to the entry, or null on damage.
Word32* ClockSweep::link_to(const Block& block) const noexcept {
  return shard_.link_to(block.view.entry, block.view.entry->hash.load(kRelaxed), kRelaxed);
}

void ClockSweep::remove(const Block& block) noexcept {
  Word32* link = link_to(block);
  if (link == nullptr) return arena_.set_damaged();
  if (block.kind != Kind::dead && block.at != own_) probe_evict(shard_, block.view);
  const std::uint32_t hash = block.view.entry->hash.load(kRelaxed);
  commit_change(shard_.stripes(), hash, *link, block.view.entry->next.load(kRelaxed));
  header_.entries.store(header_.entries.load(kRelaxed) - 1, kRelaxed);
  if (block.kind == Kind::dead) {
    if (!is_holdable(block.view.type)) header_.expirations.store(header_.expirations.load(kRelaxed) + 1, kRelaxed);
  } else if (block.at != own_) {
    header_.evictions.store(header_.evictions.load(kRelaxed) + 1, kRelaxed);
    evicted_ = true;
    reclaimer_.note_evicted(hash);
  }
  if (block.at == own_) own_ = 0;
  absorb(reclaimer_.discard(block.at, block.view), block.at + block.granules);
  // The nodes of a list, and the waiters and holders that were removed with the entry, may have been anywhere.
  if (block.view.type == EntryType::list || is_holdable(block.view.type)) forget_ahead();
}

// Copies the block to `to`, which was allocated for it, and replaces the block with the copy by one store. Returns
// false on damage: no link leads to the block.
bool ClockSweep::move(const Block& block, std::uint32_t to) noexcept {
  // Only the owner of the mutex writes into either block.
  platform::copy_to_shared(reinterpret_cast<Word64*>(shard_.words32(to)),
                           reinterpret_cast<const char*>(shard_.words32(block.at)),
                           std::size_t{block.granules} * (kGranule / sizeof(Word64)));
  if (block.kind == Kind::node) {
    if (!List::relink(shard_, block.at, to)) {
      arena_.set_damaged();
      return false;
    }
  } else {
    Word32* link = link_to(block);
    if (link == nullptr) {
      arena_.set_damaged();
      return false;
    }
    // Stamp the copy with the current epoch, because readers that copy large values rely on it (Shard::still_stands).
    shard_.entry(to).stamp.store(shard_.stamp(), kRelaxed);
    commit(*link, to);
    if (block.was_unowned) release_word(lock_at(to));  // not before the copy is linked; the old lock stays taken over
  }
  shard_.uses(to).store(shard_.uses(block.at).load(kRelaxed), kRelaxed);
  if (block.at == own_) own_ = to;
  moved_ += block.granules;
  absorb(arena_.release(block.at, block.granules), block.at + block.granules);
  return true;
}

// Makes the free block that begins at `start` the window. This block contains everything up to `old_end`, and perhaps a
// free run after it.
void ClockSweep::absorb(std::uint32_t start, std::uint32_t old_end) noexcept {
  const std::uint32_t size = start != 0 ? arena_.size_at(start) : 0;
  if (size == 0) return arena_.set_damaged();
  run_start_ = start;
  run_ = size;
  const std::uint32_t end = start + size;
  walked_ += end - at_;
  at_ = end;
  if (end >= seen_)
    forget_ahead();
  else
    ahead_ -= std::min(ahead_, end - old_end);
}

}  // namespace holdfast
