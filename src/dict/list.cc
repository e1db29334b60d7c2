#include "dict/list.h"

#include "dict/key.h"

namespace holdfast {

namespace {

constexpr std::uint32_t kValueTypeShift = 24;

ListNode& node_at(const Shard& shard, std::uint32_t block) noexcept {
  return *reinterpret_cast<ListNode*>(shard.words32(block));
}

Word64* value_of(ListNode& node) noexcept { return reinterpret_cast<Word64*>(&node + 1); }

}  // namespace

bool List::inspect(std::uint32_t block, Node& node) const noexcept {
  EntryView view{};
  if (!shard_.inspect(block, view) || view.type != EntryType::node) return false;
  node.fields = &node_at(shard_, block);
  node.type = static_cast<EntryType>(node.fields->shape.load(kRelaxed) >> kValueTypeShift);
  node.value_size = view.value_size;
  node.granules = view.granules;
  const bool known = node.type == EntryType::string || (node.type == EntryType::number && view.value_size == 8);
  return known && node.fields->hash.load(kRelaxed) == hash_;
}

std::uint32_t List::create(const Shard& shard, Arena& arena, const Key& key, const ValueIn& value) noexcept {
  const std::uint32_t block = arena.allocate(static_cast<std::uint32_t>(granules_for_node(value.size)));
  if (block == 0) return 0;
  ListNode& node = node_at(shard, block);
  node.next.store(0, kRelaxed);
  node.hash.store(key.short_hash(), kRelaxed);
  node.shape.store(Entry::make_shape(0, EntryType::node) | static_cast<std::uint32_t>(value.type) << kValueTypeShift,
                   kRelaxed);
  node.value_size.store(static_cast<std::uint32_t>(value.size), kRelaxed);
  node.previous.store(0, kRelaxed);
  node.spare.store(0, kRelaxed);
  if (value.type == EntryType::string)
    store_bytes(value_of(node), value.data, value.size);
  else
    value_of(node)->store(value.bits, kRelaxed);
  return block;
}

bool List::push(End end, std::uint32_t node) noexcept {
  const ListEnds now = ends();
  Node neighbour{};
  if (now.length == 0 || now.length >= shard_.granules() ||
      !inspect(end == End::left ? now.first : now.last, neighbour))
    return false;
  ListNode& added = node_at(shard_, node);
  if (end == End::left) {
    added.next.store(now.first, kRelaxed);
    neighbour.fields->previous.store(node, kRelaxed);
    change({node, now.last, now.length + 1});
  } else {
    added.previous.store(now.last, kRelaxed);
    neighbour.fields->next.store(node, kRelaxed);
    change({now.first, node, now.length + 1});
  }
  return true;
}

Code List::peek(End end, ValueOut& out) const noexcept {
  const ListEnds now = ends();
  Node node{};
  if (now.length == 0 || (now.length == 1 && now.first != now.last) ||
      !inspect(end == End::left ? now.first : now.last, node))
    return Code::corrupt;
  out.type = node.type;
  out.flags = 0;
  out.size = node.value_size;
  if (node.type == EntryType::number) {
    out.bits = value_of(*node.fields)->load(kRelaxed);
    return Code::ok;
  }
  if (out.size > out.capacity) return Code::buffer;
  load_bytes(value_of(*node.fields), out.buffer, out.size);
  return Code::ok;
}

bool List::pop(End end) noexcept {
  const ListEnds now = ends();
  const bool left = end == End::left;
  const std::uint32_t block = left ? now.first : now.last;
  Node node{};
  if (now.length < 2 || !inspect(block, node)) return false;
  const std::uint32_t neighbour_block = (left ? node.fields->next : node.fields->previous).load(kRelaxed);
  Node neighbour{};
  if (!inspect(neighbour_block, neighbour) ||
      (left ? neighbour.fields->previous : neighbour.fields->next).load(kRelaxed) != block)
    return false;
  const ListEnds then{left ? neighbour_block : now.first, left ? now.last : neighbour_block, now.length - 1};
  change(then);
  arena_.release(block, node.granules);
  return true;
}

void List::release_nodes() noexcept {
  const ListEnds now = ends();
  std::uint32_t block = now.first;
  for (std::uint32_t i = 0; i < now.length && !arena_.damaged(); ++i) {
    Node node{};
    if (!inspect(block, node)) return arena_.set_damaged();
    block = arena_.release_link(*node.fields, block, node.granules);
  }
}

bool List::relink_end(const ListEnds& now, std::uint32_t from, std::uint32_t to) noexcept {
  if (now.length == 1) {
    if (now.first != now.last) return false;
    change({to, to, 1});
    return true;
  }
  Node moved{};
  if (now.length == 0 || now.first == now.last || !inspect(from, moved)) return false;
  Node neighbour{};
  if (now.first == from) {
    if (!inspect(moved.fields->next.load(kRelaxed), neighbour) || neighbour.fields->previous.load(kRelaxed) != from)
      return false;
    change({to, now.last, now.length});
    neighbour.fields->previous.store(to, kRelaxed);
    return true;
  }
  if (!inspect(moved.fields->previous.load(kRelaxed), neighbour) || neighbour.fields->next.load(kRelaxed) != from)
    return false;
  commit(neighbour.fields->next, to);
  list_.entry->flags.store(to, kRelaxed);
  return true;
}

bool List::relink_inner(std::uint32_t from, std::uint32_t to) noexcept {
  Node moved{};
  Node before{};
  Node behind{};
  if (!inspect(from, moved) || !inspect(moved.fields->previous.load(kRelaxed), before) ||
      !inspect(moved.fields->next.load(kRelaxed), behind) || before.fields->next.load(kRelaxed) != from ||
      behind.fields->previous.load(kRelaxed) != from)
    return false;
  commit(before.fields->next, to);
  behind.fields->previous.store(to, kRelaxed);
  return true;
}

// Replaces the node. Only the entry's word shows whether the node is an end of the list, because the outward link of an
// end may have any value.
bool List::relink(const Shard& shard, std::uint32_t from, std::uint32_t to) noexcept {
  if (!shard.holds_header(from)) return false;
  const std::uint32_t hash = node_at(shard, from).hash.load(kRelaxed);
  Arena arena(shard);
  EntryView found{};
  std::uint32_t block = shard.bucket_of(hash).load(kRelaxed);
  for (std::uint32_t steps = 0; block != 0; ++steps) {
    EntryView view{};
    if (steps == shard.granules() || !shard.inspect(block, view)) return false;
    if (view.type == EntryType::list && view.entry->hash.load(kRelaxed) == hash) {
      found = view;
      List list(shard, arena, view);
      const ListEnds now = list.ends();
      if (now.first == from || now.last == from) return list.relink_end(now, from, to);
    }
    block = view.entry->next.load(kRelaxed);
  }
  return found.entry != nullptr && List(shard, arena, found).relink_inner(from, to);
}

}  // namespace holdfast
