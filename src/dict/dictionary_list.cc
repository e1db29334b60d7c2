// The list operations of a dictionary: push and pop. Each commits by one store to the list's word, or to a link
// (dict/list.h). They are in a separate file, because otherwise the compiler would inline less code into a set, which
// would then take 32 more instructions.
#include "dict/dictionary.h"
#include "dict/expiry.h"
#include "dict/list.h"

namespace holdfast {

Code Dictionary::push(std::string_view key, End end, const ValueIn& value, std::uint32_t& length) noexcept {
  length = 0;
  const std::uint64_t entry = granules_for(key.size(), sizeof(ListFields));
  const std::uint64_t node = value.size > kValueMax ? kNeverFits : granules_for_node(value.size);
  const auto operation = [&](Transaction& change) {
    bool exists = false;
    // Make room for the node and the entry together. Once the node is filled, nothing may be moved, because the node is
    // not in a list yet. If the list expires while room is made, it needs a new entry.
    for (int tries = 0;; ++tries) {
      exists = change.exists();
      if (exists && !change.is(EntryType::list)) return Code::not_a_list;
      const auto need = static_cast<std::uint32_t>(exists ? node : node + entry);
      if (change.arena().can_allocate(need)) break;
      if (tries == 2) return Code::corrupt;
      const Code code = change.make_room(need, Evict::no);
      if (code != Code::ok) return code;
    }
    const std::uint32_t block = List::create(change.shard(), change.arena(), change.key(), value);
    if (block == 0) return Code::corrupt;
    if (!exists) {
      length = 1;
      return change.put(List::only(block), kExpiryNever, Evict::no);
    }
    List list(change.shard(), change.arena(), change.view());
    if (!list.push(end, block)) return Code::corrupt;
    change.touch();
    length = list.length();
    return Code::ok;
  };
  return transact(key, operation, kMutexPatienceNs, entry + node);
}

Code Dictionary::pop(std::string_view key, End end, ValueOut& out) noexcept {
  const auto operation = [&](Transaction& change) {
    if (!change.exists()) return Code::not_found;
    if (!change.is(EntryType::list)) return Code::not_a_list;
    List list(change.shard(), change.arena(), change.view());
    const Code code = list.peek(end, out);
    if (code != Code::ok) return code;
    if (list.length() == 1)
      change.cut();
    else if (!list.pop(end))
      return Code::corrupt;
    return Code::ok;
  };
  return transact(key, operation, kMutexPatienceNs, 0, Shard::Unopened::leave);
}

}  // namespace holdfast
