// Probes for the events of an entry (base/probe.h). They read the entry's key from shared memory.
#pragma once

#include <cstdint>

#include "base/probe.h"
#include "base/token.h"
#include "dict/shard.h"

namespace holdfast {

/// Fires when a grant of a dead process is reclaimed.
inline void probe_takeover([[maybe_unused]] const Shard& shard, [[maybe_unused]] Entry& entry,
                           [[maybe_unused]] Token owner, [[maybe_unused]] std::uint64_t sequence) noexcept {
  HOLDFAST_PROBE5(takeover, shard.name(), Shard::key_words(entry), Entry::key_length_of(entry.shape.load(kRelaxed)),
                  owner, sequence);
}

/// Fires when a live entry is about to be removed to make room.
inline void probe_evict([[maybe_unused]] const Shard& shard, [[maybe_unused]] const EntryView& view) noexcept {
  HOLDFAST_PROBE4(evict, shard.name(), Shard::key_words(*view.entry), view.key_length, view.value_size);
}

}  // namespace holdfast
