// What changes a list.
#include <limits>

#include "dict/dictionary.h"
#include "dict/expiry.h"
#include "dict/list.h"

namespace holdfast {

Code Dictionary::push(std::string_view name, End end, const ValueIn& value, std::uint32_t& length) noexcept {
  length = 0;
  Segment* now = segment();
  if (now == nullptr) return Code::removed;
  const std::uint64_t entry = granules_for(name.size(), sizeof(ListFields));
  const std::uint64_t node = granules_for_node(value.size);
  if (value.size > std::numeric_limits<std::uint32_t>::max() || entry + node > now->geometry().block_max())
    return Code::too_large;
  const Key key(name.data(), name.size(), now->seed());
  return mutate(*now, key.hash, [&](Shard& shard, Arena& arena) {
    Place place{};
    if (!shard.find(key, place)) return Code::corrupt;
    Effect none;
    bool exists = false;
    // Room for all at once: once the node is filled, nothing may move any more, as it is in no list yet. Making room
    // takes time, in which the list may come to its end and need an entry again.
    for (int tries = 0;; ++tries) {
      exists = place.block != 0 && Shard::counts(place.view, now->flush_epoch());
      if (exists && place.view.type != EntryType::list) return Code::not_a_list;
      const auto need = static_cast<std::uint32_t>(exists ? node : node + entry);
      if (arena.can_allocate(need)) break;
      if (tries == 2) return Code::corrupt;
      const Code code = Room(world_, *now, shard, arena).make(need, Evict::no, key, place, none.evicted);
      if (code != Code::ok) return code;
    }
    const std::uint32_t block = List::create(shard, arena, key, value);
    if (block == 0) return Code::corrupt;
    if (!exists) {
      length = 1;
      const ValueIn list{EntryType::list, 0, List::only(block), nullptr, sizeof(ListFields)};
      return put(*now, shard, arena, key, place, list, kExpiryNever, Evict::no, none);
    }
    List list(shard, arena, place.view);
    if (!list.push(end, block)) return Code::corrupt;
    shard.touch(place.block);
    length = list.length();
    return Code::ok;
  });
}

Code Dictionary::pop(std::string_view name, End end, ValueOut& out) noexcept {
  Segment* now = segment();
  if (now == nullptr) return Code::removed;
  const Key key(name.data(), name.size(), now->seed());
  return mutate(*now, key.hash, [&](Shard& shard, Arena& arena) {
    Place place{};
    if (!shard.find(key, place)) return Code::corrupt;
    if (place.block == 0 || !Shard::counts(place.view, now->flush_epoch())) return Code::not_found;
    if (place.view.type != EntryType::list) return Code::not_a_list;
    List list(shard, arena, place.view);
    const Code code = list.peek(end, out);
    if (code != Code::ok) return code;
    if (list.length() == 1)
      cut(*now, shard, arena, place);
    else if (!list.pop(end))
      return Code::corrupt;
    return Code::ok;
  });
}

}  // namespace holdfast
