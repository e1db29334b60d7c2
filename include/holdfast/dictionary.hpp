// Dictionaries, with their values and locks.
#ifndef HOLDFAST_DICTIONARY_HPP
#define HOLDFAST_DICTIONARY_HPP

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "lease.hpp"

namespace holdfast {
inline namespace v1 {

/// A Lua table, as bytes that only Lua can read.
struct table {
  std::string bytes;

  bool operator==(const table&) const = default;
};
using value = std::variant<bool, double, std::string, table>;

/// The version of a key (holdfast_version_of_key). A version that was not returned by a call is unknown.
using version = holdfast_version_of_key;

/// A value and its version.
struct versioned {
  std::optional<value> what;  // empty if the key has no value
  version of{};
};

namespace detail {

/// Makes a request. `want`: the number of permits of the rwlock, or 0 for the lock. The request points into `how`,
/// which must outlive the request.
inline holdfast_request request_of(duration timeout, const terms& how, std::uint32_t want = 0) noexcept {
  holdfast_request request{};
  request.kind = want == 0 ? HOLDFAST_HELD_LOCK : HOLDFAST_HELD_RWLOCK;
  request.timeout = timeout.count();
  request.exptime = how.exptime.count();
  request.want = want;
  request.fair = how.fair ? 1 : 0;
  request.why = how.why.empty() ? nullptr : how.why.c_str();
  return request;
}

}  // namespace detail

/// Parses a number of bytes, such as "12345", "100k", "1m" or "8g".
inline result<std::uint64_t> parse_size(std::string_view text) {
  std::uint64_t bytes = 0;
  const int code = holdfast_parse_size(text.data(), text.size(), &bytes);
  if (code != HOLDFAST_OK) return failure::of(code);
  return bytes;
}

/// A handle to an open dictionary. It may be copied, is valid as long as the process lives, and may be used in any
/// thread.
class dictionary {
 public:
  /// Opens a dictionary as holdfast_open does: `open("jobs", {.size = 1 << 20})`.
  static result<dictionary> open(std::string_view name, const holdfast_options& options) {
    return opened([&](holdfast_dict** dict) { return holdfast_open(name.data(), name.size(), &options, dict); });
  }
  /// Opens a dictionary whose keys have versions, as holdfast_open_with_versions does.
  static result<dictionary> open_with_versions(std::string_view name, const holdfast_options& options) {
    return opened(
        [&](holdfast_dict** dict) { return holdfast_open_with_versions(name.data(), name.size(), &options, dict); });
  }
  /// Opens an existing or declared dictionary as holdfast_attach does. Fails with errc::not_found if there is none.
  static result<dictionary> attach(std::string_view name) {
    return opened([&](holdfast_dict** dict) { return holdfast_attach(name.data(), name.size(), dict); });
  }
  /// Removes a dictionary and its locks, as holdfast_remove does.
  static result<void> remove(std::string_view name) {
    return detail::outcome(holdfast_remove(name.data(), name.size()));
  }

  /// Wraps a handle. REQUIRES: `handle` is open.
  explicit dictionary(holdfast_dict* handle) noexcept : handle_(handle) {}
  /// Returns the handle for the calls of holdfast.h.
  holdfast_dict* handle() const noexcept { return handle_; }

  /// Returns the size, in bytes, of the largest value that fits under a key of up to 256 bytes.
  std::uint64_t largest_value() const { return holdfast_largest_value(handle_); }

  // --- values ---

  /// Returns the value. Fails with errc::not_found if there is none. A key that is held as a lock has the value true.
  result<value> get(std::string_view key) const {
    return read([&](holdfast_value& got) { return holdfast_get(handle_, key.data(), key.size(), &got); });
  }
  /// Stores `what`, which is a bool, a number or a string. set() always stores; add() stores only if there is no value
  /// (else errc::exists), and replace() only if there is a value (else errc::not_found). The value expires after
  /// `exptime` seconds; 0 means never.
  template <class T>
  result<void> set(std::string_view key, const T& what, duration exptime = {}, std::uint32_t flags = 0) const {
    return store(HOLDFAST_SET, key, what, exptime, flags);
  }
  template <class T>
  result<void> add(std::string_view key, const T& what, duration exptime = {}, std::uint32_t flags = 0) const {
    return store(HOLDFAST_ADD, key, what, exptime, flags);
  }
  template <class T>
  result<void> replace(std::string_view key, const T& what, duration exptime = {}, std::uint32_t flags = 0) const {
    return store(HOLDFAST_REPLACE, key, what, exptime, flags);
  }
  /// Adds `by` to a number and returns the sum. If the key has no value and `init` is given, stores `init` + `by` with
  /// this `exptime`.
  result<double> incr(std::string_view key, double by, std::optional<double> init = {}, duration exptime = {}) const {
    double sum = 0;
    const int code = holdfast_incr(handle_, key.data(), key.size(), by, init.has_value() ? 1 : 0, init.value_or(0),
                                   exptime.count(), &sum, nullptr);
    if (code != HOLDFAST_OK) return failure::of(code);
    return sum;
  }
  /// Deletes the key, and releases its lock if it has one. Succeeds even if there is no such key.
  result<void> erase(std::string_view key) const {
    return detail::outcome(holdfast_delete(handle_, key.data(), key.size()));
  }

  // --- versions, as holdfast.h describes them. They fail with errc::unsupported if the keys have no versions. ---

  /// Returns the key's version.
  result<version> version_of(std::string_view key) const {
    version found{};
    const int code = holdfast_key_version(handle_, key.data(), key.size(), &found);
    if (code != HOLDFAST_OK) return failure::of(code);
    return found;
  }
  /// Returns the key's value and version. Fails with errc::unchanged if the version is still `known`.
  result<versioned> get_changed(std::string_view key, const version& known = {}) const {
    version now{};
    auto got = read([&](holdfast_value& into) {
      now = known;  // a value that did not fit must be read again
      return holdfast_get_changed(handle_, key.data(), key.size(), &now, &into);
    });
    if (got) return versioned{std::move(*got), now};
    if (got.error().code == errc::not_found) return versioned{std::nullopt, now};
    return got.error();
  }
  /// Returns whether a value that get_changed() returned together with this version is still current.
  bool is_current(const version& known) const noexcept {
    return holdfast_is_current(handle_, known.number, known.stripe, known.end) != 0;
  }
  /// Stores a value if the version is still `known`, and returns the new version. Otherwise fails with errc::differs.
  template <class T>
  result<version> set_unless_changed(std::string_view key, version known, const T& what, duration exptime = {},
                                     std::uint32_t flags = 0) const {
    const auto stored = stored_as(what, [&](int type, std::string_view text, double number) {
      return holdfast_store_unless_changed(handle_, key.data(), key.size(), &known, type, text.data(), text.size(),
                                           number, exptime.count(), flags, nullptr);
    });
    if (stored != HOLDFAST_OK) return failure::of(stored);
    return known;
  }
  /// Waits until the version is no longer `known`, and returns the new version. After `timeout`, fails with
  /// errc::unchanged.
  result<version> wait_for_change(std::string_view key, version known, duration timeout = forever) const {
    const int code = holdfast_wait_for_change(handle_, key.data(), key.size(), timeout.count(), &known);
    if (code != HOLDFAST_OK) return failure::of(code);
    return known;
  }

  // --- locks ---

  /// Waits up to `timeout` for the lock. Fails with errc::locked if another holder still has it.
  result<lease> lock(std::string_view key, duration timeout = forever, const terms& how = {}) const {
    return acquire(key, detail::request_of(timeout, how));
  }
  /// Waits for the key's rwlock, as a reader or as a writer. If a key is used both as a lock and as an rwlock, the two
  /// exclude each other.
  result<lease> lock_shared(std::string_view key, duration timeout = forever, const terms& how = {}) const {
    return acquire(key, detail::request_of(timeout, how, 1));
  }
  result<lease> lock_exclusive(std::string_view key, duration timeout = forever, const terms& how = {}) const {
    return acquire(key, detail::request_of(timeout, how, HOLDFAST_ALL_PERMITS));
  }
  /// Acquires a lock or permits as holdfast_acquire does, with all its options.
  result<lease> acquire(std::string_view key, const holdfast_request& request) const {
    std::string own(key);  // copied before the lock is taken, because this may throw
    holdfast_lease raw{};
    const int code = holdfast_acquire(handle_, key.data(), key.size(), &request, &raw);
    if (code != HOLDFAST_OK) return failure::of(code);
    return lease(handle_, std::move(own), raw);
  }

 private:
  template <class Open>
  static result<dictionary> opened(Open&& open) {
    if (holdfast_abi() != HOLDFAST_ABI) {
      return failure{errc::mismatch, "libholdfast has ABI " + std::to_string(holdfast_abi()) +
                                         ", and this program was compiled for " + std::to_string(HOLDFAST_ABI)};
    }
    holdfast_dict* handle = nullptr;
    const int code = open(&handle);
    if (code != HOLDFAST_OK) return failure::of(code);
    return dictionary(handle);
  }
  /// Runs `call(holdfast_value&) -> int`, and runs it again with a larger buffer if the value did not fit.
  template <class Call>
  static result<value> read(Call&& call) {
    char small[256];
    std::string large;
    holdfast_value got{};
    got.data = small;
    got.capacity = sizeof small;
    int code = call(got);
    while (code == HOLDFAST_BUFFER) {  // other processes may store a longer value at the same time
      large.resize(got.size);
      got.data = large.data();
      got.capacity = large.size();
      code = call(got);
    }
    if (code != HOLDFAST_OK) return failure::of(code);
    if (got.type == HOLDFAST_BOOLEAN) return value(got.number != 0);
    if (got.type == HOLDFAST_NUMBER) return value(got.number);
    std::string text(got.data, got.size);
    return got.type == HOLDFAST_TABLE ? value(table{std::move(text)}) : value(std::move(text));
  }
  /// Runs `call(type, text, number)` with the parts of a value.
  template <class T, class Call>
  static int stored_as(const T& what, Call&& call) {
    if constexpr (std::is_arithmetic_v<T>)
      return call(std::is_same_v<T, bool> ? HOLDFAST_BOOLEAN : HOLDFAST_NUMBER, std::string_view(),
                  static_cast<double>(what));
    else
      return call(HOLDFAST_STRING, std::string_view(what), 0.0);
  }
  template <class T>
  result<void> store(int op, std::string_view key, const T& what, duration exptime, std::uint32_t flags) const {
    return detail::outcome(stored_as(what, [&](int type, std::string_view text, double number) {
      return holdfast_store(handle_, op, key.data(), key.size(), type, text.data(), text.size(), number,
                            exptime.count(), flags, nullptr);
    }));
  }

  holdfast_dict* handle_;
};

}  // namespace v1
}  // namespace holdfast

#endif
