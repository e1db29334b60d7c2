#include "dict/dictionary.h"

#include <algorithm>

#include "platform/platform.h"
#include "world/world.h"

namespace holdfast {

Expected<std::unique_ptr<Dictionary>> Dictionary::open(World& world, std::string name,
                                                       const DictionaryOptions& options) {
  std::unique_ptr<Dictionary> handle(new Dictionary(world, std::move(name), options));
  auto segment =
      options.size == 0 ? Segment::attach(world, handle->name_) : Segment::open(world, handle->name_, options);
  if (!segment) return segment.status();
  handle->adopt(std::move(*segment));
  return handle;
}

Segment* Dictionary::adopt(std::unique_ptr<Segment> next) {
  std::string gate_name = next->gate_name();
  std::shared_ptr<Segment> shared(std::move(next));
  const platform::ForkGuard no_fork;  // a child must not find an incomplete change
  gate_name_ = std::move(gate_name);
  gate_.store(shared->gate(), kRelaxed);
  was_cut_short_.store(false, kRelaxed);
  ended_with_world_ = false;
  present_ = std::move(shared);
  segment_.store(present_.get(), std::memory_order_release);  // pairs with segment()
  return present_.get();
}

// Forgets a segment whose dictionary was removed. No later call finds the segment, but its memory stays for the calls
// that already use it.
void Dictionary::let_go(const Segment& removed) noexcept {
  const std::uint32_t why = removed.header().file.retired.load(kRelaxed);
  const platform::ForkGuard no_fork;
  ended_with_world_ = why == kRetiredWithWorld;
  was_cut_short_.store((why & kRetiredByDamage) != 0, kRelaxed);
  segment_.store(nullptr, std::memory_order_release);
  present_->release_name();
  retire(std::move(present_));
}

// Finds the next segment after the dictionary was removed or its world ended. Creates a new dictionary only if the
// world has ended, so that a lock behind a gate never becomes a local lock, and a local lock never gets a gate.
Segment* Dictionary::refresh() noexcept {
  const EpochGuard inside;
  try {
    const platform::LongMutex::Hold lock(refreshing_);
    Segment* const now = segment_.load(std::memory_order_acquire);
    if (now != nullptr && !now->retired()) return now;
    if (now != nullptr) let_go(*now);
    auto next = ended_with_world_ && options_.size != 0 ? Segment::open(world_, name_, options_)
                                                        : Segment::attach(world_, name_);
    if (!next || (*next)->gate_name() != gate_name_) return nullptr;
    return adopt(std::move(*next));
  } catch (...) {  // no memory for the new segment
    return nullptr;
  }
}

Status Dictionary::reopen(const DictionaryOptions& options) {
  const EpochGuard inside;
  Segment* now = segment(inside);
  if (now == nullptr) {
    const platform::LongMutex::Hold lock(refreshing_);
    now = segment_.load(std::memory_order_acquire);
    if (now == nullptr) {
      auto next = Segment::open(world_, name_, options);
      if (!next) return next.status();
      now = adopt(std::move(*next));
    }
  }
  Status same = now->join(name_, options);
  if (same.ok()) {
    const platform::LongMutex::Hold lock(refreshing_);
    const platform::ForkGuard no_fork;
    const std::uint64_t largest = std::max(options_.largest, options.largest);
    options_ = options;
    options_.largest = largest;
  }
  return same;
}

}  // namespace holdfast
