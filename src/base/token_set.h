// A bounded set of process tokens.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "base/token.h"

namespace holdfast {

/// Stores each token once. Ignores new tokens when it is full.
class TokenSet {
 public:
  static constexpr std::size_t kMax = 64;

  TokenSet() noexcept = default;  // leaves tokens_ uninitialised, because every refused attempt makes a set
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
