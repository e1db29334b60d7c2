#include "look/top_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "inspect/text.h"
#include "look/cells.h"

namespace holdfast::cli {

namespace {

constexpr TopColumn kUserColumn{"user", "USER", 10, 5};

using inspect::DictionaryRates;
using inspect::Lock;
using inspect::LockRates;
using inspect::Process;
using inspect::Rates;
using inspect::Snapshot;

std::string short_time(double seconds) {
  constexpr double kMilli = 1e-3;
  constexpr double kMicro = 1e-6;
  if (seconds < kMilli) return fmt::format("{:.0f} us", seconds / kMicro);
  if (seconds < 1) return fmt::format("{:.1f} ms", seconds / kMilli);
  return inspect::duration_in_words(seconds);
}

TopCell time_cell(double seconds, bool is_known) {
  if (!is_known) return {"-", -1};
  return {short_time(seconds), seconds, Style::plain, fmt::format("{:.6f}", seconds)};
}

TopCell time_cell(const std::optional<double>& seconds) { return time_cell(seconds.value_or(0), seconds.has_value()); }

TopCell rate_cell(double rate, Style style = Style::plain) {
  return {rate_in_words(rate), rate, rate > 0 ? style : Style::plain, fmt::format("{:.2f}", rate)};
}

TopCell bytes_cell(std::uint64_t bytes, Style style = Style::plain) {
  return {inspect::bytes_in_words(bytes), static_cast<double>(bytes), style, std::to_string(bytes)};
}

TopCell count_cell(std::uint64_t count, Style style = Style::plain) {
  return {std::to_string(count), static_cast<double>(count), count != 0 ? style : Style::plain};
}

// --- locks ---

/// Returns a text such as "4711 backup.sh", followed by anything unusual about the process. The text begins with the
/// pid, so that the pid remains if the text is elided.
std::string holder_in_words(const Process& process, std::uint32_t count) {
  if (process.pid == 0) return "gone";
  std::string text = fmt::format("{} {}", process.shown_pid(), or_dash(inspect::escaped(process.program)));
  if (!process.is_there() || process.life == inspect::Life::stopped)
    text += fmt::format(", {}", inspect::life_in_words(process.life));
  if (count > 1) text += fmt::format(" +{}", count - 1);
  return text;
}

/// Returns the holder's pid, program and state, in the form for programs.
std::string holder_for_programs(const Process& process) {
  return fmt::format("{}\t{}\t{}", process.shown_pid(), or_dash(inspect::escaped(process.program)),
                     inspect::life_in_words(process.life));
}

std::vector<TopCell> cells_of(const Snapshot& snapshot, const LockRates& rates) {
  const Lock* const lock = rates.lock;
  const std::uint32_t waiters = lock != nullptr ? lock->waiter_count : 0;
  std::vector<TopCell> cells{{inspect::escaped(rates.dictionary)}, {inspect::escaped(rates.key), 0, Style::bold}};
  if (lock == nullptr || lock->holders.empty()) {
    const std::string trouble = lock != nullptr ? inspect::escaped(lock->trouble) : "";
    cells.insert(cells.end(), {{"-"}, {or_dash(trouble), 0, Style::red, "-\t-\t-"}, time_cell(0, false)});
  } else {
    const holdfast_holder& holder = lock->holders.front();
    const Process& process = snapshot.user(*lock, holder.owner);
    cells.insert(cells.end(),
                 {{inspect::kind_in_words(*lock)},
                  {holder_in_words(process, lock->holder_count), 0, style_of(process), holder_for_programs(process)},
                  time_cell(holder.held, true)});
  }
  cells.insert(cells.end(), {count_cell(waiters, Style::yellow), time_cell(rates.longest_wait, waiters != 0),
                             rate_cell(rates.contention)});
  const bool is_held = lock != nullptr && !lock->holders.empty();
  const std::string why =
      is_held ? inspect::escaped(static_cast<const char*>(lock->holders.front().why)) : std::string();
  cells.push_back({why, 0, Style::plain, or_dash(why)});
  cells.push_back({inspect::escaped(rates.user)});
  return cells;
}

// --- dictionaries ---

std::vector<TopCell> cells_of(const DictionaryRates& rates) {
  constexpr double kPercent = 100;
  const inspect::DictionaryLook& look = *rates.look;
  const std::string name = inspect::escaped(look.name);
  if (!look.trouble.empty()) {
    std::vector<TopCell> cells(columns_of(TopPane::dictionaries).size(), TopCell{"-", -1});
    cells.front() = {name + ": " + inspect::escaped(look.trouble), 0, Style::red, name};
    cells.back() = {inspect::escaped(look.user)};
    return cells;
  }
  const bool full = static_cast<double>(look.counts.bytes_used) > kFull * static_cast<double>(look.size);
  TopCell hits{"-", -1};
  if (rates.hit_ratio)
    hits = {fmt::format("{:.1f}%", kPercent * *rates.hit_ratio), *rates.hit_ratio, Style::plain,
            fmt::format("{:.4f}", *rates.hit_ratio)};
  return {{name, 0, Style::bold},
          bytes_cell(look.size),
          bytes_cell(look.counts.bytes_used, full ? Style::yellow : Style::plain),
          count_cell(look.counts.entries),
          hits,
          rate_cell(rates.reads),
          rate_cell(rates.grants),
          rate_cell(rates.evictions, Style::yellow),
          rate_cell(rates.waits),
          time_cell(rates.median_wait),
          time_cell(rates.p99_wait),
          rates.loads ? rate_cell(*rates.loads) : TopCell{"-", -1},
          look.jobs < 0 ? TopCell{"-", -1} : count_cell(static_cast<std::uint64_t>(look.jobs)),
          {inspect::escaped(look.user)}};
}

bool is_before(const TopCell& one, const TopCell& other, bool is_number) {
  return is_number ? one.number > other.number : one.text < other.text;
}

/// Sorts the rows. Rows that are equal in the chosen column are sorted by default columns; for locks, these are
/// waiters, wait, hold and contention.
void sort(TopPane pane, TopOrder order, std::vector<TopRow>& rows) {
  const std::vector<TopColumn>& columns = columns_of(pane);
  std::vector<std::size_t> then{order.column, 5, 6, 4, 7, 0, 1};
  if (pane == TopPane::dictionaries) then = {order.column, 0};
  std::stable_sort(rows.begin(), rows.end(), [&](const TopRow& one, const TopRow& other) {
    const TopRow& first = order.inverted ? other : one;
    const TopRow& second = order.inverted ? one : other;
    for (const std::size_t at : then) {
      const bool right = columns[at].right;
      if (is_before(first.cells[at], second.cells[at], right)) return true;
      if (is_before(second.cells[at], first.cells[at], right)) return false;
    }
    return false;
  });
}

/// Returns whether the lock's dictionary belongs to a cluster, so that another machine may hold the lock.
bool is_in_cluster(const Snapshot& snapshot, const LockRates& lock) {
  return std::any_of(snapshot.dictionaries.begin(), snapshot.dictionaries.end(),
                     [&](const inspect::DictionaryLook& look) {
                       return look.user == lock.user && look.name == lock.dictionary && look.in_cluster;
                     });
}

std::string lower(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

}  // namespace

const std::vector<TopColumn>& columns_of(TopPane pane) {
  static const std::vector<TopColumn> locks{{"dictionary", "DICTIONARY", 10, 4, false, false},
                                            {"key", "KEY", 16, 9, false, true},
                                            {"kind", "KIND", 9, 0, false, false},
                                            {"holder", "HOLDER", 16, 8, false, false},
                                            {"held", "HELD", 8, 2, true, false},
                                            {"waiters", "WAIT", 5, 7, true, false},
                                            {"wait", "LONGEST", 8, 3, true, false},
                                            {"contention", "CONT", 6, 1, true, false},
                                            {"why", "WHY", 12, 6, false, true},
                                            kUserColumn};
  static const std::vector<TopColumn> dictionaries{
      {"name", "NAME", 16, 9, false, true},    {"size", "SIZE", 5, 4, true, false},
      {"used", "USED", 5, 7, true, false},     {"entries", "ENTRIES", 8, 6, true, false},
      {"hits", "HITS", 6, 5, true, false},     {"reads", "READS", 6, 8, true, false},
      {"grants", "~LOCKS", 7, 3, true, false}, {"evictions", "EVICT", 6, 2, true, false},
      {"waits", "WAITS", 6, 3, true, false},   {"p50", "P50", 8, 1, true, false},
      {"p99", "P99", 8, 2, true, false},       {"loads", "LOADS", 6, 0, true, false},
      {"jobs", "JOBS", 6, 4, true, false},     kUserColumn};
  return pane == TopPane::locks ? locks : dictionaries;
}

bool is_shown(const TopColumn& column, const Snapshot& snapshot) noexcept {
  return column.name != kUserColumn.name || !snapshot.directories.empty();
}

std::optional<std::pair<TopPane, std::size_t>> find_column(const std::string& name) {
  for (const TopPane pane : {TopPane::locks, TopPane::dictionaries}) {
    const std::vector<TopColumn>& columns = columns_of(pane);
    for (std::size_t i = 0; i < columns.size(); ++i)
      if (name == columns[i].name) return std::pair(pane, i);
  }
  return std::nullopt;
}

std::string names_of_columns() {
  std::string names;
  for (const TopPane pane : {TopPane::locks, TopPane::dictionaries})
    for (const TopColumn& column : columns_of(pane))
      if (find_column(column.name)->first == pane) names += (names.empty() ? "" : ", ") + std::string(column.name);
  return names;
}

std::size_t first_column_of(TopPane pane) { return find_column(pane == TopPane::locks ? "waiters" : "reads")->second; }

bool has_text(TopPane pane, const TopRow& row, const std::string& text) {
  const std::vector<TopColumn>& columns = columns_of(pane);
  const std::string wanted = lower(text);
  for (std::size_t i = 0; i < columns.size(); ++i)
    if (!columns[i].right && lower(row.cells[i].text).find(wanted) != std::string::npos) return true;
  return false;
}

std::vector<TopRow> rows_of(TopPane pane, const Snapshot& snapshot, const Rates& rates, const std::string& filter,
                            TopOrder order) {
  std::vector<TopRow> rows;
  const std::size_t count = pane == TopPane::locks ? rates.locks.size() : rates.dictionaries.size();
  for (std::size_t i = 0; i < count; ++i) {
    TopRow row{pane == TopPane::locks ? cells_of(snapshot, rates.locks[i]) : cells_of(rates.dictionaries[i]), i};
    if (filter.empty() || has_text(pane, row, filter)) rows.push_back(std::move(row));
  }
  sort(pane, order, rows);
  return rows;
}

std::string rate_in_words(double rate) {
  constexpr double kTen = 10;
  constexpr double kMany = 100000;
  constexpr double kThousand = 1000;
  if (rate <= 0) return "0";
  if (rate < kTen) return fmt::format("{:.1f}", rate);
  if (rate < kMany) return fmt::format("{:.0f}", rate);
  return rate < kMany * kThousand ? fmt::format("{:.0f}k", rate / kThousand)
                                  : fmt::format("{:.0f}M", rate / kThousand / kThousand);
}

std::vector<std::string> head_of(const Snapshot& snapshot, const Rates& rates) {
  std::size_t held = 0;
  for (const Lock& lock : snapshot.locks) held += lock.holder_count != 0 ? 1 : 0;
  const std::string room = snapshot.room_whole == 0
                               ? "unknown"
                               : fmt::format("{} of {} free", inspect::bytes_in_words(snapshot.room_free),
                                             inspect::bytes_in_words(snapshot.room_whole));
  return {!snapshot.directories.empty()
              ? inspect::counted(snapshot.directories.size(), "runtime directory", "runtime directories")
              : inspect::escaped(snapshot.directory) + (snapshot.hidden.empty() ? "" : "; ") + snapshot.hidden,
          fmt::format("{}, {}, {}{}", inspect::counted(snapshot.processes, "process", "processes"),
                      inspect::counted(snapshot.dictionaries.size(), "dictionary", "dictionaries"),
                      inspect::counted(held, "key held", "keys held"),
                      snapshot.locks.size() >= Snapshot::kMostLocks ? " or more" : ""),
          fmt::format("{} operations/s ({} reads, ~{} locks), {} waits/s; room: {}", rate_in_words(rates.operations()),
                      rate_in_words(rates.reads), rate_in_words(rates.grants), rate_in_words(rates.waits), room)};
}

std::vector<std::string> details_of(const Snapshot& snapshot, const LockRates& rates) {
  const std::string user = rates.user.empty() ? "" : fmt::format("user {}: ", inspect::escaped(rates.user));
  std::vector<std::string> lines{
      fmt::format("{}{} {}", user, inspect::escaped(rates.dictionary), inspect::escaped(rates.key)),
      fmt::format("{} waits and refusals per second", rate_in_words(rates.contention)), ""};
  if (rates.lock == nullptr || (rates.lock->holders.empty() && rates.lock->trouble.empty()))
    lines.emplace_back(is_in_cluster(snapshot, rates) ? "not held on this machine" : "not held");
  if (rates.lock == nullptr) return lines;
  const Lock& lock = *rates.lock;
  if (!lock.trouble.empty()) lines.push_back(inspect::escaped(lock.trouble));
  for (const holdfast_holder& holder : lock.holders) {
    const std::string end =
        holder.remaining > 0 ? "ends in " + inspect::duration_in_words(holder.remaining) : "never ends";
    lines.push_back(fmt::format("held by {} as {} for {}, {}, token {}",
                                inspect::in_words(snapshot.user(lock, holder.owner)), inspect::share_in_words(holder),
                                inspect::duration_in_words(holder.held), end, inspect::token_in_words(holder)));
    if (holder.why[0] != '\0') lines.push_back("  " + inspect::escaped(static_cast<const char*>(holder.why)));
  }
  for (const holdfast_waiter& waiter : lock.waiters)
    lines.push_back(fmt::format("{} {} for {}", inspect::in_words(snapshot.user(lock, waiter.owner)),
                                waiter.watches != 0 ? "has watched" : "has waited",
                                inspect::duration_in_words(waiter.waited)));
  return lines;
}

}  // namespace holdfast::cli
