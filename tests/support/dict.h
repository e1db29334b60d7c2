// Wraps the C ABI of dictionaries and locks in C++ types, for tests.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <ostream>
#include <set>
#include <string>
#include <string_view>

#include "capi/handle.h"
#include "holdfast.h"

namespace holdfast::test {

struct Got {
  int code = -1;
  int type = HOLDFAST_NIL;
  std::string text;
  double number = 0;
  std::uint32_t flags = 0;

  friend bool operator==(const Got&, const Got&) = default;
};

inline Got text(std::string value, std::uint32_t flags = 0) {
  return {HOLDFAST_OK, HOLDFAST_STRING, std::move(value), 0, flags};
}
inline Got number(double value, std::uint32_t flags = 0) { return {HOLDFAST_OK, HOLDFAST_NUMBER, "", value, flags}; }
inline Got boolean(bool value, std::uint32_t flags = 0) {
  return {HOLDFAST_OK, HOLDFAST_BOOLEAN, "", value ? 1.0 : 0.0, flags};
}
inline Got nothing() { return {HOLDFAST_NOT_FOUND, HOLDFAST_NIL, "", 0, 0}; }

inline std::ostream& operator<<(std::ostream& out, const Got& got) {
  return out << "{code " << got.code << ", type " << got.type << ", " << got.text.size() << " bytes \""
             << got.text.substr(0, 40) << "\", number " << got.number << ", flags " << got.flags << "}";
}

struct Options {
  std::uint64_t size = 65536;
  int mutex = HOLDFAST_MUTEX_FUTEX;  // a holdfast_mutex, or an invalid value
  bool persist = false;              // HOLDFAST_PERSISTENT, otherwise HOLDFAST_TEMPORARY
  bool kept = false;                 // HOLDFAST_KEPT, regardless of `persist`
  std::uint32_t mode = 0;
  const char* cluster = nullptr;
  std::uint64_t largest = 0;
  bool versions = false;
  std::int32_t life() const noexcept {
    if (kept) return HOLDFAST_KEPT;
    return persist ? HOLDFAST_PERSISTENT : HOLDFAST_TEMPORARY;
  }
};

/// Repeats the call while another process is delayed in the dictionary. These calls wait for only 50 ms, and longer
/// delays are normal on a busy machine.
template <class Call>
int unless_held_up(Call&& call) {
  constexpr double kPatienceSeconds = 20;
  const double end = holdfast_now() + kPatienceSeconds;
  int code = call();
  while (code == HOLDFAST_TIMEOUT && holdfast_now() < end) code = call();
  return code;
}

/// An open dictionary. `status` is the result of the call that opened it.
class Dict {
 public:
  explicit Dict(const std::string& name, const Options& options = {}) {
    const holdfast_options wanted{options.size, options.mutex,   options.life(),
                                  options.mode, options.cluster, options.largest};
    status =
        (options.versions ? holdfast_open_with_versions : holdfast_open)(name.data(), name.size(), &wanted, &handle);
  }

  int set(std::string_view key, std::string_view value, double exptime = 0, std::uint32_t flags = 0) {
    return store(HOLDFAST_SET, key, value, exptime, flags);
  }
  int add(std::string_view key, std::string_view value, double exptime = 0) {
    return store(HOLDFAST_ADD, key, value, exptime, 0);
  }
  int replace(std::string_view key, std::string_view value, double exptime = 0) {
    return store(HOLDFAST_REPLACE, key, value, exptime, 0);
  }
  int store(int op, std::string_view key, std::string_view value, double exptime, std::uint32_t flags) {
    return holdfast_store(handle, op, key.data(), key.size(), HOLDFAST_STRING, value.data(), value.size(), 0, exptime,
                          flags, nullptr);
  }
  int set_number(std::string_view key, double value, double exptime = 0, std::uint32_t flags = 0) {
    return holdfast_store(handle, HOLDFAST_SET, key.data(), key.size(), HOLDFAST_NUMBER, nullptr, 0, value, exptime,
                          flags, nullptr);
  }
  int set_boolean(std::string_view key, bool value, double exptime = 0, std::uint32_t flags = 0) {
    return holdfast_store(handle, HOLDFAST_SET, key.data(), key.size(), HOLDFAST_BOOLEAN, nullptr, 0, value ? 1 : 0,
                          exptime, flags, nullptr);
  }
  Got get(std::string_view key) {
    return got([&](holdfast_value* value) { return holdfast_get(handle, key.data(), key.size(), value); });
  }
  /// Also returns an expired entry that still exists.
  Got get_stale(std::string_view key, bool* stale) {
    int is_stale = 0;
    Got found = got(
        [&](holdfast_value* value) { return holdfast_get_stale(handle, key.data(), key.size(), value, &is_stale); });
    *stale = is_stale != 0;
    return found;
  }
  /// A null pointer means no value.
  int cas(std::string_view key, const Got* expected, const Got* desired, double exptime = 0) {
    holdfast_value old = value_of(expected);
    holdfast_value then = value_of(desired);
    return holdfast_cas(handle, key.data(), key.size(), &old, &then, exptime, nullptr);
  }
  /// Returns the number of entries, or a negated code.
  int flush_expired(std::uint32_t max = 0) {
    std::uint32_t count = 0;
    const int code = holdfast_flush_expired(handle, max, &count);
    return code == HOLDFAST_OK ? static_cast<int>(count) : -code;
  }
  /// `capacity` is the size of the buffer.
  Got pop(std::string_view key, int end, std::size_t capacity = kBuffer) {
    return got([&](holdfast_value* value) { return holdfast_pop(handle, key.data(), key.size(), end, value); },
               capacity);
  }
  /// Returns the new length, or a negated code.
  int push(std::string_view key, int end, std::string_view value) {
    std::uint32_t length = 0;
    const int code =
        holdfast_push(handle, key.data(), key.size(), end, HOLDFAST_STRING, value.data(), value.size(), 0, &length);
    return code == HOLDFAST_OK ? static_cast<int>(length) : -code;
  }
  int push_number(std::string_view key, int end, double value) {
    std::uint32_t length = 0;
    const int code = holdfast_push(handle, key.data(), key.size(), end, HOLDFAST_NUMBER, nullptr, 0, value, &length);
    return code == HOLDFAST_OK ? static_cast<int>(length) : -code;
  }
  /// Returns the length, or a negated code.
  int llen(std::string_view key) {
    std::uint32_t length = 0;
    const int code = holdfast_llen(handle, key.data(), key.size(), &length);
    return code == HOLDFAST_OK ? static_cast<int>(length) : -code;
  }
  int remove(std::string_view key) { return holdfast_delete(handle, key.data(), key.size()); }
  int incr(std::string_view key, double by, double* sum) {
    return holdfast_incr(handle, key.data(), key.size(), by, 0, 0, 0, sum, nullptr);
  }
  int incr_from(std::string_view key, double by, double init, double init_ttl, double* sum) {
    return holdfast_incr(handle, key.data(), key.size(), by, 1, init, init_ttl, sum, nullptr);
  }
  int expire(std::string_view key, double exptime) { return holdfast_expire(handle, key.data(), key.size(), exptime); }
  static constexpr double kNoKey = -1e15;
  double ttl(std::string_view key) {
    double seconds = 0;
    return holdfast_ttl(handle, key.data(), key.size(), &seconds) == HOLDFAST_OK ? seconds : kNoKey;
  }
  int flush_all() { return holdfast_flush_all(handle); }
  std::multiset<std::string> keys(std::uint32_t max = 0) {
    std::uint32_t count = 0;
    return unpacked([&](holdfast_value& keys) { return holdfast_keys(handle, max, &keys, &count); });
  }
  /// Makes one step of a scan, and returns its keys.
  std::multiset<std::string> scan(std::uint64_t* cursor, std::uint32_t count, std::string_view prefix = "") {
    std::uint32_t found = 0;
    return unpacked([&](holdfast_value& keys) {
      return holdfast_scan(handle, cursor, count, prefix.data(), prefix.size(), &keys, &found);
    });
  }
  /// Returns all keys that are held or waited for.
  std::multiset<std::string> locks(std::uint32_t count = 1000, std::string_view prefix = "") {
    std::multiset<std::string> all;
    std::uint64_t cursor = 0;
    do {
      std::uint32_t found = 0;
      all.merge(unpacked([&](holdfast_value& keys) {
        return holdfast_scan_locks(handle, &cursor, count, prefix.data(), prefix.size(), &keys, &found);
      }));
    } while (cursor != 0);
    return all;
  }
  /// Returns all keys.
  std::multiset<std::string> scan_all(std::uint32_t count, std::string_view prefix = "") {
    std::multiset<std::string> all;
    std::uint64_t cursor = 0;
    do {
      all.merge(scan(&cursor, count, prefix));
    } while (cursor != 0);
    return all;
  }
  holdfast_stats stats() {
    holdfast_stats stats{};
    holdfast_dict_stats(handle, &stats);
    return stats;
  }
  std::uint64_t free_space() { return holdfast_free_space(handle); }

  /// Returns the key's version. Its number is 0 if there is no version.
  holdfast_version_of_key version(std::string_view key) {
    holdfast_version_of_key version{};
    if (holdfast_key_version(handle, key.data(), key.size(), &version) != HOLDFAST_OK) version.number = 0;
    return version;
  }
  bool is_current(const holdfast_version_of_key& version) {
    return holdfast_is_current(handle, version.number, version.stripe, version.end) == 1;
  }
  Got get_changed(std::string_view key, holdfast_version_of_key* version, std::size_t capacity = kBuffer) {
    return got(
        [&](holdfast_value* value) { return holdfast_get_changed(handle, key.data(), key.size(), version, value); },
        capacity);
  }
  /// If `value` is null, deletes the key.
  int store_unless_changed(std::string_view key, holdfast_version_of_key* version, const Got* value,
                           double exptime = 0) {
    const holdfast_value then = value_of(value);
    return holdfast_store_unless_changed(handle, key.data(), key.size(), version, then.type, then.data, then.size,
                                         then.number, exptime, then.flags, nullptr);
  }
  int wait_for_change(std::string_view key, double timeout, holdfast_version_of_key* version) {
    return holdfast_wait_for_change(handle, key.data(), key.size(), timeout, version);
  }

  int try_lock(std::string_view key, double exptime, holdfast_lease* lease) {
    return holdfast_lock_try(handle, key.data(), key.size(), exptime, 0, 0, lease);
  }
  int unlock(std::string_view key, holdfast_lease* lease) {
    return holdfast_unlock(handle, key.data(), key.size(), lease);
  }
  int renew(std::string_view key, const holdfast_lease& lease, double exptime) {
    return holdfast_lock_renew(handle, key.data(), key.size(), &lease, exptime);
  }
  int adopt(std::string_view key, const holdfast_lease& lease, std::uint32_t task) {
    return holdfast_lock_adopt(handle, key.data(), key.size(), &lease, task);
  }
  int wait_lock(std::string_view key, double exptime, holdfast_parker* parker, std::uint32_t waiter,
                holdfast_lease* lease, double* sleep) {
    holdfast_wait wait{};
    wait.parker = parker;
    wait.waiter = waiter;
    const int code = holdfast_lock_wait(handle, key.data(), key.size(), exptime, &wait, lease);
    *sleep = wait.sleep;
    return code;
  }
  int explain(std::string_view key, const holdfast_lease& lease, std::string_view why) {
    return holdfast_lock_explain(handle, key.data(), key.size(), &lease, why.data(), why.size());
  }
  int holder(std::string_view key, holdfast_holder* holder) {
    return holdfast_lock_holder(handle, key.data(), key.size(), holder);
  }
  /// If `kind` is RWLOCK, ignores `total`.
  int try_permits(std::string_view key, int kind, std::uint32_t want, std::uint32_t total, double exptime,
                  holdfast_lease* lease, bool fair = false) {
    return holdfast_permits_try(handle, key.data(), key.size(), kind, want, total, exptime, 0, fair ? 1 : 0, lease);
  }
  int wait_permits(std::string_view key, int kind, std::uint32_t want, std::uint32_t total, double exptime,
                   holdfast_wait* wait, holdfast_lease* lease) {
    return holdfast_permits_wait(handle, key.data(), key.size(), kind, want, total, exptime, wait, lease);
  }
  int keep(std::string_view key, const holdfast_lease& lease, std::uint32_t count) {
    return holdfast_permits_keep(handle, key.data(), key.size(), &lease, count);
  }
  /// If `wait` is null, only tries once.
  int upgrade(std::string_view key, const holdfast_lease& lease, holdfast_wait* wait = nullptr, int how = 0) {
    return holdfast_permits_upgrade(handle, key.data(), key.size(), how, wait, &lease);
  }
  /// Returns the number of permits in use, or a negated code.
  int used(std::string_view key) { return count(key, false); }
  int waiters(std::string_view key) { return count(key, true); }
  /// Returns the length of the queue for a lock or permits, including watchers, or 0 if the key is not held.
  std::uint32_t queued(std::string_view key) {
    std::uint32_t holders = 0;
    std::uint32_t waiting = 0;
    holdfast_holders(handle, key.data(), key.size(), nullptr, 0, &holders, &waiting);
    return waiting;
  }
  double remaining(std::string_view key, const holdfast_lease& lease) {
    double seconds = 0;
    return holdfast_lock_remaining(handle, key.data(), key.size(), &lease, &seconds) == HOLDFAST_OK ? seconds : -1;
  }
  int leave(std::string_view key, holdfast_parker* parker, std::uint32_t waiter) {
    return holdfast_lock_leave(handle, key.data(), key.size(), parker, waiter);
  }

  Dictionary& dictionary() { return capi::unwrap(handle); }
  Segment& segment() { return *dictionary().segment(EpochGuard()); }

  holdfast_dict* handle = nullptr;
  int status = -1;

 private:
  static constexpr std::size_t kBuffer = 1 << 20;

  int count(std::string_view key, bool of_waiters) {
    std::uint32_t used = 0;
    std::uint32_t waiters = 0;
    const int code = holdfast_permits_count(handle, key.data(), key.size(), &used, &waiters);
    return code != HOLDFAST_OK ? -code : static_cast<int>(of_waiters ? waiters : used);
  }

  static std::string& buffer() {
    thread_local std::string bytes(kBuffer, '\0');
    return bytes;
  }
  /// Returns the keys that `call` packs into a buffer.
  template <class Call>
  static std::multiset<std::string> unpacked(Call&& call) {
    std::multiset<std::string> keys;
    std::string room(4096, '\0');
    holdfast_value packed{};
    int code = HOLDFAST_BUFFER;
    while (code == HOLDFAST_BUFFER) {
      room.resize(std::max(room.size(), packed.size));
      packed.data = room.data();
      packed.capacity = room.size();
      code = call(packed);
    }
    if (code != HOLDFAST_OK) return keys;
    std::string_view rest(packed.data, packed.size);
    while (!rest.empty()) {
      std::uint32_t length = 0;
      std::memcpy(&length, rest.data(), sizeof length);
      keys.emplace(rest.substr(sizeof length, length));
      rest.remove_prefix(sizeof length + length);
    }
    return keys;
  }
  static holdfast_value value_of(const Got* got) {
    holdfast_value value{};
    if (got == nullptr) return value;
    value.type = got->type;
    value.flags = got->flags;
    value.number = got->number;
    value.data = const_cast<char*>(got->text.data());
    value.size = got->text.size();
    return value;
  }
  template <class Call>
  static Got got(Call&& call, std::size_t capacity = kBuffer) {
    holdfast_value value{};
    value.data = buffer().data();
    value.capacity = capacity;
    Got got;
    got.code = call(&value);
    got.type = value.type;
    if (got.code != HOLDFAST_OK) return got;
    got.flags = value.flags;
    if (value.type == HOLDFAST_STRING || value.type == HOLDFAST_TABLE)
      got.text.assign(value.data, value.size);
    else
      got.number = value.number;
    return got;
  }
};

}  // namespace holdfast::test
