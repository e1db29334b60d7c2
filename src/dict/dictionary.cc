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
  const platform::ForkGuard no_fork;  // a child must not find the list in the middle of a change
  cluster_ = next->cluster();
  segments_.push_back(std::move(next));
  segment_.store(segments_.back().get(), std::memory_order_release);  // pairs with segment()
  return segments_.back().get();
}

// The dictionary was removed, or its world ended. Only after the end of its world is a new one created. A lock that was
// one of a cluster never becomes a local one by that, nor the other way round.
Segment* Dictionary::refresh() noexcept {
  try {
    const platform::LongMutex::Hold lock(refreshing_);
    Segment* now = segment_.load(std::memory_order_acquire);
    if (!now->retired()) return now;
    now->abandon();
    const bool ended = now->header().file.retired.load(kRelaxed) == kRetiredWithWorld;
    auto next = ended && options_.size != 0 ? Segment::open(world_, name_, options_) : Segment::attach(world_, name_);
    if (!next || (*next)->cluster() != cluster_) return nullptr;
    return adopt(std::move(*next));
  } catch (...) {  // no memory for the bookkeeping
    return nullptr;
  }
}

Status Dictionary::reopen(const DictionaryOptions& options) {
  Segment* now = segment();
  if (now == nullptr) {
    const platform::LongMutex::Hold lock(refreshing_);
    auto next = Segment::open(world_, name_, options);
    if (!next) return next.status();
    now = adopt(std::move(*next));
  }
  Status same = now->check_same(name_, options);
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
