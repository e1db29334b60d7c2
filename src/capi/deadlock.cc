// Task ids and deadlocks: check the arguments, call one thing, map the result.
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "capi/handle.h"
#include "wait/parking_lot.h"
#include "wait/task_id.h"

using namespace holdfast;
using namespace holdfast::capi;

namespace {

void pack(const std::string& key, std::string& packed) {
  const auto length = static_cast<std::uint32_t>(key.size());
  packed.append(reinterpret_cast<const char*>(&length), sizeof length);
  packed += key;
}

}  // namespace

uint32_t holdfast_task_ids(void) { return new_task_ids(); }

int holdfast_deadlock_keys(holdfast_parker* parker, uint32_t waiter, holdfast_value* keys, uint32_t* count) {
  return guarded([&]() -> int {
    const std::vector<std::string> found = reinterpret_cast<Parker*>(parker)->deadlock_keys(waiter);
    *count = static_cast<std::uint32_t>(found.size());
    if (found.empty()) return fail(Code::not_found, "");
    std::string packed;
    for (const std::string& key : found) pack(key, packed);
    keys->size = packed.size();
    if (keys->size > keys->capacity) return fail(Code::buffer, "");
    std::memcpy(keys->data, packed.data(), packed.size());
    return HOLDFAST_OK;
  });
}
