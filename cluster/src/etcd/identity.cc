#include "etcd/identity.h"

#include <algorithm>
#include <charconv>
#include <cstdio>

namespace holdfast::etcd {

bool Identity::hear(std::size_t endpoint, std::string_view id, std::int64_t now_ms) {
  if (id.empty()) return true;  // the answer does not name a cluster
  Word& word = words_[endpoint];
  const bool is_usual = id == known_ && word.id == known_ && is_fresh(word, now_ms);
  if (word.id != id) word.id = id;
  word.at_ms = now_ms;
  if (!is_usual) judge(now_ms);
  return id == known_;
}

std::optional<std::size_t> Identity::stranger(std::int64_t now_ms) const {
  for (std::size_t i = 0; i < words_.size(); ++i)
    if (is_fresh(words_[i], now_ms) && words_[i].id != known_) return i;
  return std::nullopt;
}

std::string Identity::named(std::size_t endpoint, std::int64_t now_ms) const {
  return is_fresh(words_[endpoint], now_ms) ? words_[endpoint].id : std::string();
}

std::size_t Identity::count(std::string_view id, std::int64_t now_ms) const {
  return static_cast<std::size_t>(std::count_if(
      words_.begin(), words_.end(), [&](const Word& word) { return is_fresh(word, now_ms) && word.id == id; }));
}

// Updates `elected_` and `seen_`, the other stores that endpoints name. If no endpoint names one of these stores for a
// while, that store's lease time starts again, because an endpoint may have named a different store in between.
void Identity::judge(std::int64_t now_ms) {
  const auto follow = [&](Other& other, const std::string& id) {
    if (other.id != id) other = {id, now_ms};
  };
  std::string elected;
  std::string seen;
  for (const Word& word : words_) {
    if (!is_fresh(word, now_ms) || word.id == known_) continue;
    if (count(word.id, now_ms) >= majority()) elected = word.id;
    if (seen.empty() || word.id == seen_.id) seen = word.id;
  }
  follow(elected_, elected);
  follow(seen_, seen);
  if (known_.empty()) {
    if (!elected.empty()) become(elected);
    return;
  }
  if (!elected.empty() && words_.size() > 1 && is_over(elected_, now_ms)) return become(elected);
  const bool is_accepted = !seen.empty() && accepted_ == seen && count(known_, now_ms) < majority();
  if (is_accepted && is_over(seen_, now_ms)) become(seen);
}

void Identity::become(const std::string& id) {
  known_ = id;
  elected_ = {};
  seen_ = {};
  accepted_.clear();
}

Identity::Accepted Identity::accept(std::string_view id, std::int64_t now_ms) {
  if (id == known_ && !known_.empty()) return Accepted::done;
  if (count(id, now_ms) == 0) return Accepted::unnamed;
  if (!known_.empty() && count(known_, now_ms) >= majority()) return Accepted::outvoted;
  accepted_ = id;
  if (seen_.id != id) seen_ = {accepted_, now_ms};
  if (known_.empty() || is_over(seen_, now_ms)) {
    become(std::string(id));
    return Accepted::done;
  }
  return Accepted::later;
}

std::string shown_id(std::string_view id) {
  unsigned long long number = 0;
  const auto [end, error] = std::from_chars(id.data(), id.data() + id.size(), number);
  if (error != std::errc() || end != id.data() + id.size()) return std::string(id);
  char text[17];
  std::snprintf(static_cast<char*>(text), sizeof text, "%016llx", number);
  return static_cast<const char*>(text);
}

}  // namespace holdfast::etcd
