#include "inspect/snapshots.h"

#include <fmt/format.h>

#include <cstring>
#include <type_traits>
#include <utility>

#include "inspect/ask_each.h"
#include "inspect/user_access.h"
#include "inspect/user_directories.h"
#include "inspect/world.h"

namespace holdfast::inspect {

namespace {

/// If reading a directory takes longer than this, the directory is not read again, because it would freeze the display
/// each time.
constexpr double kSecondsForSnapshot = 2;
// The first byte of an answer.
constexpr char kSnapshot = 's';
constexpr char kRefusal = '!';

// --- snapshots as bytes; the functions each() visit the members, both to pack and to unpack them ---

struct Packer {
  std::string bytes{};

  void raw(const void* data, std::size_t size) { bytes.append(static_cast<const char*>(data), size); }
  static std::size_t checked(std::size_t count) noexcept { return count; }
};

struct Unpacker {
  std::string_view rest;
  bool is_sound = true;

  void raw(void* data, std::size_t size) noexcept {
    if (checked(size) != size || size == 0) return;
    std::memcpy(data, rest.data(), size);
    rest.remove_prefix(size);
  }
  /// Rejects a count that exceeds the remaining bytes, because each item takes at least one.
  std::size_t checked(std::size_t count) noexcept {
    is_sound = is_sound && count <= rest.size();
    return is_sound ? count : 0;
  }
};

template <class Archive, class Plain>
requires std::is_trivially_copyable_v<Plain>
void each(Archive& archive, Plain& value) { archive.raw(&value, sizeof value); }

template <class Archive>
void each(Archive& archive, std::string& text) {
  std::size_t size = text.size();
  each(archive, size);
  text.resize(archive.checked(size));
  archive.raw(text.data(), text.size());
}

template <class Archive>
void each(Archive& archive, DictionaryLook& look);
template <class Archive>
void each(Archive& archive, Lock& lock);
template <class Archive>
void each(Archive& archive, Process& process);

template <class Archive, class Item>
void each(Archive& archive, std::vector<Item>& items) {
  std::size_t count = items.size();
  each(archive, count);
  items.resize(archive.checked(count));
  for (Item& item : items) each(archive, item);
}

template <class Archive, class... Members>
void all_of(Archive& archive, Members&... members) {
  (each(archive, members), ...);
}

template <class Archive>
void each(Archive& archive, DictionaryLook& look) {
  all_of(archive, look.name, look.trouble, look.in_cluster, look.inode, look.size, look.counts, look.jobs, look.loads,
         look.grants, look.waits, look.contended);
}

template <class Archive>
void each(Archive& archive, Lock& lock) {
  all_of(archive, lock.dictionary, lock.key, lock.trouble, lock.holders, lock.holder_count, lock.waiters,
         lock.waiter_count);
}

template <class Archive>
void each(Archive& archive, Process& process) {
  all_of(archive, process.token, process.pid, process.pid_here, process.program, process.host, process.worker,
         process.is_worker, process.entered, process.life);
}

/// `users`: the processes of the snapshot, as a list.
template <class Archive>
void each(Archive& archive, Snapshot& snapshot, std::vector<Process>& users) {
  all_of(archive, snapshot.time, snapshot.is_used, snapshot.processes, snapshot.room_free, snapshot.room_whole,
         snapshot.dictionaries, snapshot.locks, users);
}

std::string pack(Snapshot snapshot) {
  std::vector<Process> users;
  for (const auto& [token, process] : snapshot.users) users.push_back(process);
  Packer packer;
  each(packer, snapshot, users);
  return packer.bytes;
}

/// Adds the snapshot of the user's directory. Returns false if the bytes are not a snapshot.
bool add(std::string_view bytes, const std::string& user, Snapshot& all) {
  Snapshot one;
  std::vector<Process> users;
  Unpacker unpacker{bytes};
  each(unpacker, one, users);
  if (!unpacker.is_sound || !unpacker.rest.empty()) return false;
  all.is_used = all.is_used || one.is_used;
  all.processes += one.processes;
  if (one.room_whole != 0) all.room_free = one.room_free;
  if (one.room_whole != 0) all.room_whole = one.room_whole;
  for (DictionaryLook& look : one.dictionaries) {
    look.user = user;
    all.dictionaries.push_back(std::move(look));
  }
  for (Lock& lock : one.locks) {
    lock.user = user;
    all.locks.push_back(std::move(lock));
  }
  for (Process& process : users) all.users[{user, process.token}] = std::move(process);
  return true;
}

}  // namespace

Snapshot Snapshots::take(const std::vector<std::string>& names) {
  std::vector<UserDirectory> directories = find_user_directories().found;
  Snapshot all;
  all.directory = directory_to_be();
  all.is_used = false;
  std::map<std::string, std::string> troubles;  // indexed by path
  for (const UserDirectory& one : directories) all.directories.push_back({one.path, name_of_user(one.user), ""});
  std::erase_if(directories, [&](const UserDirectory& one) { return given_up_.contains(one.path); });
  const std::vector<Answer> answers =
      ask_each(directories, kSecondsForSnapshot, [&](const UserDirectory& directory) -> std::string {
        auto taken = take_snapshot(directory.path, names);
        return taken ? kSnapshot + pack(std::move(*taken)) : kRefusal + taken.status().message;
      });
  all.time = holdfast_now();
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const auto& [path, user] = directories[i];
    const std::string_view text = answers[i].text;
    if (text.starts_with(kRefusal)) troubles[path] = text.substr(1);
    if (text.starts_with(kRefusal)) continue;
    if (text.starts_with(kSnapshot) && add(text.substr(1), name_of_user(user), all)) continue;
    given_up_[path] = fmt::format("cannot read {}: {}", path, answers[i].trouble);
  }
  troubles.insert(given_up_.begin(), given_up_.end());
  for (DirectoryLook& one : all.directories)
    if (const auto found = troubles.find(one.path); found != troubles.end()) one.trouble = found->second;
  return all;
}

}  // namespace holdfast::inspect
