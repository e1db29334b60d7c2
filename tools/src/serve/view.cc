#include "serve/view.h"

#include <algorithm>
#include <utility>

#include "inspect/names.h"
#include "inspect/world.h"

namespace holdfast::serve {

namespace {

constexpr double kLookAtProcesses = 0.02;
constexpr std::size_t kLocksMost = 100000;

void read_contention(DictionaryView& view) {
  holdfast_dict* const dict = view.dictionary.handle;
  view.contended.resize(HOLDFAST_CONTENDED_MAX);
  std::uint32_t count = 0;
  const int code =
      holdfast_dict_contention(dict, view.contended.data(), sizeof(holdfast_contended), HOLDFAST_CONTENDED_MAX, &count);
  view.contended.resize(code == HOLDFAST_OK ? count : 0);
}

void read_cluster(DictionaryView& view) {
  const int code = holdfast_cluster_state(view.dictionary.handle, &view.cluster);
  view.in_cluster = code == HOLDFAST_OK || code == HOLDFAST_UNAVAILABLE;
  view.is_available = code == HOLDFAST_OK;
}

/// Keeps the locks with the most waiters. If the numbers are equal, keeps the locks that have been held longest.
void keep_some(View& view) {
  const auto held = [](const inspect::Lock& lock) { return lock.holders.empty() ? 0 : lock.holders.front().held; };
  std::stable_sort(view.locks.begin(), view.locks.end(), [&](const inspect::Lock& one, const inspect::Lock& other) {
    return std::pair(one.waiter_count, held(one)) > std::pair(other.waiter_count, held(other));
  });
  if (view.locks.size() > kLocksShown) view.locks.resize(kLocksShown);
}

}  // namespace

void read_times(DictionaryView& view, holdfast_time time, std::array<holdfast_histogram, kKinds>& histograms) {
  for (std::size_t kind = 0; kind < kKinds; ++kind) {
    histograms[kind].struct_size = sizeof(holdfast_histogram);
    static_cast<void>(holdfast_dict_histogram(view.dictionary.handle, static_cast<int>(kind), time, &histograms[kind]));
  }
}

bool read_locks(DictionaryView& of, View& view) {
  const std::size_t room = kLocksMost - view.lock_count;
  std::vector<inspect::Lock> locks;
  const Status listed =
      inspect::gather_locks(of.dictionary.handle, of.dictionary.name, "", inspect::Which::all, room, locks);
  if (inspect::is_gone(view.directory, of.dictionary.name, static_cast<int>(listed.code))) return false;
  of.locks_listed = listed.ok() && locks.size() < room;
  inspect::drop_dead_waiters(locks, view.processes);
  inspect::note_lockers(of.dictionary, locks);
  for (inspect::Lock& lock : locks) {
    of.locks_listed = of.locks_listed && lock.trouble.empty();
    of.waiters += lock.waiter_count;
    const inspect::WaitsNow waits = inspect::waits_now(lock);
    of.longest_wait = std::max(of.longest_wait, waits.longest);
    double& hold = of.longest_hold[waits.count != 0 ? 1 : 0];
    hold = std::max(hold, lock.holders.empty() ? 0 : lock.holders.front().held);
    if (!lock.holders.empty() && lock.holders.front().kind < kKinds) ++of.holds[lock.holders.front().kind];
    view.locks.push_back(std::move(lock));
  }
  of.dictionary.all_lockers = of.locks_listed;
  view.lock_count += locks.size();
  if (view.locks.size() > 2 * kLocksShown) keep_some(view);
  return true;
}

Expected<View> begin_view() {
  View view;
  auto directory = inspect::observe();
  view.is_used = directory || !inspect::is_unused_yet(directory.status());
  if (!view.is_used) view.directory = inspect::directory_to_be();
  if (!view.is_used) return view;
  if (!directory) return directory.status();
  view.directory = *directory;
  auto processes = inspect::Processes::read();
  if (!processes) return processes.status();
  view.processes = std::move(*processes);
  return view;
}

Expected<View> gather_view() {
  auto begun = begin_view();
  if (!begun || !begun->is_used) return begun;
  View& view = *begun;
  auto dictionaries = inspect::look_at_dictionaries(view.directory, {});
  if (!dictionaries) return dictionaries.status();
  view.openers = inspect::Openers::read(view.directory, view.processes.pids(), kLookAtProcesses);
  view.dictionaries.reserve(dictionaries->size());  // avoids copies, because a view takes 35 KB
  for (inspect::Dictionary& dictionary : *dictionaries) {
    DictionaryView& one = view.dictionaries.emplace_back();
    one.dictionary = std::move(dictionary);
    if (!one.dictionary.trouble.empty()) continue;
    read_times(one, HOLDFAST_TIME_WAITED, one.waited);
    read_times(one, HOLDFAST_TIME_HELD, one.held);
    read_contention(one);
    read_cluster(one);
    one.queue = inspect::queue_in(one.dictionary.name, one.dictionary.handle);
    one.cache_counts = inspect::cache_counts_in(one.dictionary.handle);
    if (!read_locks(one, view)) view.dictionaries.pop_back();
  }
  keep_some(view);
  std::vector<std::string> troubled;
  for (const DictionaryView& one : view.dictionaries)
    if (!one.dictionary.trouble.empty()) troubled.push_back(one.dictionary.name);
  view.unreadable = inspect::count_refused(view.directory, troubled);
  ask_agents(view);
  return begun;
}

}  // namespace holdfast::serve
