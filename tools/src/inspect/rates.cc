#include "inspect/rates.h"

#include <algorithm>
#include <map>
#include <utility>

namespace holdfast::inspect {

namespace {

std::uint64_t grown(std::uint64_t before, std::uint64_t now) noexcept { return now > before ? now - before : 0; }

/// Returns the dictionary's earlier state. Returns zeros if the dictionary is new, or `now` itself if it is unknown
/// whether the dictionary is new.
const DictionaryLook& earlier(const Snapshot& before, const DictionaryLook& now) {
  static const DictionaryLook fresh;
  for (const DictionaryLook& look : before.dictionaries)
    if (look.user == now.user && look.name == now.name && look.inode == now.inode)
      return look.trouble.empty() ? look : now;
  return fresh;
}

/// Returns the waits that ended in the interval.
holdfast_histogram difference(const holdfast_histogram& before, const holdfast_histogram& now) {
  holdfast_histogram between{};
  between.struct_size = sizeof between;
  between.max = now.max;
  for (std::size_t i = 0; i < HOLDFAST_BUCKETS; ++i) {
    between.buckets[i] = grown(before.buckets[i], now.buckets[i]);
    between.count += between.buckets[i];
  }
  return between;
}

DictionaryRates rates_of(const DictionaryLook& before, const DictionaryLook& now, double seconds) {
  constexpr double kMedian = 0.5;
  constexpr double kNinetyNine = 0.99;
  const auto rate = [&](std::uint64_t then, std::uint64_t later) {
    return static_cast<double>(grown(then, later)) / seconds;
  };
  DictionaryRates rates;
  rates.look = &now;
  const double hits = rate(before.counts.hits, now.counts.hits);
  rates.reads = hits + rate(before.counts.misses, now.counts.misses);
  if (rates.reads > 0) rates.hit_ratio = hits / rates.reads;
  rates.grants = rate(before.grants, now.grants);
  rates.evictions = rate(before.counts.evictions, now.counts.evictions);
  rates.waits = rate(before.counts.lock_waits, now.counts.lock_waits);
  if (now.loads >= 0)
    rates.loads = rate(static_cast<std::uint64_t>(std::max<std::int64_t>(before.loads, 0)),
                       static_cast<std::uint64_t>(now.loads));
  const holdfast_histogram waits = difference(before.waits, now.waits);
  if (waits.count == 0) return rates;
  rates.median_wait = holdfast_quantile(&waits, kMedian);
  rates.p99_wait = holdfast_quantile(&waits, kNinetyNine);
  return rates;
}

std::string key_of(const holdfast_contended& contended) {
  return {static_cast<const char*>(contended.key),
          std::min<std::size_t>(contended.key_length, HOLDFAST_CONTENDED_KEY_MAX)};
}

/// Maps a key to its contention. Only the first bytes of a key are recorded.
using Contention = std::map<std::string, double>;
/// The contention of all dictionaries, indexed by the user and the dictionary's name.
using ContentionOfAll = std::map<std::pair<std::string, std::string>, Contention>;

Contention contention_of(const DictionaryLook& before, const DictionaryLook& now, double seconds) {
  std::map<std::string, std::uint64_t> then;
  for (const holdfast_contended& key : before.contended) then[key_of(key)] += key.waits + key.refused;
  Contention found;
  for (const holdfast_contended& key : now.contended) {
    const std::uint64_t more = grown(then[key_of(key)], key.waits + key.refused);
    if (more != 0) found[key_of(key)] = static_cast<double>(more) / seconds;
  }
  return found;
}

LockRates rates_of(const Lock& lock) {
  LockRates rates;
  rates.lock = &lock;
  rates.user = lock.user;
  rates.dictionary = lock.dictionary;
  rates.key = lock.key;
  for (const holdfast_waiter& waiter : lock.waiters) rates.longest_wait = std::max(rates.longest_wait, waiter.waited);
  return rates;
}

void add_locks(const Snapshot& now, ContentionOfAll& contention, Rates& rates) {
  for (const Lock& lock : now.locks) {
    LockRates& added = rates.locks.emplace_back(rates_of(lock));
    Contention& keys = contention[{lock.user, lock.dictionary}];
    const auto found = keys.find(lock.key.substr(0, HOLDFAST_CONTENDED_KEY_MAX));
    if (found == keys.end()) continue;
    added.contention = found->second;
    keys.erase(found);
  }
  for (const auto& [dictionary, keys] : contention)
    for (const auto& [key, amount] : keys)
      rates.locks.push_back({nullptr, dictionary.first, dictionary.second, key, 0, amount});
}

}  // namespace

Rates rates_of(const Snapshot& before, const Snapshot& now) {
  constexpr double kShortest = 0.001;
  Rates rates;
  rates.seconds = std::max(now.time - before.time, kShortest);
  ContentionOfAll contention;
  for (const DictionaryLook& look : now.dictionaries) {
    const DictionaryLook& then = earlier(before, look);
    const DictionaryRates& added = rates.dictionaries.emplace_back(rates_of(then, look, rates.seconds));
    contention[{look.user, look.name}] = contention_of(then, look, rates.seconds);
    rates.reads += added.reads;
    rates.grants += added.grants;
    rates.waits += added.waits;
  }
  add_locks(now, contention, rates);
  return rates;
}

}  // namespace holdfast::inspect
