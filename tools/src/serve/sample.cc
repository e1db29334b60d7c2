#include "serve/sample.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>

#include "inspect/files.h"
#include "inspect/json.h"
#include "serve/list_document.h"

namespace holdfast::serve {

namespace {

/// The maximum number of bytes of a key in a sample.
constexpr std::size_t kKeySampled = 128;

/// In a packed sample, this precedes the dictionaries and the long waits.
struct SampleHead {
  std::uint64_t left_out;
  std::uint64_t dictionaries;
  std::uint64_t long_waits;
};
/// In a packed sample, this precedes the JSON of a long wait.
struct WaitHead {
  double waited;
  double held;
  std::uint64_t waiters;
  std::uint64_t size;  // the size of the JSON
};
static_assert(sizeof(SampledDictionary) % sizeof(std::uint64_t) == 0 &&
              std::is_trivially_copyable_v<SampledDictionary>);

/// Returns the row of kWaitBounds for each bucket of a histogram. A bucket that exceeds a bound by less than 5 %
/// belongs to the lower row.
std::array<std::size_t, HOLDFAST_BUCKETS> rows_of_buckets() {
  constexpr double kSlack = 1.05;
  std::array<std::size_t, HOLDFAST_BUCKETS> rows{};
  for (std::uint32_t i = 0; i < HOLDFAST_BUCKETS; ++i) {
    const double end = holdfast_bucket_end(i);
    while (rows[i] + 1 < kWaitRows && end > kWaitBounds[rows[i]] * kSlack) ++rows[i];
  }
  return rows;
}

SampledDictionary sample_of(const DictionaryView& view) {
  static const auto rows = rows_of_buckets();
  constexpr double kMille = 1000;
  SampledDictionary to;
  const holdfast_stats& counts = view.dictionary.counts;
  view.dictionary.name.copy(to.name.data(), to.name.size() - 1);
  to.file = view.dictionary.file.inode;
  to.hits = counts.hits;
  to.misses = counts.misses;
  const double used =
      static_cast<double>(counts.bytes_used) / static_cast<double>(std::max<std::uint64_t>(view.dictionary.size, 1));
  to.used = static_cast<std::uint32_t>(std::round(std::clamp(used, 0.0, 1.0) * kMille));
  for (const holdfast_histogram& histogram : view.waited)
    for (std::size_t i = 0; i < HOLDFAST_BUCKETS; ++i) to.waits[rows[i]] += histogram.buckets[i];
  std::uint64_t held = 0;
  for (const std::uint64_t one : view.holds) held += one;
  to.held = static_cast<std::uint32_t>(held);
  to.waiters = static_cast<std::uint32_t>(view.waiters);
  if (held != 0) to.longest_hold = std::max(view.longest_hold[0], view.longest_hold[1]);
  if (view.waiters != 0) to.longest_wait = view.longest_wait;
  return to;
}

std::string in_json(const inspect::Lock& lock, inspect::Processes& processes) {
  inspect::Json json;
  inspect::add_text(json, "dictionary", lock.dictionary);
  inspect::add_text(json, "key", beginning_of(lock.key, kKeySampled));
  json["holder_count"] = lock.holder_count;
  json["holder"] = nullptr;
  if (!lock.holders.empty()) {
    const holdfast_holder& holder = lock.holders.front();
    inspect::Json& to = json["holder"] = inspect::to_json(processes.of(holder.owner));
    to["why"] = nullptr;
    if (holder.why[0] != '\0') inspect::add_text(to, "why", static_cast<const char*>(holder.why));
  }
  return inspect::to_text(json, inspect::Layout::line);
}

std::vector<LongWait> long_waits_of(View& view) {
  std::vector<std::pair<double, const inspect::Lock*>> found;
  for (const inspect::Lock& lock : view.locks)
    if (const double waited = inspect::waits_now(lock).longest; waited >= kLongWait) found.emplace_back(waited, &lock);
  const auto is_longer = [](const auto& one, const auto& other) { return one.first > other.first; };
  std::stable_sort(found.begin(), found.end(), is_longer);
  if (found.size() > kLongWaits) found.resize(kLongWaits);
  std::vector<LongWait> waits;
  waits.reserve(found.size());
  for (const auto& [waited, lock] : found)
    waits.push_back({waited, lock->holders.empty() ? -1 : lock->holders.front().held, inspect::waits_now(*lock).count,
                     in_json(*lock, view.processes)});
  return waits;
}

template <class Item>
void append(std::string& to, const Item* items, std::size_t count) {
  to.append(reinterpret_cast<const char*>(items), count * sizeof(Item));
}

/// Takes the next items from the bytes. Returns false if there are too few bytes.
template <class Item>
bool cut_items(std::string_view& from, Item* items, std::size_t count) {
  if (count > from.size() / sizeof(Item)) return false;
  if (count != 0) std::memcpy(items, from.data(), count * sizeof(Item));
  from.remove_prefix(count * sizeof(Item));
  return true;
}

}  // namespace

std::string to_bytes(const Sample& sample) {
  const SampleHead head{sample.left_out, sample.dictionaries.size(), sample.long_waits.size()};
  std::string bytes;
  append(bytes, &head, 1);
  append(bytes, sample.dictionaries.data(), sample.dictionaries.size());
  for (const LongWait& wait : sample.long_waits) {
    const WaitHead of{wait.waited, wait.held, wait.waiters, wait.lock.size()};
    append(bytes, &of, 1);
    bytes += wait.lock;
  }
  return bytes;
}

std::optional<Sample> parse_sample(std::string_view bytes) {
  SampleHead head{};
  if (!cut_items(bytes, &head, 1) || head.dictionaries > kDictionariesSampled || head.long_waits > kLongWaits)
    return std::nullopt;
  Sample sample;
  sample.left_out = head.left_out;
  sample.dictionaries.resize(head.dictionaries);
  if (!cut_items(bytes, sample.dictionaries.data(), head.dictionaries)) return std::nullopt;
  for (std::uint64_t i = 0; i < head.long_waits; ++i) {
    WaitHead of{};
    if (!cut_items(bytes, &of, 1) || of.size > bytes.size()) return std::nullopt;
    sample.long_waits.push_back({of.waited, of.held, of.waiters, std::string(bytes.substr(0, of.size))});
    bytes.remove_prefix(of.size);
  }
  return sample;
}

Documents gather_sample(bool is_thorough) {
  auto view = begin_view();
  if (!view) return {{"error", view.status().message}};
  auto names = view->is_used ? inspect::named_dictionaries(view->directory) : std::vector<std::string>();
  if (!names) return {{"error", names.status().message}};
  Sample sample;
  const auto one = std::make_unique<DictionaryView>();  // one object for all dictionaries, because a view takes 35 KB
  for (const std::string& name : *names) {
    if (sample.dictionaries.size() == kDictionariesSampled) {
      ++sample.left_out;
      continue;
    }
    *one = {};
    one->dictionary = inspect::look_at(view->directory, name, inspect::Read::status);
    if (one->dictionary.is_gone || !one->dictionary.trouble.empty()) continue;
    read_times(*one, HOLDFAST_TIME_WAITED, one->waited);
    const bool reads_locks = is_thorough || one->dictionary.counts.entries <= kEntriesRead;
    if (reads_locks && !read_locks(*one, *view)) continue;
    SampledDictionary& sampled = sample.dictionaries.emplace_back(sample_of(*one));
    if (reads_locks) sampled.locks = one->locks_listed ? Locks::known : Locks::incomplete;
  }
  sample.long_waits = long_waits_of(*view);
  return {{kSample, to_bytes(sample)}};
}

}  // namespace holdfast::serve
