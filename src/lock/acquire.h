// Waits that stop the calling thread, for locks and permits alike.
//
// The first attempt needs nothing. Only if it fails, the thread gets a parker: on its own stack, and for this wait
// alone. So threads share nothing here, a thread that ends leaves nothing behind, and a forked child inherits nothing.
//
// Signals, wake-ups without a cause and processes that enter the world at the same time end no wait.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "dict/dictionary.h"
#include "lock/lease.h"
#include "lock/permits.h"

namespace holdfast {

/// Takes the lock, and waits for it up to `timeout` seconds; 0 or less: not at all; more than kLongest: without end.
/// The codes of lock_try() and lock_wait(); locked, timeout: as of the last attempt, when the time was over. Of a
/// cluster also unavailable: the store that gives locks to this machine is out of reach; and where the caller does not
/// wait, the store is asked all the same, for up to a second: elsewhere, if another machine has the lock. deadlock:
/// `cycle` has the keys of the cycle of waits. Request::timeout and Request::tries are ignored. Throws
/// std::bad_alloc, and std::runtime_error where the process has too many waiters; nothing is taken then.
Code lock_blocking(Dictionary& dictionary, std::string_view key, const Request& request, double timeout, Lease& lease,
                   std::vector<std::string>& cycle);
/// The same for permits, which are in no cluster.
Code permits_blocking(Dictionary& dictionary, std::string_view key, const PermitsRequest& request, double timeout,
                      Lease& lease, std::vector<std::string>& cycle);

}  // namespace holdfast
