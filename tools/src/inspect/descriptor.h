// Owns a file descriptor. The command uses the library only through the C ABI, so it cannot use platform/.
#pragma once

#include <unistd.h>

#include <utility>

namespace holdfast::inspect {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) noexcept : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() { reset(); }

  int get() const noexcept { return number_; }
  int release() noexcept { return std::exchange(number_, -1); }
  void reset() noexcept {
    if (number_ >= 0) ::close(std::exchange(number_, -1));
  }

 private:
  int number_ = -1;
};

/// Closes all descriptors from `first` to `last`.
void close_between(unsigned first, unsigned last) noexcept;

}  // namespace holdfast::inspect
