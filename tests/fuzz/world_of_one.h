// The parts that the fuzz targets share: a private world, the time limit for a call, and the input as numbers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "support/call_limit.h"
#include "world/world.h"

namespace holdfast::fuzz {

/// Enters the world in $HOLDFAST_DIR. If this variable is not set, enters a world in a folder in /dev/shm, which is
/// removed when the process ends.
World& world_of_one();
/// Returns the time limit for calls of the only thread that makes calls.
test::CallLimit& call_limit();

/// Prints the message and ends the process, so that libFuzzer saves the input.
[[noreturn]] void fail(const std::string& what);
inline void require(bool good, const char* what) {
  if (!good) fail(what);
}

/// Splits the input into numbers. After the end of the input, every number is 0.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : data_(data), left_(size) {}

  bool empty() const { return left_ == 0; }
  template <class Number>
  Number take() {
    Number number{};
    const std::size_t bytes = std::min(sizeof number, left_);
    if (bytes != 0) std::memcpy(&number, data_, bytes);
    data_ += bytes;
    left_ -= bytes;
    return number;
  }
  std::string take_text(std::size_t length) {
    const std::size_t bytes = std::min(length, left_);
    std::string text(reinterpret_cast<const char*>(data_), bytes);
    data_ += bytes;
    left_ -= bytes;
    return text;
  }
  std::string rest() { return take_text(left_); }

 private:
  const std::uint8_t* data_;
  std::size_t left_;
};

}  // namespace holdfast::fuzz
