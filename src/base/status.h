// The results of calls: a closed set of codes for hot paths, and a code with a message for set-up.
//
// The values of Code equal those of holdfast_code in include/holdfast.h; src/capi asserts this.
#pragma once

#include <string>
#include <utility>
#include <variant>

namespace holdfast {

enum class Code : int {
  ok = 0,
  not_found = 1,
  exists = 2,
  no_memory = 3,
  timeout = 4,
  not_a_number = 5,
  locked = 6,
  not_owner = 7,
  too_large = 8,
  buffer = 9,
  invalid = 10,
  system = 11,
  mismatch = 12,
  corrupt = 13,
  permission = 14,
  busy = 15,
  removed = 16,
  not_a_list = 17,
  is_a_list = 18,
  differs = 19,
  deadlock = 20,
  elsewhere = 21,
  unsupported = 22,
  unavailable = 23,
  unchanged = 24,
};

/// A code, and one English sentence that says what was found and what was expected.
struct [[nodiscard]] Status {
  Code code = Code::ok;
  std::string message;

  bool ok() const noexcept { return code == Code::ok; }
};

/// Either a value, or the Status that says why there is none.
template <class T>
class [[nodiscard]] Expected {
 public:
  // Implicit, so that a function can return a value or a Status.
  Expected(T value) : state_(std::move(value)) {}         // NOLINT(google-explicit-constructor)
  Expected(Status status) : state_(std::move(status)) {}  // NOLINT(google-explicit-constructor)

  explicit operator bool() const noexcept { return std::holds_alternative<T>(state_); }
  T& operator*() { return std::get<T>(state_); }
  const T& operator*() const { return std::get<T>(state_); }
  T* operator->() { return &std::get<T>(state_); }

  /// Returns the status. REQUIRES: there is no value.
  const Status& status() const { return std::get<Status>(state_); }

 private:
  std::variant<T, Status> state_;
};

}  // namespace holdfast
