// Calls a dictionary's functions and ignores the results. Each call must return.
#pragma once

#include "dict/dictionary.h"
#include "dict/packed_keys.h"

namespace holdfast::damage {

/// Makes each call through `run(name, call)`.
template <class Keys, class Run>
void use_all(Dictionary& dictionary, const Keys& keys, Run&& run) {
  char buffer[256];
  ValueOut out{};
  out.buffer = buffer;
  out.capacity = sizeof buffer;
  const ValueIn value{EntryType::string, 0, 0, "value", 5};
  char room[4096];
  PackedKeys packed(room, sizeof room);
  std::uint32_t count = 0;
  double sum = 0;
  Effect effect;
  for (const char* key : keys) {
    run("get", [&] { return dictionary.get(key, out); });
    run("set", [&] { return dictionary.store(StoreOp::set, key, value, 1, effect); });
    run("incr", [&] { return dictionary.increment(key, 1, nullptr, sum, effect); });
    run("push", [&] { return dictionary.push(key, End::left, value, count); });
    run("delete", [&] { return dictionary.remove(key); });
  }
  run("keys", [&] { return dictionary.keys(0, packed); });
  run("flush_all", [&] { return dictionary.flush_all(); });
  run("flush_expired", [&] { return dictionary.flush_expired(~0U, count); });
  run("free_space", [&] { return dictionary.free_space(); });
}

}  // namespace holdfast::damage
