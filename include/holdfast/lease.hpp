// Owners of what is held.
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

/// Seconds. std::chrono's literals convert to it.
using duration = std::chrono::duration<double>;
/// As a timeout: without end.
inline constexpr duration forever{std::numeric_limits<double>::infinity()};

/// What a request for a lock says besides its timeout.
struct terms {
  duration exptime{0};   // after it others may have the lock, though it was not given back; 0: never
  bool fair = false;     // overtakes no waiter, and is not overtaken
  std::string why = {};  // for those that ask for the holder
};

namespace detail {

/// A release that cannot be refused. While a process is stopped in the middle of a change, nobody can take the lock
/// anyway: so wait until it goes on, or is killed.
inline void unlock_for_certain(holdfast_dict* dict, const std::string& key, holdfast_lease& raw) noexcept {
  while (holdfast_unlock(dict, key.data(), key.size(), &raw) == HOLDFAST_TIMEOUT) continue;
  // Refused for another reason: the library tries again.
  if (raw.owner != 0) holdfast_unlock_for_certain(dict, key.data(), key.size(), &raw);
}

}  // namespace detail

/// Holds a lock or permits of a key, and gives them back at its end. Any thread may have it, one at a time.
class lease {
 public:
  lease() noexcept = default;  // holds nothing
  /// REQUIRES: `raw` is a lease of that key, and nothing else gives it back.
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

  /// Whether something was held and not given back; valid() tells whether it still is.
  explicit operator bool() const noexcept { return raw_.owner != 0; }
  /// Gives it back. errc::not_owner, removed: it was lost before. errc::timeout: it is still held.
  result<void> unlock() {
    return *this ? detail::outcome(holdfast_unlock(dict_, key_.data(), key_.size(), &raw_)) : result<void>();
  }
  /// A new exptime, from now.
  result<void> renew(duration exptime) {
    return detail::outcome(holdfast_lock_renew(dict_, key_.data(), key_.size(), &raw_, exptime.count()));
  }
  /// Gives back all permits but so many: 1 makes a writer a reader.
  result<void> keep(std::uint32_t count) {
    return detail::outcome(holdfast_permits_keep(dict_, key_.data(), key_.size(), &raw_, count));
  }
  /// Until it expires; `forever` if it never does.
  result<duration> remaining() const {
    double left = 0;
    const int code = holdfast_lock_remaining(dict_, key_.data(), key_.size(), &raw_, &left);
    if (code != HOLDFAST_OK) return failure::of(code);
    return left == 0 ? forever : duration(left);
  }
  bool valid() const noexcept {
    double left = 0;
    return *this && holdfast_lock_remaining(dict_, key_.data(), key_.size(), &raw_, &left) == HOLDFAST_OK;
  }
  /// The fencing number: larger than that of each earlier grant of the key.
  std::uint64_t token() const noexcept { return raw_.sequence; }
  const std::string& key() const noexcept { return key_; }
  /// Gives up ownership: the caller gives it back. Afterwards nothing is held here.
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
