// The document that is the value of a lock's key in the store. It describes the holder for people; no decision depends
// on it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "agent/clock.h"
#include "agent/keys.h"

namespace holdfast::agent {

/// A local program that requests or holds a lock.
struct Contender {
  std::int64_t pid = 0;
  std::string program;
  std::string why;
  Milliseconds held = 0;  // how long the program has held the lock

  /// Compares the fields that other machines can see.
  bool operator==(const Contender& other) const {
    return pid == other.pid && program == other.program && why == other.why;
  }
};

struct Document {
  std::string host;
  std::string machine;  // the machine's boot id
  std::uint32_t epoch = 0;
  Milliseconds when = 0;  // the time of the grant, in CLOCK_REALTIME
  LockName name;
  Contender contender;
};

/// Returns the document as JSON. Replaces bytes that are not UTF-8.
std::string write_document(const Document& document);
/// Reads as many fields as possible. Returns an empty document if the text is not a document.
Document read_document(std::string_view text);

}  // namespace holdfast::agent
