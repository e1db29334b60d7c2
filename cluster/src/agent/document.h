// What the store keeps about a holder, for people: the value of a lock's key. No decision rests on it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "agent/clock.h"
#include "agent/keys.h"

namespace holdfast::agent {

/// A local program that asks for a lock, or has it.
struct Contender {
  std::int64_t pid = 0;
  std::string program;
  std::string why;
  Milliseconds held = 0;  // for how long

  /// Whether it is the same, by what others are told.
  bool operator==(const Contender& other) const {
    return pid == other.pid && program == other.program && why == other.why;
  }
};

struct Document {
  std::string host;
  std::string machine;  // its boot id
  std::uint32_t epoch = 0;
  Milliseconds when = 0;  // CLOCK_REALTIME
  LockName name;
  Contender contender;
};

/// As JSON. Bytes that are not UTF-8 are replaced.
std::string write_document(const Document& document);
/// What of it can be read; foreign text gives an empty document.
Document read_document(std::string_view text);

}  // namespace holdfast::agent
