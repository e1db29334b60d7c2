// Results of calls: a value, or the reason why a call failed.
#ifndef HOLDFAST_RESULT_HPP
#define HOLDFAST_RESULT_HPP

#include <cstdlib>
#include <optional>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>
#include <variant>

#include "../holdfast.h"

namespace holdfast {
inline namespace v1 {

/// The reason why a call failed, as a holdfast_code.
enum class errc : int {
  not_found = HOLDFAST_NOT_FOUND,
  exists = HOLDFAST_EXISTS,
  no_memory = HOLDFAST_NO_MEMORY,
  timeout = HOLDFAST_TIMEOUT,
  not_a_number = HOLDFAST_NOT_A_NUMBER,
  locked = HOLDFAST_LOCKED,
  not_owner = HOLDFAST_NOT_OWNER,
  too_large = HOLDFAST_TOO_LARGE,
  buffer = HOLDFAST_BUFFER,
  invalid = HOLDFAST_INVALID,
  system = HOLDFAST_SYSTEM,
  mismatch = HOLDFAST_MISMATCH,
  corrupt = HOLDFAST_CORRUPT,
  permission = HOLDFAST_PERMISSION,
  busy = HOLDFAST_BUSY,
  removed = HOLDFAST_REMOVED,
  not_a_list = HOLDFAST_NOT_A_LIST,
  is_a_list = HOLDFAST_IS_A_LIST,
  differs = HOLDFAST_DIFFERS,
  deadlock = HOLDFAST_DEADLOCK,
  elsewhere = HOLDFAST_ELSEWHERE,
  unsupported = HOLDFAST_UNSUPPORTED,
  unavailable = HOLDFAST_UNAVAILABLE,
  unchanged = HOLDFAST_UNCHANGED,
};

namespace detail {

class category final : public std::error_category {
 public:
  const char* name() const noexcept override { return "holdfast"; }
  std::string message(int code) const override { return holdfast_code_text(code); }
  std::error_condition default_error_condition(int code) const noexcept override {
    switch (static_cast<errc>(code)) {
      case errc::deadlock:
        return std::errc::resource_deadlock_would_occur;
      case errc::locked:
      case errc::elsewhere:
        return std::errc::resource_unavailable_try_again;
      case errc::timeout:
        return std::errc::timed_out;
      case errc::not_owner:
        return std::errc::operation_not_permitted;
      case errc::no_memory:
        return std::errc::not_enough_memory;
      case errc::invalid:
        return std::errc::invalid_argument;
      case errc::permission:
        return std::errc::permission_denied;
      case errc::busy:
        return std::errc::device_or_resource_busy;
      default:
        return {code, *this};
    }
  }
};

}  // namespace detail

inline const std::error_category& category() noexcept {
  static const detail::category instance;
  return instance;
}

inline std::error_code make_error_code(errc code) noexcept { return {static_cast<int>(code), category()}; }

}  // namespace v1
}  // namespace holdfast

template <>
struct std::is_error_code_enum<holdfast::errc> : std::true_type {};

namespace holdfast {
inline namespace v1 {

/// The code of a failed call, and one sentence about the failure.
struct failure {
  errc code;
  std::string message;

  /// Describes the last call of this thread, which returned `code`. REQUIRES: `code` is not HOLDFAST_OK.
  static failure of(int code) { return {static_cast<errc>(code), holdfast_strerror(code)}; }
};

namespace detail {

[[noreturn]] inline void raise(const failure& why) {
#ifdef __cpp_exceptions
  throw std::system_error(make_error_code(why.code), why.message);
#else
  static_cast<void>(why);
  std::abort();
#endif
}

}  // namespace detail

/// A value, or the reason why there is none, like std::expected of C++23.
template <class T>
class [[nodiscard]] result {
 public:
  result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  result(failure why) : state_(std::in_place_index<1>, std::move(why)) {}

  bool has_value() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return has_value(); }
  /// These operators return the value. REQUIRES: there is a value.
  T& operator*() & noexcept { return *std::get_if<0>(&state_); }
  const T& operator*() const& noexcept { return *std::get_if<0>(&state_); }
  T&& operator*() && noexcept { return std::move(*std::get_if<0>(&state_)); }
  T* operator->() noexcept { return std::get_if<0>(&state_); }
  const T* operator->() const noexcept { return std::get_if<0>(&state_); }
  /// Returns the value. Throws std::system_error if there is none.
  T& value() & {
    require();
    return **this;
  }
  const T& value() const& {
    require();
    return **this;
  }
  T&& value() && {
    require();
    return std::move(**this);
  }
  template <class U>
  T value_or(U&& other) && {
    return has_value() ? std::move(**this) : static_cast<T>(std::forward<U>(other));
  }
  template <class U>
  T value_or(U&& other) const& {
    return has_value() ? **this : static_cast<T>(std::forward<U>(other));
  }
  /// Returns the failure. REQUIRES: there is no value.
  const failure& error() const noexcept { return *std::get_if<1>(&state_); }

 private:
  void require() const {
    if (!has_value()) detail::raise(error());
  }

  std::variant<T, failure> state_;
};

/// The result of a call that does not return a value: nothing, or the reason why the call failed.
template <>
class [[nodiscard]] result<void> {
 public:
  result() = default;
  result(failure why) : failure_(std::move(why)) {}

  bool has_value() const noexcept { return !failure_; }
  explicit operator bool() const noexcept { return has_value(); }
  void value() const {
    if (failure_) detail::raise(*failure_);
  }
  const failure& error() const noexcept { return *failure_; }

 private:
  std::optional<failure> failure_;
};

namespace detail {

inline result<void> outcome(int code) {
  if (code == HOLDFAST_OK) return {};
  return failure::of(code);
}

}  // namespace detail

}  // namespace v1
}  // namespace holdfast

#endif
