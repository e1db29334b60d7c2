// Which store is the right one. Each member of etcd names its cluster, by an id that is made with it. Two clusters
// would each give every lock to somebody, so an answer counts only if it is of the known one.
//
// The store becomes known when a majority of the configured endpoints names it. As these are its members, no other
// store can have a majority of its own members at the same time. Another store takes its place in two ways only:
//
//   - a majority of several endpoints names it, or
//   - a person says so; with one endpoint, this is the only way;
//
// and in both ways only after the lease time: no machine has a lock of the last store any more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::etcd {

class Identity {
 public:
  /// What an endpoint has said counts for so long.
  static constexpr std::int64_t kFreshMs = 10'000;

  /// `known`: the id that an earlier agent has kept; empty: none. `lease_ms`: after that no lease is left.
  Identity(std::size_t endpoints, std::string known, std::int64_t lease_ms)
      : known_(std::move(known)), lease_ms_(lease_ms), words_(endpoints) {}

  /// As etcd writes it in JSON: a decimal number. Empty: no store is known yet.
  const std::string& known() const noexcept { return known_; }
  /// Takes what an endpoint says of itself; empty: it does not say. True: what else it says counts.
  bool hear(std::size_t endpoint, std::string_view id, std::int64_t now_ms);
  /// An endpoint that names another store than the known one.
  std::optional<std::size_t> stranger(std::int64_t now_ms) const;
  /// What that endpoint has named; empty: nothing, or not lately.
  std::string named(std::size_t endpoint, std::int64_t now_ms) const;
  std::size_t count(std::string_view id, std::int64_t now_ms) const;
  std::size_t majority() const noexcept { return words_.size() / 2 + 1; }

  enum class Accepted { done, later, unnamed, outvoted };
  /// A person says that this is the store from now on. later: once hear() is called behind the lease time. unnamed: no
  /// endpoint names it. outvoted: a majority names the known store.
  Accepted accept(std::string_view id, std::int64_t now_ms);

 private:
  struct Word {
    std::string id;
    std::int64_t at_ms = 0;
  };
  /// Another store, and since when it has been named without a break.
  struct Other {
    std::string id;
    std::int64_t since_ms = 0;
  };

  bool is_fresh(const Word& word, std::int64_t now_ms) const noexcept {
    return !word.id.empty() && now_ms - word.at_ms <= kFreshMs;
  }
  void judge(std::int64_t now_ms);
  bool is_over(const Other& other, std::int64_t now_ms) const noexcept { return now_ms - other.since_ms >= lease_ms_; }
  void become(const std::string& id);

  std::string known_;
  const std::int64_t lease_ms_;
  std::vector<Word> words_;  // by endpoint
  Other elected_;            // a majority names it
  Other seen_;               // some endpoint names it
  std::string accepted_;     // by a person
};

/// An id as etcd's log and etcdctl show it: 16 hexadecimal digits. What is no number stays as it is.
std::string shown_id(std::string_view id);

}  // namespace holdfast::etcd
