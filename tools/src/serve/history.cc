#include "serve/history.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "inspect/json.h"

namespace holdfast::serve {

namespace {

/// The maximum size of an open chunk, in bytes. Because of this limit, dropping a chunk loses only a small part of the
/// hour that the history covers.
constexpr std::size_t kChunkMax = std::size_t{1} << 20;

double tenths(double seconds) { return std::floor(seconds * 10) / 10; }

/// Returns the time at which a wait or hold began, given that it has now lasted for `lasted` seconds. If the result is
/// almost equal to `known`, it is the same wait or hold, measured again, and `known` is returned.
double since(double known, double lasted, double time) {
  constexpr double kSame = 0.2;
  const double began = time - lasted;
  return std::abs(began - known) < kSame ? known : tenths(began);
}

std::string or_null(bool is_known, double value) { return is_known ? fmt::format("{}", value) : "null"; }

/// Returns whether the counts in `now` continue the counts in `last`.
bool continues(const SampledDictionary& last, const SampledDictionary& now) {
  bool grows = now.file == last.file && now.hits >= last.hits && now.misses >= last.misses;
  for (std::size_t row = 0; row < kWaitRows; ++row) grows = grows && now.waits[row] >= last.waits[row];
  return grows;
}

/// Returns the rows of kWaitBounds that have new waits, each with the number of new waits.
std::string new_waits(const SampledDictionary& last, const SampledDictionary& now) {
  std::string text;
  for (std::size_t row = 0; row < kWaitRows; ++row)
    if (now.waits[row] != last.waits[row])
      text += fmt::format("{}{},{}", text.empty() ? "" : ",", row, now.waits[row] - last.waits[row]);
  return text;
}

}  // namespace

/// Returns "HELD,WAITERS,HOLD SINCE,WAIT SINCE".
std::string History::locks_of(Known& known, double time) {
  const SampledDictionary& now = known.last;
  known.since = {since(known.since.hold, now.longest_hold, time), since(known.since.wait, now.longest_wait, time)};
  const bool knows = now.locks == Locks::known;
  return fmt::format("{},{},{},{}", or_null(knows, now.held), or_null(knows, now.waiters),
                     or_null(knows && now.longest_hold >= 0, known.since.hold),
                     or_null(knows && now.longest_wait >= 0, known.since.wait));
}

/// Returns ",[ID,USED,HITS,MISSES,HELD,WAITERS,HOLD SINCE,WAIT SINCE,[ROW,WAITS...]]", or an empty string if nothing
/// has changed.
std::string History::changes_of(const SampledDictionary& now, double time) {
  const std::string name(now.name.data());
  Known& known = known_.try_emplace(name, Known{now}).first->second;
  // If this is a new dictionary with the same name, its counts are relative to its first sample.
  if (!continues(known.last, now)) known.last = now;
  const std::uint64_t hits = now.hits - known.last.hits;
  const std::uint64_t misses = now.misses - known.last.misses;
  const std::string waits = new_waits(known.last, now);
  known.last = now;
  known.seen = number_ + 1;
  if (now.locks != Locks::unread || known.locks.empty()) known.locks = locks_of(known, time);
  const std::string state = fmt::format("{},{}", now.used, known.locks);
  if (known.id >= 0 && state == known.state && hits == 0 && misses == 0 && waits.empty()) return {};
  known.state = state;
  std::string id = std::to_string(known.id);
  if (known.id < 0) {
    known.id = next_id_++;
    inspect::Json json;
    inspect::add_text(json, "name", name);
    id = inspect::to_text(json, inspect::Layout::line);
  }
  return fmt::format(",[{},{},{},{},{}{}]", id, now.used, hits, misses, known.locks,
                     waits.empty() ? "" : fmt::format(",[{}]", waits));
}

/// Returns "0" if the long waits are still the same, otherwise a list of [WAIT SINCE,HOLD SINCE,WAITERS,LOCK].
std::string History::long_waits_in_text(const std::vector<LongWait>& waits, double time) {
  std::map<std::string, Since> known = std::exchange(long_waits_, {});
  std::string text = "[";
  for (const LongWait& wait : waits) {
    const Since& before = known[wait.lock];
    const Since now{since(before.hold, wait.held, time), since(before.wait, wait.waited, time)};
    long_waits_[wait.lock] = now;
    text += fmt::format("{}[{},{},{},{}]", text.size() == 1 ? "" : ",", now.wait, or_null(wait.held >= 0, now.hold),
                        wait.waiters, wait.lock);
  }
  text += "]";
  if (text == long_waits_text_) return "0";
  return long_waits_text_ = text;
}

void History::add(double now, const Sample& sample) {
  const double time = tenths(now - start_);
  std::string text = "," + long_waits_in_text(sample.long_waits, time);
  for (const SampledDictionary& one : sample.dictionaries) text += changes_of(one, time);
  std::erase_if(known_, [&](const auto& one) {
    const bool is_gone = one.second.seen != number_ + 1;
    if (is_gone && one.second.id >= 0) text += fmt::format(",[{}]", one.second.id);
    return is_gone;
  });
  left_out_ = sample.left_out;
  append(time, text);
}

void History::add_unknown(double now) { append(tenths(now - start_), ""); }

void History::add_gap() { append(last_time_ + 1, ""); }

void History::append(double time, const std::string& rest) {
  open_ += fmt::format("{}[{},{}{}]", open_samples_ == 0 ? "[" : ",\n", ++number_, time, rest);
  ++open_samples_;
  open_text_ = nullptr;
  last_time_ = time;
  if (open_samples_ == kChunkSamples || open_.size() > kChunkMax) close_chunk();
  drop_old(time);
}

void History::close_chunk() {
  open_ += "],\n";
  size_ += open_.size();
  chunks_.push_back({number_, last_time_, open_samples_, std::make_shared<const std::string>(std::move(open_))});
  open_ = {};
  open_samples_ = 0;
  next_id_ = 0;
  long_waits_text_ = {};
  for (auto& [name, known] : known_) known.id = -1;
}

void History::drop_old(double time) {
  while (!chunks_.empty() && (size_ + open_.size() > kHistoryMax || chunks_.size() * kChunkSamples >= kHistorySamples ||
                              chunks_.front().time < time - kHistorySeconds)) {
    size_ -= chunks_.front().text->size();
    chunks_.pop_front();
  }
}

double History::pause() const noexcept {
  if (chunks_.empty()) return 1;
  const Chunk& last = chunks_.back();
  const double bytes = static_cast<double>(last.text->size()) / static_cast<double>(last.samples);
  return std::max(1.0, bytes * kHistorySeconds / static_cast<double>(kHistoryMax));
}

std::vector<Text> History::texts_from(std::uint64_t number, double now, double time) {
  inspect::Json bounds = inspect::Json::array();
  for (const double bound : kWaitBounds) bounds.push_back(std::isinf(bound) ? inspect::Json() : inspect::Json(bound));
  const std::string head =
      fmt::format("{{\"time\":{:.3f},\"uptime\":{:.1f},\"started\":{:.3f},\"left_out\":{},\"bounds\":{},\"chunks\":[\n",
                  time, now - start_, started_, left_out_, inspect::to_text(bounds, inspect::Layout::line));
  std::vector<Text> texts{std::make_shared<const std::string>(head)};
  for (const Chunk& chunk : chunks_)
    if (chunk.last >= number) texts.push_back(chunk.text);
  if (!open_text_) open_text_ = std::make_shared<const std::string>((open_.empty() ? "[" : open_) + "]]}\n");
  texts.push_back(open_text_);
  return texts;
}

bool History::has(const Text& text) const noexcept {
  return text == open_text_ ||
         std::any_of(chunks_.begin(), chunks_.end(), [&](const Chunk& chunk) { return chunk.text == text; });
}

}  // namespace holdfast::serve
