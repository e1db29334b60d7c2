#include "inspect/uses.h"

#include <array>
#include <cmath>
#include <cstring>

#include "inspect/packed.h"

namespace holdfast::inspect {

namespace {

/// A claim is the number owner * kGrants + grants. A job is taken if its claim's owner is at least kFirstTaken.
constexpr double kGrants = 1 << 20;
constexpr double kReady = 0;
constexpr double kAside = 1;
constexpr double kDead = 2;
constexpr double kFirstTaken = 5;

struct Number {
  double value = 0;
  std::uint32_t flags = 0;
};

std::string queue_key(char kind, double number) {
  std::string key(1 + sizeof number, kind);
  std::memcpy(key.data() + 1, &number, sizeof number);
  return key;
}

std::optional<Number> number_at(holdfast_dict* dict, const std::string& key) {
  holdfast_value value{};
  if (holdfast_get(dict, key.data(), key.size(), &value) != HOLDFAST_OK || value.type != HOLDFAST_NUMBER) return {};
  return Number{value.number, value.flags};
}

/// Returns the number as a count. Returns 0 if it cannot be a count, because any program may have stored it.
std::uint64_t as_count(double value) {
  constexpr double kExact = 9007199254740992.0;
  return value > 0 && value < kExact ? static_cast<std::uint64_t>(value) : 0;
}

/// Returns the seconds since the job was pushed. Bits 1 to 31 of the job's flags are the time of the push in tenths of
/// a second, modulo 2^31.
double age_of(holdfast_dict* jobs, double number) {
  constexpr double kTenths = 10;
  constexpr double kWrap = 1U << 31;
  const std::string key = queue_key('j', number);
  holdfast_value value{};
  const int code = holdfast_get(jobs, key.data(), key.size(), &value);
  if (code != HOLDFAST_OK && code != HOLDFAST_BUFFER) return 0;
  const double age = std::fmod(std::floor(holdfast_now() * kTenths) - value.flags / 2, kWrap);
  return (age < 0 ? age + kWrap : age) / kTenths;
}

void count_claim(holdfast_dict* claims, const std::string& key, Queue& queue) {
  const auto claim = number_at(claims, key);
  if (!claim) return;
  const double owner = std::floor(claim->value / kGrants);
  if (owner >= kFirstTaken) ++queue.taken;
  if (owner == kReady) ++queue.ready;
  if (owner == kDead) ++queue.dead;
  if (owner != kAside) return;
  const auto due = number_at(claims, "d" + key.substr(1));
  const bool is_later = !due || due->flags != std::fmod(claim->value, kGrants) || due->value > holdfast_now();
  ++(is_later ? queue.delayed : queue.ready);
}

bool count_claims(holdfast_dict* claims, Queue& queue) {
  constexpr std::uint32_t kAtOnce = 1000;
  constexpr std::size_t kKeySize = 9;
  std::uint64_t cursor = 0;
  do {
    std::vector<std::string> keys;
    const int code = unpack(keys, [&](holdfast_value* packed, std::uint32_t* count) {
      return holdfast_scan(claims, &cursor, kAtOnce, "c", 1, packed, count);
    });
    if (code != HOLDFAST_OK) return false;
    for (const std::string& key : keys)
      if (key.size() == kKeySize) count_claim(claims, key, queue);
  } while (cursor != 0);
  return true;
}

}  // namespace

std::optional<Queue> queue_in(const std::string& name, holdfast_dict* jobs, std::uint64_t most) {
  const std::string own = name + ".claims";
  holdfast_dict* claims = nullptr;
  holdfast_stats stats{};
  if (holdfast_attach(own.data(), own.size(), &claims) != HOLDFAST_OK ||
      holdfast_dict_stats(claims, &stats) != HOLDFAST_OK)
    return {};
  const auto next = number_at(claims, queue_key('n', 0));
  const auto tail = number_at(claims, queue_key('t', 0));
  if (!next || !tail) return {};
  Queue queue;
  queue.waiting = as_count(tail->value - next->value + 1);
  const auto first = number_at(claims, queue_key('c', next->value));
  if (first && first->value < kGrants) queue.oldest = age_of(jobs, next->value);
  queue.is_counted = stats.entries <= most && count_claims(claims, queue);
  return queue;
}

std::vector<std::pair<const char*, std::uint64_t>> cache_counts_in(holdfast_dict* dict) {
  constexpr std::array kNames{"l1_hits",   "l2_hits", "stale",    "loads",     "load_errors",
                              "refreshes", "waits",   "timeouts", "not_stored"};
  std::vector<std::pair<const char*, std::uint64_t>> counts;
  for (const char* name : kNames) {
    const std::string key = std::string("%cache:") + name;
    double seconds = 0;
    // Unlike holdfast_get, holdfast_ttl is not counted as a read. Most dictionaries do not have the key.
    if (holdfast_ttl(dict, key.data(), key.size(), &seconds) != HOLDFAST_OK) continue;
    if (const auto sum = number_at(dict, key)) counts.emplace_back(name, as_count(sum->value));
  }
  return counts;
}

}  // namespace holdfast::inspect
