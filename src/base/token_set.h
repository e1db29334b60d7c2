// A bounded set of processes.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "base/token.h"

namespace holdfast {

/// A few processes, each once. More than there is room for are left out.
class TokenSet {
 public:
  static constexpr std::size_t kMax = 64;

  TokenSet() noexcept =
      default;  // leaves the rest of tokens_ alone: this is on the path of every attempt that is refused
  void clear() noexcept { count_ = 0; }
  bool empty() const noexcept { return count_ == 0; }
  bool full() const noexcept { return count_ == kMax; }
  bool has(Token token) const noexcept { return std::find(begin(), end(), token) != end(); }
  void add(Token token) noexcept {
    if (token != kNobody && !full() && !has(token)) tokens_[count_++] = token;
  }
  const Token* begin() const noexcept { return tokens_.data(); }
  const Token* end() const noexcept { return tokens_.data() + count_; }

 private:
  std::size_t count_ = 0;
  std::array<Token, kMax> tokens_;
};

}  // namespace holdfast
