#include "dict/list.h"

namespace holdfast {

std::uint32_t List::create(const Shard&, Arena&, const Key&, const ValueIn&) noexcept { return 0; }
bool List::push(End, std::uint32_t) noexcept { return false; }
Code List::peek(End, ValueOut&) const noexcept { return Code::corrupt; }
bool List::pop(End) noexcept { return false; }
void List::release_nodes() noexcept {}
bool List::relink(const Shard&, std::uint32_t, std::uint32_t) noexcept { return false; }

}  // namespace holdfast
