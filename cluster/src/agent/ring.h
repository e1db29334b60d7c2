// Notifications between machines. Each machine watches one key, its notification key ("bell"); each put of this key is
// a notification ("ring"). A notification is a hint: it may be lost or late, or arrive before the answer to the
// transaction that wrote it. It counts only if it fits the revision of the lock.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "agent/keys.h"
#include "agent/queue.h"
#include "agent/store.h"

namespace holdfast::agent {

/// The transaction that wrote this notification gave the lock to the receiver. The notification has the revision of the
/// grant.
struct Grant {
  LockName name;
  std::vector<Waiter> next;  // in the order of the queue; `since` 0: the waiter joined in the same transaction
  Revision complete = 0;     // Queue::complete()
};

/// A machine waits for the lock that the receiver has got by the grant with this revision.
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

/// The most waiters that a Grant lists. Benchmark: "One contender on each machine".
inline constexpr std::size_t kNextMax = 8;

std::string write_ring(const Ring& ring);
/// Parses a notification; returns nothing if the text is not one. `revision`: the revision of the put, which replaces a
/// `since` of 0.
Ring read_ring(const std::string& text, Revision revision);

}  // namespace holdfast::agent
