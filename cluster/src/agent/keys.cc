#include "agent/keys.h"

#include <charconv>

#include "base/name.h"

namespace holdfast::agent {

namespace {

constexpr int kHexadecimal = 16;
constexpr std::size_t kLeaseDigits = 16;

}  // namespace

std::string encode_lock(const LockName& name) { return encode_name(name.dictionary) + '/' + encode_name(name.key); }

std::optional<LockName> decode_lock(std::string_view text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const auto dictionary = decode_percents(text.substr(0, slash));
  const auto key = decode_percents(text.substr(slash + 1));
  if (!dictionary || !key) return std::nullopt;
  LockName name{*dictionary, *key};
  if (encode_lock(name) != text) return std::nullopt;
  return name;
}

std::string encode_lease(LeaseId lease) {
  std::string digits(kLeaseDigits, '0');
  char text[kLeaseDigits];
  const auto end = std::to_chars(text, text + kLeaseDigits, static_cast<std::uint64_t>(lease), kHexadecimal).ptr;
  const auto size = static_cast<std::size_t>(end - text);
  return digits.replace(kLeaseDigits - size, size, text, size);
}

std::optional<LeaseId> decode_lease(std::string_view text) {
  std::uint64_t lease = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), lease, kHexadecimal);
  if (error != std::errc() || end != text.data() + text.size() || text.size() != kLeaseDigits) return std::nullopt;
  return static_cast<LeaseId>(lease);
}

Keys::Keys(std::string_view space) : prefix_(std::string(space) + '/') {}

Status Keys::check(const LockName& name) const {
  const std::size_t size = queue(name).size() + kLeaseDigits;
  if (size <= kStoreKeyMax) return {};
  return {Code::too_large, "key " + quote(name.key) + " of dictionary " + quote_name(name.dictionary) +
                               " is too long for the cluster's store: it takes " + std::to_string(size) +
                               " bytes there, expected at most " + std::to_string(kStoreKeyMax)};
}

std::string Keys::lock(const LockName& name) const { return prefix_ + "l/" + encode_lock(name); }
std::string Keys::queue(const LockName& name) const { return prefix_ + "q/" + encode_lock(name) + '/'; }
std::string Keys::place(const LockName& name, LeaseId lease) const { return queue(name) + encode_lease(lease); }
std::string Keys::bell(LeaseId lease) const { return prefix_ + "b/" + encode_lease(lease); }
std::string Keys::machine(LeaseId lease) const { return prefix_ + "m/" + encode_lease(lease); }

std::optional<LockName> Keys::lock_of(std::string_view key) const {
  const std::string prefix = prefix_ + "l/";
  if (!key.starts_with(prefix)) return std::nullopt;
  return decode_lock(key.substr(prefix.size()));
}

std::optional<LockName> Keys::queue_of(std::string_view place) const {
  const std::string prefix = prefix_ + "q/";
  if (!waiter_of(place)) return std::nullopt;
  return decode_lock(place.substr(prefix.size(), place.rfind('/') - prefix.size()));
}

std::optional<LeaseId> Keys::waiter_of(std::string_view place) const {
  const std::string prefix = prefix_ + "q/";
  const std::size_t slash = place.rfind('/');
  if (!place.starts_with(prefix) || slash < prefix.size()) return std::nullopt;
  return decode_lease(place.substr(slash + 1));
}

}  // namespace holdfast::agent
