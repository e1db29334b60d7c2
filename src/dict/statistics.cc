#include "dict/statistics.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "dict/expiry.h"
#include "platform/platform.h"

namespace holdfast {

namespace {

constexpr std::uint64_t kNsPerUs = 1000;

void add(Word64& word, std::uint64_t count) noexcept { word.fetch_add(count, kRelaxed); }
/// Does the same without an atomic operation. If several calls run at the same time, it is possible that only one of
/// them counts.
void add_roughly(Word64& word, std::uint64_t count) noexcept { word.store(word.load(kRelaxed) + count, kRelaxed); }

// --- the text of a record ---

/// The stored part of a key, as the words of a record.
struct KeptKey {
  std::array<std::uint64_t, kContendedKeyMax / 8> words{};
  std::uint32_t length;

  explicit KeptKey(std::string_view key) noexcept : length(static_cast<std::uint32_t>(key.size())) {
    std::memcpy(words.data(), key.data(), std::min<std::size_t>(key.size(), kContendedKeyMax));
  }
  explicit KeptKey(const ContendedFields& record) noexcept : length(record.shape.load(kRelaxed) & 0xFFFF) {
    for (std::size_t i = 0; i < words.size(); ++i) words[i] = record.key[i].load(kRelaxed);
  }
  std::uint32_t check() const noexcept {
    std::uint64_t mixed = length;
    for (const std::uint64_t word : words) mixed = (mixed ^ word ^ mixed >> 32) * 0x9E3779B97F4A7C15;
    return static_cast<std::uint32_t>(mixed >> 32);
  }
};

/// Corrects the record if it does not contain the text of the key.
void put_right(ContendedFields& record, std::string_view key, HeldKind kind) noexcept {
  const KeptKey kept(key);
  const std::uint32_t shape = kept.length | static_cast<std::uint32_t>(kind) << 16;
  const std::uint32_t check = kept.check();
  if (record.shape.load(kRelaxed) != shape) record.shape.store(shape, kRelaxed);
  if (record.check.load(kRelaxed) == check && KeptKey(record).words == kept.words) return;
  for (std::size_t i = 0; i < kept.words.size(); ++i) record.key[i].store(kept.words[i], kRelaxed);
  record.check.store(check, kRelaxed);
}

/// Returns the weight by which keys are ordered. A refusal counts as a microsecond, and so does a wait of less than a
/// microsecond.
std::uint64_t weight_of(const Contended& key) noexcept { return key.wait_ns / kNsPerUs + key.waits + key.refused; }

// Returns false if the record is not in use, or is about to get another key.
bool read_record(const ContendedFields& record, Contended& out) noexcept {
  if (record.hash.load(kRelaxed) == 0) return false;
  const KeptKey key(record);
  if (key.length == 0 || key.check() != record.check.load(kRelaxed)) return false;
  const std::uint32_t kind = record.shape.load(kRelaxed) >> 16 & 0xFF;
  out.kind = static_cast<HeldKind>(std::min(kind, kHeldKinds - 1));
  out.waits = record.waits.load(kRelaxed);
  out.timeouts = record.timeouts.load(kRelaxed);
  out.refused = record.refused.load(kRelaxed);
  out.wait_ns = record.wait_time.load(kRelaxed);
  out.key_length = key.length;
  std::memcpy(out.key.data(), key.words.data(), kContendedKeyMax);
  return true;
}

}  // namespace

Statistics::Statistics(std::byte* base, Word32& units) noexcept
    : fields_(reinterpret_cast<StatisticsFields*>(base)), units_(units), tick_ns_(platform::coarse_resolution_ns()) {}

// --- memory ---

std::uint32_t Statistics::unit_of(const void* place) const noexcept {
  const auto at = static_cast<const std::byte*>(place) - reinterpret_cast<const std::byte*>(fields_);
  return static_cast<std::uint32_t>(at) / kCountedUnit;
}

bool Statistics::reserve_unit(std::uint32_t unit) noexcept {
  if (platform::reserve_pages(reinterpret_cast<std::byte*>(fields_) + std::size_t{unit} * kCountedUnit, kCountedUnit) !=
      0)
    return false;
  known_.fetch_or(1U << unit, kRelaxed);
  return true;
}

bool Statistics::reserve(const void* place) noexcept {
  const std::uint32_t unit = unit_of(place);
  const std::uint32_t bit = 1U << unit;
  if ((known_.load(kRelaxed) & bit) == 0) {
    const std::uint32_t refused = refused_ms_.load(kRelaxed);
    if (refused != 0 && refused_now() - refused < kRefusedMs) return false;
    const bool given = reserve_unit(unit);
    refused_ms_.store(given ? 0 : refused_now(), kRelaxed);
    if (!given) return false;
  }
  // Set the bit after the memory is reserved, so that a reader that sees the bit finds reserved memory. Write it again
  // in case the word was overwritten.
  if ((units_.load(kRelaxed) & bit) == 0) units_.fetch_or(bit, kRelaxed);
  return true;
}

// Returns whether the word can be read. Asks the kernel before the first access, because the header may be wrong.
bool Statistics::is_there(const void* place) noexcept {
  const std::uint32_t unit = unit_of(place);
  const std::uint32_t bit = 1U << unit;
  if ((known_.load(kRelaxed) & bit) != 0) return true;
  return (units_.load(kRelaxed) & bit) != 0 && reserve_unit(unit);
}

std::uint64_t Statistics::load(const Word64& word) noexcept { return is_there(&word) ? word.load(kRelaxed) : 0; }

// --- histograms ---

void Statistics::count_time(HeldKind kind, TimeKind time, std::uint64_t ns, std::uint64_t times) noexcept {
  HistogramFields& fields = histogram(kind, time);
  Word64& bucket = fields.counts[bucket_of(ns)];
  if (!reserve(&fields.sum) || !reserve(&bucket)) return;
  add(bucket, times);
  add(fields.sum, ns * times);
  std::uint64_t max = fields.max.load(kRelaxed);
  while (max < ns && !fields.max.compare_exchange_weak(max, ns, kRelaxed)) {
  }
}

Since Statistics::measured(Since now, bool rested) noexcept {
  if (rested) {
    measured_.store(now.bits | Since::kLong, kRelaxed);
    looks_.store(0, kRelaxed);
  }
  const std::uint64_t looked_at = measured_.load(kRelaxed) & Since::kLong;
  const std::uint64_t how = looked_at | (rested ? Since::kOnce : Since::kForAll);
  return {Since::of(platform::monotonic_ns()).bits | how};
}

// Counts a check. Simultaneous calls may count as one call.
void Statistics::note_look() noexcept {
  const std::uint32_t looks = looks_.load(kRelaxed) + 1;
  looks_.store(looks, kRelaxed);
  if (looks >= kLooks) measured_.fetch_and(~Since::kLong, kRelaxed);
}

// Returns whether the coarse clock has ticked twice since the grant. Only this clock decides, because a hold must be
// classified in the same way whether it is drawn or not.
bool Statistics::is_long(Since since, std::uint64_t coarse_ns) const noexcept {
  const std::uint64_t least = since.is_coarse() ? tick_ns_ + tick_ns_ / 2 : tick_ns_;
  return (since.bits & Since::kLong) != 0 && coarse_ns > since.ns() + least;
}

// Counts the end of a hold. Ignores a time in the future, because such a word was overwritten. Both ends of a hold are
// read from the same clock, so the clock's lag matters little.
void Statistics::count_end(HeldKind kind, Since since) noexcept {
  note_look();
  const std::uint64_t coarse = platform::coarse_monotonic_ns();
  const bool once = is_long(since, coarse);
  if (!once && !since.is_measured()) [[likely]]
    return;
  const std::uint64_t now = since.is_coarse() ? coarse : platform::monotonic_ns();
  if (now < since.ns()) return;
  count_time(kind, TimeKind::held, now - since.ns(), !once && (since.bits & Since::kForAll) != 0 ? kDrawnOf : 1);
}

void Statistics::read(HeldKind kind, TimeKind time, Histogram& histogram) noexcept {
  const HistogramFields& fields = this->histogram(kind, time);
  histogram.sum_ns = load(fields.sum);
  histogram.max_ns = load(fields.max);
  histogram.count = 0;
  for (std::uint32_t i = 0; i < kBuckets; ++i) {
    histogram.counts[i] = load(fields.counts[i]);
    histogram.count += histogram.counts[i];
  }
}

// --- contention ---

// Returns the key's record, or else the record with the least weight, which the key takes over.
ContendedFields* Statistics::record_of(std::uint64_t hash) noexcept {
  auto& set = fields_->contended[(hash >> 32) % kContendedSets];
  if (!reserve(&set)) return nullptr;
  ContendedFields* record = nullptr;
  std::uint64_t before = 0;
  std::uint64_t least = 0;
  for (std::size_t i = 0; i < set.size(); ++i) {
    ContendedFields& candidate = set[(hash + i) % set.size()];
    const std::uint64_t word = candidate.hash.load(kRelaxed);
    if (word == hash) return &candidate;
    const std::uint64_t weight = word != 0 ? candidate.weight.load(kRelaxed) : 0;
    if (record != nullptr && weight >= least) continue;
    record = &candidate;
    before = word;
    least = weight;
  }
  // Several threads may want the record at the same time, but only one of them gets it.
  if (record == nullptr || !record->hash.compare_exchange_strong(before, hash, kRelaxed)) return nullptr;
  for (Word64* const count : {&record->waits, &record->wait_time, &record->timeouts, &record->refused})
    count->store(0, kRelaxed);
  return record;
}

// Returns the hash in the form in which records store it. The result is never 0.
static std::uint64_t hash_in_record(std::uint64_t hash) noexcept { return hash != 0 ? hash : 1; }

void Statistics::count_wait(std::string_view key, std::uint64_t hash, const Wait& wait) noexcept {
  count_time(wait.kind, TimeKind::waited, wait.ns, 1);
  ContendedFields* const record = record_of(hash_in_record(hash));
  if (record == nullptr) return;
  put_right(*record, key, wait.kind);
  add(record->weight, wait.ns / kNsPerUs + 1);
  add(record->waits, 1);
  add(record->wait_time, wait.ns);
  if (wait.in_vain) add(record->timeouts, 1);
}

// Counts a refusal. Refusals take less time than waits, and are more frequent, so they compare the text less often. The
// benchmark of kTrusted is "lock of a held key, refused".
void Statistics::count_refusal(std::string_view key, std::uint64_t hash, HeldKind kind) noexcept {
  constexpr std::uint64_t kTrusted = 64;
  ContendedFields* const record = record_of(hash_in_record(hash));
  if (record == nullptr) return;
  if (record->refused.load(kRelaxed) % kTrusted == 0) put_right(*record, key, kind);
  add_roughly(record->weight, 1);
  add_roughly(record->refused, 1);
}

std::size_t Statistics::read(std::span<Contended> worst) noexcept {
  struct Found {
    std::uint64_t weight;
    const ContendedFields* record;
  };
  std::array<Found, kContendedSets * kContendedPerSet> all;
  std::size_t count = 0;
  Contended key;
  for (const auto& set : fields_->contended) {
    if (!is_there(&set)) continue;
    for (const ContendedFields& record : set)
      if (read_record(record, key)) all[count++] = {weight_of(key), &record};
  }
  const std::span<Found> found(all.data(), count);
  std::sort(found.begin(), found.end(), [](const Found& a, const Found& b) { return a.weight > b.weight; });
  std::size_t given = 0;
  for (const Found& one : found)
    if (given < worst.size() && read_record(*one.record, worst[given])) ++given;
  return given;
}

}  // namespace holdfast
