#include "inspect/snapshot.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "inspect/dictionaries.h"
#include "inspect/text.h"
#include "inspect/uses.h"
#include "inspect/world.h"

namespace holdfast::inspect {

namespace {

constexpr std::array<int, 3> kKinds{HOLDFAST_HELD_LOCK, HOLDFAST_HELD_RWLOCK, HOLDFAST_HELD_SEMAPHORE};

void add_histogram(holdfast_histogram& to, const holdfast_histogram& more) {
  to.count += more.count;
  to.sum += more.sum;
  to.max = std::max(to.max, more.max);
  for (std::size_t i = 0; i < HOLDFAST_BUCKETS; ++i) to.buckets[i] += more.buckets[i];
}

void read_times(holdfast_dict* dict, DictionaryLook& look) {
  for (const int kind : kKinds) {
    holdfast_histogram times{};
    times.struct_size = sizeof times;
    if (holdfast_dict_histogram(dict, kind, HOLDFAST_TIME_HELD, &times) == HOLDFAST_OK) look.grants += times.count;
    if (holdfast_dict_histogram(dict, kind, HOLDFAST_TIME_WAITED, &times) == HOLDFAST_OK)
      add_histogram(look.waits, times);
  }
  std::array<holdfast_contended, HOLDFAST_CONTENDED_MAX> keys{};
  std::uint32_t count = 0;
  if (holdfast_dict_contention(dict, keys.data(), sizeof keys[0], HOLDFAST_CONTENDED_MAX, &count) == HOLDFAST_OK)
    look.contended.assign(keys.begin(), keys.begin() + std::min<std::size_t>(count, keys.size()));
}

/// Returns the number of calls to the loaders of the dictionary's caches, or a negative number if it has no cache.
std::int64_t loads_in(holdfast_dict* dict) {
  const auto counts = cache_counts_in(dict);
  if (counts.empty()) return -1;
  const auto loads =
      std::ranges::find(counts, std::string_view("loads"), [](const auto& count) { return count.first; });
  return loads == counts.end() ? 0 : static_cast<std::int64_t>(loads->second);
}

/// Adds the dictionary with its locks, unless it is gone.
void add_dictionary(const std::string& name, Snapshot& snapshot) {
  const Dictionary found = look_at(snapshot.directory, name, Read::status);
  if (found.is_gone) return;
  DictionaryLook look;
  look.name = name;
  look.trouble = found.trouble;
  look.in_cluster = !found.cluster.empty();
  look.inode = found.file.inode;
  look.size = found.size;
  look.counts = found.counts;
  if (look.trouble.empty()) {
    read_times(found.handle, look);
    if (const auto queue = queue_in(name, found.handle, 0)) look.jobs = static_cast<std::int64_t>(queue->waiting);
    look.loads = loads_in(found.handle);
    const Status status = gather_locks(found.handle, name, "", Which::all, Snapshot::kMostLocks, snapshot.locks);
    if (is_gone(snapshot.directory, name, static_cast<int>(status.code))) return;
    if (!status.ok()) look.trouble = status.message;
  }
  snapshot.dictionaries.push_back(std::move(look));
}

void note_users(Snapshot& snapshot, Processes& processes) {
  for (const Lock& lock : snapshot.locks) {
    for (const holdfast_holder& holder : lock.holders) snapshot.users[{"", holder.owner}] = processes.of(holder.owner);
    for (const holdfast_waiter& waiter : lock.waiters) snapshot.users[{"", waiter.owner}] = processes.of(waiter.owner);
  }
}

}  // namespace

std::vector<std::string> Snapshot::troubles() const {
  std::vector<std::string> troubles;
  for (const DirectoryLook& one : directories)
    if (!one.trouble.empty()) troubles.push_back(escaped(one.user) + ": " + without_controls(one.trouble));
  return troubles;
}

bool Snapshot::is_in_trouble() const {
  return !troubles().empty() || std::any_of(dictionaries.begin(), dictionaries.end(),
                                            [](const DictionaryLook& look) { return !look.trouble.empty(); });
}

const Process& Snapshot::user(const Lock& lock, std::uint64_t token) const {
  static const Process unknown;
  const auto found = users.find({lock.user, token});
  return found != users.end() ? found->second : unknown;
}

Expected<Snapshot> take_snapshot(const std::string& directory, const std::vector<std::string>& names) {
  Snapshot snapshot;
  snapshot.directory = directory;
  snapshot.time = holdfast_now();
  if (const auto observed = observe(); !observed) {
    snapshot.is_used = !is_unused_yet(observed.status());
    return snapshot.is_used ? Expected<Snapshot>(observed.status()) : snapshot;
  }
  auto processes = Processes::read();
  auto all = named_dictionaries(directory);
  if (!processes || !all) return processes ? all.status() : processes.status();
  for (const std::string& name : *all)
    if (names.empty() || std::find(names.begin(), names.end(), name) != names.end()) add_dictionary(name, snapshot);
  drop_dead_waiters(snapshot.locks, *processes);
  note_users(snapshot, *processes);
  snapshot.processes = processes->taken();
  struct statvfs system {};
  if (::statvfs(directory.c_str(), &system) == 0) {
    snapshot.room_free = std::uint64_t{system.f_bavail} * system.f_frsize;
    snapshot.room_whole = std::uint64_t{system.f_blocks} * system.f_frsize;
  }
  return snapshot;
}

}  // namespace holdfast::inspect
