// Notifications between machines. A machine's bell is the one key that it watches; each put of that key is a ring, a
// notification. A ring is a hint: it may be lost, late, or come before the answer to the transaction that wrote it. It
// counts only together with the revision of the lock.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "agent/keys.h"
#include "agent/queue.h"
#include "agent/store.h"

namespace holdfast::agent {

/// The receiver has the lock, by the transaction that wrote this; its revision is the revision of the grant.
struct Grant {
  LockName name;
  std::vector<Waiter> next;  // in their order; `since` 0: from this same transaction
  Revision complete = 0;     // Queue::complete()
};

/// Somebody waits for the lock that the receiver has by the grant with that revision.
struct Note {
  LockName name;
  Revision grant = 0;
  Waiter first;
};

/// The receiver's grant with that revision was broken.
struct Broken {
  LockName name;
  Revision grant = 0;
};

using Ring = std::variant<std::monostate, Grant, Note, Broken>;

/// The most waiters that a Grant lists. Benchmark: One contender on each machine.
inline constexpr std::size_t kNextMax = 8;

std::string write_ring(const Ring& ring);
/// Returns nothing for foreign text. `revision`: of the put; it replaces a `since` of 0.
Ring read_ring(const std::string& text, Revision revision);

}  // namespace holdfast::agent
