#include "gate/cluster_state.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "base/name.h"
#include "gate/session.h"
#include "world/process_table.h"
#include "world/world.h"

namespace holdfast {

namespace {

/// Returns the agent's process id, or 0 if the agent is dead or there is none.
std::uint32_t living_agent(World& world, Token agent) noexcept {
  if (world.is_dead(agent)) return 0;
  const ProcessSlot* const slot = world.slot(agent);
  return slot != nullptr ? slot->pid.load(kRelaxed) : 0;
}

/// Texts that follow "the store of cluster NAME", indexed by StoreTrouble.
constexpr std::array<const char*, 6> kInWords{
    "",
    " does not answer",
    " accepts no changes: its database is full",
    " has no leader",
    " denies the agent access; see the agent's log",
    " refuses the agent's requests; see the agent's log",
};
static_assert(kInWords.size() == static_cast<std::size_t>(StoreTrouble::draining));

}  // namespace

Status find_cluster_state(Dictionary& dictionary, ClusterState& state) {
  const EpochGuard inside;
  const Segment* const segment = dictionary.segment(inside);
  if (segment == nullptr) return {Code::removed, "dictionary " + quote_name(dictionary.name()) + " was removed"};
  if (segment->gate() == nullptr)
    return {Code::not_found, "dictionary " + quote_name(dictionary.name()) + " belongs to no cluster"};
  const Session session(*segment);
  const SessionWord word = session.now();
  state.name = segment->gate_name();
  state.agent = living_agent(dictionary.world(), session.agent());
  state.epoch = word.epoch();
  state.machine = session.lease();
  const std::uint64_t now_ms = boottime_ms();
  state.seconds = word.lost() ? 0 : static_cast<double>(std::max(word.deadline_ms(), now_ms + 1) - now_ms) / 1e3;
  if (state.agent == 0)
    return {Code::unavailable,
            "no agent of cluster " + quote_name(state.name) + " serves dictionary " + quote_name(dictionary.name())};
  if (word.lost())
    return {Code::unavailable, "the agent of cluster " + quote_name(state.name) +
                                   " has no session with the store for dictionary " + quote_name(dictionary.name())};
  const StoreTrouble trouble = session.trouble();
  if (trouble == StoreTrouble::draining)
    return {Code::unavailable,
            "the agent of cluster " + quote_name(state.name) + " takes no new locks: it is draining"};
  if (trouble != StoreTrouble::none)
    return {Code::unavailable,
            "the store of cluster " + quote_name(state.name) + kInWords.at(static_cast<std::size_t>(trouble))};
  return {};
}

}  // namespace holdfast
