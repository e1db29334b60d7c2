// Leases, which own locks and permits.
#ifndef HOLDFAST_LEASE_HPP
#define HOLDFAST_LEASE_HPP

#include <chrono>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "result.hpp"

namespace holdfast {
inline namespace v1 {

/// A time in seconds. The literals of std::chrono convert to it.
using duration = std::chrono::duration<double>;
/// A timeout without limit.
inline constexpr duration forever{std::numeric_limits<double>::infinity()};

/// The options of a request for a lock, except its timeout.
struct terms {
  duration exptime{0};   // time after which others may take the lock even if it was not released; 0: never
  bool fair = false;     // overtakes no waiter, and is not overtaken
  std::string why = {};  // shown to callers that ask for the holder
};

namespace detail {

/// Releases the lease in any case. If another process was stopped in the middle of a change, waits until that process
/// continues or is killed; nobody can take the lock before then anyway.
inline void unlock_for_certain(holdfast_dict* dict, const std::string& key, holdfast_lease& raw) noexcept {
  while (holdfast_unlock(dict, key.data(), key.size(), &raw) == HOLDFAST_TIMEOUT) continue;
  // The release was refused for another reason, so the library retries it.
  if (raw.owner != 0) holdfast_unlock_for_certain(dict, key.data(), key.size(), &raw);
}

}  // namespace detail

/// Owns a lock, or permits of a key, and releases them in its destructor. Any thread may own the object, but only one
/// at a time.
class lease {
 public:
  lease() noexcept = default;  // holds nothing
  /// Takes ownership. REQUIRES: `raw` is a lease of this key, and nothing else releases it.
  lease(holdfast_dict* dict, std::string key, const holdfast_lease& raw) noexcept
      : dict_(dict), key_(std::move(key)), raw_(raw) {}
  lease(lease&& other) noexcept : dict_(other.dict_), key_(std::move(other.key_)), raw_(other.detach()) {}
  lease& operator=(lease&& other) noexcept {
    if (this == &other) return *this;
    release();
    dict_ = other.dict_;
    key_ = std::move(other.key_);
    raw_ = other.detach();
    return *this;
  }
  ~lease() { release(); }

  /// Returns whether this object has acquired a lease and not released it. valid() returns whether the lease is still
  /// held.
  explicit operator bool() const noexcept { return raw_.owner != 0; }
  /// Releases the lease. After errc::not_owner or removed, it was already lost. After errc::timeout, it is still held.
  result<void> unlock() {
    return *this ? detail::outcome(holdfast_unlock(dict_, key_.data(), key_.size(), &raw_)) : result<void>();
  }
  /// Gives the lease a new exptime, which counts from now.
  result<void> renew(duration exptime) {
    return detail::outcome(holdfast_lock_renew(dict_, key_.data(), key_.size(), &raw_, exptime.count()));
  }
  /// Releases all permits except `count`. A count of 1 makes a writer a reader.
  result<void> keep(std::uint32_t count) {
    return detail::outcome(holdfast_permits_keep(dict_, key_.data(), key_.size(), &raw_, count));
  }
  /// Makes a reader of an rwlock the writer, and waits for all other readers. The lease keeps its token and its
  /// exptime. On failure it still has the read lock, except after errc::not_owner and removed. errc::deadlock means
  /// that another reader waits to become the writer, and continues when this lease is released.
  result<void> upgrade(duration timeout = forever) {
    return detail::outcome(holdfast_upgrade(dict_, key_.data(), key_.size(), timeout.count(), 0, &raw_));
  }
  /// Returns the time until the lease expires, or `forever` if it never does.
  result<duration> remaining() const {
    double left = 0;
    const int code = holdfast_lock_remaining(dict_, key_.data(), key_.size(), &raw_, &left);
    if (code != HOLDFAST_OK) return failure::of(code);
    return left == 0 ? forever : duration(left);
  }
  /// Returns whether the lease is still held.
  bool valid() const noexcept {
    double left = 0;
    return *this && holdfast_lock_remaining(dict_, key_.data(), key_.size(), &raw_, &left) == HOLDFAST_OK;
  }
  /// Returns the fencing token, which is larger than the tokens of all earlier grants of the key.
  std::uint64_t token() const noexcept { return raw_.sequence; }
  const std::string& key() const noexcept { return key_; }
  /// Gives up ownership: the caller must release the returned lease. Afterwards, this object does not hold anything.
  holdfast_lease detach() noexcept { return std::exchange(raw_, {}); }

 private:
  void release() noexcept {
    if (*this) detail::unlock_for_certain(dict_, key_, raw_);
  }

  holdfast_dict* dict_ = nullptr;
  std::string key_;
  holdfast_lease raw_{};
};

}  // namespace v1
}  // namespace holdfast

#endif
