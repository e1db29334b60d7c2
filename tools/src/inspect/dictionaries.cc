#include "inspect/dictionaries.h"

#include <algorithm>
#include <cstdint>

#include "inspect/world.h"

namespace holdfast::inspect {

Expected<holdfast_dict*> attach(const std::string& name) {
  holdfast_dict* dict = nullptr;
  const int code = holdfast_attach(name.data(), name.size(), &dict);
  if (code == HOLDFAST_OK) return dict;
  if (code == HOLDFAST_NOT_FOUND) return no_such_dictionary(name);
  return Status{static_cast<Code>(code), sentence(code)};
}

bool is_gone(const std::string& directory, const std::string& name, int code) {
  if (code == HOLDFAST_NOT_FOUND) return true;
  if (code == HOLDFAST_MISMATCH) return is_left_by_another_world(directory, name);
  if (code != HOLDFAST_REMOVED) return false;
  const WorldFile file = read_dictionary_file(directory, name);
  const bool is_damaged = file.is_regular && file.trouble.empty() && (!file.is_holdfast || file.retired_by_damage);
  return !is_damaged;
}

Dictionary look_at(const std::string& directory, const std::string& name, Read what) {
  Dictionary dictionary;
  dictionary.name = name;
  dictionary.file = read_dictionary_file(directory, name, what);
  int code = holdfast_attach(name.data(), name.size(), &dictionary.handle);
  if (code == HOLDFAST_OK) {
    dictionary.size = holdfast_capacity(dictionary.handle);
    dictionary.largest_value = holdfast_largest_value(dictionary.handle);
    code = holdfast_dict_stats(dictionary.handle, &dictionary.counts);
  }
  if (code != HOLDFAST_OK) {
    dictionary.trouble = sentence(code);
    dictionary.is_gone = is_gone(directory, name, code);
    return dictionary;
  }
  holdfast_cluster cluster{};
  const int state = holdfast_cluster_state(dictionary.handle, &cluster);
  if (state == HOLDFAST_OK || state == HOLDFAST_UNAVAILABLE)
    dictionary.cluster = static_cast<const char*>(cluster.name);
  return dictionary;
}

Expected<std::vector<Dictionary>> look_at_dictionaries(const std::string& directory,
                                                       const std::vector<std::string>& names, Read what) {
  auto all = named_dictionaries(directory);
  if (!all) return all.status();
  for (const std::string& name : names)
    if (!std::binary_search(all->begin(), all->end(), name)) return no_such_dictionary(name);
  std::vector<Dictionary> dictionaries;
  for (const std::string& name : names.empty() ? *all : names) {
    Dictionary dictionary = look_at(directory, name, what);
    if (dictionary.is_gone && !names.empty()) return no_such_dictionary(name);
    if (!dictionary.is_gone) dictionaries.push_back(std::move(dictionary));
  }
  return dictionaries;
}

bool was_removed_since(const std::string& directory, const Dictionary& dictionary) {
  if (dictionary.handle == nullptr || !dictionary.trouble.empty()) return false;
  holdfast_stats counts{};
  return is_gone(directory, dictionary.name, holdfast_dict_stats(dictionary.handle, &counts));
}

void find_lockers(Dictionary& dictionary, double end) {
  dictionary.all_lockers = false;
  if (dictionary.handle == nullptr) return;
  for (LockScan scan(dictionary.handle, dictionary.name, ""); !scan.done();) {
    std::vector<Lock> locks;
    if (holdfast_now() > end || !scan.next(Which::all, SIZE_MAX, locks).ok()) return;
    note_lockers(dictionary, locks);
  }
  dictionary.all_lockers = true;
}

void note_lockers(Dictionary& dictionary, const std::vector<Lock>& locks) {
  std::vector<std::uint64_t>& lockers = dictionary.lockers;
  for (const Lock& lock : locks) {
    for (const holdfast_holder& holder : lock.holders) lockers.push_back(holder.owner);
    for (const holdfast_waiter& waiter : lock.waiters) lockers.push_back(waiter.owner);
  }
  std::sort(lockers.begin(), lockers.end());
  lockers.erase(std::unique(lockers.begin(), lockers.end()), lockers.end());
}

Users users_of(const Dictionary& dictionary, const Openers& openers, Processes& processes) {
  Users users{openers_of(dictionary, openers, processes), openers.complete() && dictionary.all_lockers};
  const auto is_opener = [&](std::uint32_t pid) {
    const std::vector<std::uint32_t>& pids = openers.of(dictionary.file.inode);
    return std::binary_search(pids.begin(), pids.end(), pid);
  };
  for (const std::uint64_t token : dictionary.lockers) {
    const Process& process = processes.of(token);
    if (process.life == Life::dead || is_opener(process.pid_here)) continue;
    // The process may be in a different pid namespace. Or it may have ended while other processes keep its locks.
    const bool is_seen = process.pid_here != 0 && process.life != Life::ended;
    if (is_seen) users.seen.push_back({process.pid_here, process.program});
    users.complete = users.complete && is_seen;
  }
  std::sort(users.seen.begin(), users.seen.end(),
            [](const Opener& one, const Opener& other) { return one.pid < other.pid; });
  return users;
}

std::vector<Opener> openers_of(const Dictionary& dictionary, const Openers& openers, const Processes& processes) {
  std::vector<Opener> found;
  for (const std::uint32_t pid : openers.of(dictionary.file.inode)) found.push_back({pid, processes.program_of(pid)});
  return found;
}

}  // namespace holdfast::inspect
