// Notifications between machines. Each machine watches one key, its bell; each put of that key is a ring, a
// notification. A notification is a hint: it may be lost or late, or arrive before the answer to the transaction that
// wrote it. It counts only together with the revision of the lock.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "agent/keys.h"
#include "agent/queue.h"
#include "agent/store.h"

namespace holdfast::agent {

/// The receiver got the lock by the transaction that wrote this notification. Its revision is the revision of the
/// grant.
struct Grant {
  LockName name;
  std::vector<Waiter> next;  // in their order; `since` 0: from this same transaction
  Revision complete = 0;     // Queue::complete()
};

/// A machine waits for the lock that the receiver has by the grant with this revision.
struct Note {
  LockName name;
  Revision grant = 0;
  Waiter first;
};

/// The receiver's grant with this revision was broken.
struct Broken {
  LockName name;
  Revision grant = 0;
};

using Ring = std::variant<std::monostate, Grant, Note, Broken>;

/// The most waiters that a Grant lists. Benchmark: One contender on each machine.
inline constexpr std::size_t kNextMax = 8;

std::string write_ring(const Ring& ring);
/// Returns nothing for other text. `revision` is the revision of the put, and replaces a `since` of 0.
Ring read_ring(const std::string& text, Revision revision);

}  // namespace holdfast::agent
