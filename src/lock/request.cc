#include "lock/request.h"

#include "base/hash.h"
#include "base/probe.h"
#include "dict/dictionary.h"
#include "platform/platform.h"

namespace holdfast {

void count_wait(Dictionary& dictionary, std::string_view key, HeldKind kind, std::uint64_t arrival_ns,
                bool in_vain) noexcept {
  const EpochGuard inside;
  Segment* const segment = dictionary.segment(inside);
  if (segment == nullptr) return;
  const std::uint64_t waited = platform::monotonic_ns() - arrival_ns;
  HOLDFAST_PROBE6(wait, dictionary.name().c_str(), key.data(), key.size(), static_cast<std::uint32_t>(kind), waited,
                  static_cast<std::uint32_t>(in_vain));
  segment->statistics().count_wait(key, hash_key(key.data(), key.size(), segment->seed()), {kind, waited, in_vain});
}

void count_refusals(Dictionary& dictionary, std::string_view key, HeldKind kind, std::uint64_t times) noexcept {
  const EpochGuard inside;
  Segment* const segment = dictionary.segment(inside);
  if (segment != nullptr)
    segment->statistics().count_refusal(key, hash_key(key.data(), key.size(), segment->seed()), kind, times);
}

void count_hold(Dictionary& dictionary, HeldKind kind, Since since) noexcept {
  if (!since.counts()) return;
  const EpochGuard inside;
  Segment* const segment = dictionary.segment(inside);
  if (segment != nullptr) segment->statistics().count_hold(kind, since);
}

}  // namespace holdfast
