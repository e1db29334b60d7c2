// Decides which store is the right one. Each member of etcd names its cluster by an id, which is created with the
// cluster. Two clusters could both grant the same lock, so an answer counts only if it comes from the known cluster.
//
// A store becomes the known store when a majority of the configured endpoints names it. The endpoints are the store's
// members, so no other store can have a majority of them at the same time. A different store replaces it only if
//
//   - a majority of several endpoints names the other store, or
//   - a person accepts it; with one endpoint, this is the only way;
//
// and in both cases only after the lease time, when no machine has a lock of the previous store any more.
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
  /// How long the id in an endpoint's answer counts.
  static constexpr std::int64_t kFreshMs = 10'000;

  /// `known`: the id that an earlier agent has stored, or empty if there is none. `lease_ms`: the time after which no
  /// lease is left in a store that is no longer used.
  Identity(std::size_t endpoints, std::string known, std::int64_t lease_ms)
      : known_(std::move(known)), lease_ms_(lease_ms), words_(endpoints) {}

  /// Returns the known id, a decimal number as in etcd's JSON, or an empty string if no store is known yet.
  const std::string& known() const noexcept { return known_; }
  /// Records the id in an endpoint's answer, which is empty if the answer names no cluster. Returns whether the rest of
  /// the answer counts.
  bool hear(std::size_t endpoint, std::string_view id, std::int64_t now_ms);
  /// Returns an endpoint that names a store other than the known store.
  std::optional<std::size_t> stranger(std::int64_t now_ms) const;
  /// Returns the id that the endpoint has named recently, or an empty string if there is none.
  std::string named(std::size_t endpoint, std::int64_t now_ms) const;
  std::size_t count(std::string_view id, std::int64_t now_ms) const;
  std::size_t majority() const noexcept { return words_.size() / 2 + 1; }

  enum class Accepted { done, later, unnamed, outvoted };
  /// Accepts this store on a person's request. Returns `later` if this takes effect after the lease time, `unnamed` if
  /// no endpoint names the store, or `outvoted` if a majority names the known store.
  Accepted accept(std::string_view id, std::int64_t now_ms);

 private:
  struct Word {
    std::string id;
    std::int64_t at_ms = 0;
  };
  /// A different store, and the time since which endpoints have named it without interruption.
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
  std::vector<Word> words_;  // indexed by endpoint
  Other elected_;            // a store that a majority names
  Other seen_;               // a store that any endpoint names
  std::string accepted_;     // a store that a person has accepted
};

/// Returns an id as etcd's log and etcdctl show it: 16 hexadecimal digits. Returns text that is not a number unchanged.
std::string shown_id(std::string_view id);

}  // namespace holdfast::etcd
