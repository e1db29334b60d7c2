// The keys of a cluster in the store. All keys share one prefix, the namespace:
//
//   l/DICTIONARY/KEY         a lock, attached to its holder's lease; the lock is held while the key exists
//   q/DICTIONARY/KEY/LEASE   a machine that waits for the lock; the oldest key is first in the queue
//   b/LEASE                  a machine's notification key, the only key that the machine watches (agent/ring.h)
//   m/LEASE                  a machine's document, which names the machine for people (agent/document.h)
//
// DICTIONARY and KEY are percent-encoded, so that no lock's queue is a prefix of another lock's queue. The lease
// identifies a machine.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include "agent/store.h"
#include "base/status.h"

namespace holdfast::agent {

/// The name of a cluster's lock, which is the same on every machine.
struct LockName {
  std::string dictionary;
  std::string key;

  bool operator==(const LockName&) const = default;
  bool operator<(const LockName& other) const {
    return std::tie(dictionary, key) < std::tie(other.dictionary, other.key);
  }
};

/// The maximum length of a lock's key, in bytes.
inline constexpr std::size_t kStoreKeyMax = 1024;

/// Returns "DICTIONARY/KEY", encoded. decode_lock() accepts only texts that this function can return.
std::string encode_lock(const LockName& name);
std::optional<LockName> decode_lock(std::string_view text);

std::string encode_lease(LeaseId lease);
std::optional<LeaseId> decode_lease(std::string_view text);

class Keys {
 public:
  /// `space`: the namespace, without a '/' at its end.
  explicit Keys(std::string_view space);

  /// Returns too_large if a key of this lock is longer than kStoreKeyMax.
  Status check(const LockName& name) const;

  std::string lock(const LockName& name) const;
  /// Returns the prefix of all waiters' keys.
  std::string queue(const LockName& name) const;
  std::string place(const LockName& name, LeaseId lease) const;
  std::string bell(LeaseId lease) const;
  std::string machine(LeaseId lease) const;

  /// Parse a key: the inverse functions.
  std::optional<LockName> lock_of(std::string_view key) const;
  std::optional<LockName> queue_of(std::string_view place) const;
  std::optional<LeaseId> waiter_of(std::string_view place) const;

 private:
  std::string prefix_;
};

}  // namespace holdfast::agent
