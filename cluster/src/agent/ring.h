// What is written into a machine's bell, the one key that it watches. A ring is a hint: it may be lost, late, or come
// before the answer of the transaction that wrote it; what it says counts only together with the revision of the lock.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "agent/keys.h"
#include "agent/queue.h"
#include "agent/store.h"

namespace holdfast::agent {

/// The lock is yours, by the transaction that wrote this: its revision is that of the grant.
struct Grant {
  LockName name;
  std::vector<Waiter> next;  // in their order; `since` 0: by this same transaction
  Revision complete = 0;     // Queue::complete()
};

/// Your grant of that revision is waited for.
struct Note {
  LockName name;
  Revision grant = 0;
  Waiter first;
};

/// Your grant of that revision was broken.
struct Broken {
  LockName name;
  Revision grant = 0;
};

using Ring = std::variant<std::monostate, Grant, Note, Broken>;

/// Waiters that a Grant tells of at most. Rows: One contender on each machine.
inline constexpr std::size_t kNextMax = 8;

std::string write_ring(const Ring& ring);
/// Nothing for foreign text. `revision`: of the put; it takes the place of `since` 0.
Ring read_ring(const std::string& text, Revision revision);

}  // namespace holdfast::agent
