// The ways in which a key can be held. Each test of an owner's death runs for each way.
#pragma once

#include <ostream>
#include <string>

#include "support/dict.h"

namespace holdfast::test {

/// A primitive, as one contender uses it. The tests in this folder call primitives only through this structure.
struct Way {
  static constexpr int kLock = -1;

  const char* name;
  int fair;                 // whether waiters are served in order of arrival
  int kind = kLock;         // kLock or a holdfast_permits_kind
  std::uint32_t total = 1;  // number of permits, all of which the holder has

  int take(Dict& dict, const std::string& key, double exptime, holdfast_lease* lease) const {
    if (kind != kLock)
      return holdfast_permits_try(dict.handle, key.data(), key.size(), kind, total, total, exptime, 0, fair, lease);
    return holdfast_lock_try(dict.handle, key.data(), key.size(), exptime, 0, fair, lease);
  }
  int wait(Dict& dict, const std::string& key, double exptime, holdfast_parker* parker, std::uint32_t waiter,
           holdfast_lease* lease, double* sleep) const {
    holdfast_wait wait{};
    wait.parker = parker;
    wait.waiter = waiter;
    wait.fair = fair;
    const int code = kind == kLock ? holdfast_lock_wait(dict.handle, key.data(), key.size(), exptime, &wait, lease)
                                   : holdfast_permits_wait(dict.handle, key.data(), key.size(), kind, total, total,
                                                           exptime, &wait, lease);
    *sleep = wait.sleep;
    return code;
  }
  static int release(Dict& dict, const std::string& key, holdfast_lease* lease) { return dict.unlock(key, lease); }
  static int renew(Dict& dict, const std::string& key, const holdfast_lease& lease, double exptime) {
    return dict.renew(key, lease, exptime);
  }
  static int leave(Dict& dict, const std::string& key, holdfast_parker* parker, std::uint32_t waiter) {
    return dict.leave(key, parker, waiter);
  }
};

inline std::ostream& operator<<(std::ostream& out, const Way& way) { return out << way.name; }

/// The ways in which only one contender at a time may hold a key.
inline constexpr Way kExclusiveWays[] = {
    {"lock", 0},
    {"fair_lock", 1},
    {"writer", 0, HOLDFAST_RWLOCK, HOLDFAST_ALL_PERMITS},
    {"semaphore", 0, HOLDFAST_SEMAPHORE, 1},
};

}  // namespace holdfast::test
