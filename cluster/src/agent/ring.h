// Notifications between machines. Each machine watches one key, its notification key ("bell"). Each put of this key is
// a notification ("ring"). A notification is a hint: it may be lost or late, or arrive before the answer to the
// transaction that wrote it. It counts only if it fits the known revision of the lock.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "agent/keys.h"
#include "agent/queue.h"
#include "agent/store.h"

namespace holdfast::agent {

/// Says that the transaction that wrote this notification gave the lock to the receiver. The notification and the grant
/// have the same revision.
struct Grant {
  LockName name;
  std::vector<Waiter> next;  // in queue order; if `since` is 0, the waiter joined in the same transaction
  Revision complete = 0;     // Queue::complete()
};

/// Says that a machine waits for the lock that the receiver has got by the grant with this revision.
struct Note {
  LockName name;
  Revision grant = 0;
  Waiter first;
};

/// Says that the receiver's grant with this revision was broken.
struct Broken {
  LockName name;
  Revision grant = 0;
};

using Ring = std::variant<std::monostate, Grant, Note, Broken>;

/// The maximum number of waiters that a Grant lists. The benchmark "One contender on each machine" depends on this
/// value.
inline constexpr std::size_t kNextMax = 8;

std::string write_ring(const Ring& ring);
/// Parses a notification. Returns nothing if the text is not a notification. `revision`: the revision of the put, which
/// replaces a `since` of 0.
Ring read_ring(const std::string& text, Revision revision);

}  // namespace holdfast::agent
