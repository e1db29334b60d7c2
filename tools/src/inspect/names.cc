#include "inspect/names.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "inspect/descriptor.h"
#include "world/name_use.h"

namespace holdfast::inspect {

namespace {

constexpr std::uint64_t kEnd = std::uint64_t{1} << 63;
constexpr useconds_t kPauseUs = 10'000;
/// The maximum number of record locks to read per file.
constexpr std::size_t kMost = 100000;

/// Returns the locked bytes, unsorted. The kernel reports only one lock in a range, so each lock found splits the range
/// in two.
std::vector<std::uint64_t> locked_bytes(int file) {
  std::vector<std::uint64_t> bytes;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges{{kNameLocks, kEnd}};
  while (!ranges.empty() && bytes.size() < kMost) {
    const auto [begin, end] = ranges.back();
    ranges.pop_back();
    struct flock lock {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    lock.l_start = static_cast<off_t>(begin);
    lock.l_len = static_cast<off_t>(end - begin);
    if (begin >= end || ::fcntl(file, F_OFD_GETLK, &lock) != 0 || lock.l_type == F_UNLCK) continue;
    const auto byte = static_cast<std::uint64_t>(lock.l_start);
    if (byte < begin || byte >= end || lock.l_len != 1) continue;  // not one of holdfast's locks
    bytes.push_back(byte);
    ranges.emplace_back(begin, byte);
    ranges.emplace_back(byte + 1, end);
  }
  return bytes;
}

std::set<std::uint64_t> removed_in_order(int file) {
  std::array<std::uint64_t, kRemovedNotes> notes{};
  if (::pread(file, notes.data(), sizeof notes, kRemovedNotesOffset) != static_cast<ssize_t>(sizeof notes)) return {};
  return {notes.begin(), notes.end()};
}

bool is_as_made(const WorldFile& file, const std::string& world, std::uint64_t note) {
  const bool is_noted = !is_note_of_name_file(note) || note == note_of_name_file(file.inode);
  return file.trouble.empty() && file.is_regular && file.kind == WorldFile::Kind::names && file.has_our_layout() &&
         file.made_inode == file.inode && file.made_bytes == file.bytes && file.links == 1 &&
         (file.mode & ~file.made_mode) == 0 && file.world == world && is_noted;
}

const WorldFile* find(const std::vector<WorldFile>& files, const std::string& name) {
  const auto found = std::find_if(files.begin(), files.end(), [&](const WorldFile& one) { return one.name == name; });
  return found != files.end() ? &*found : nullptr;
}

}  // namespace

Names Names::read(const std::string& directory, const std::vector<WorldFile>& files) {
  Names first = read_once(directory, files);
  if (first.unsound_.empty() && first.lost_.empty()) return first;
  ::usleep(kPauseUs);
  const auto later = read_files(directory);
  if (!later) return first;
  Names names = read_once(directory, *later);
  std::erase_if(names.unsound_, [&](const auto& one) { return !first.unsound_.contains(one.first); });
  std::erase_if(names.lost_, [&](std::uint64_t byte) {
    return std::find(first.lost_.begin(), first.lost_.end(), byte) == first.lost_.end();
  });
  return names;
}

Names Names::read_once(const std::string& directory, const std::vector<WorldFile>& files) {
  Names names;
  const WorldFile* const table = find(files, kProcessTable);
  if (table == nullptr || !table->has_our_layout()) return names;
  std::set<std::uint64_t> named;
  for (const WorldFile& file : files)
    if (!file.dictionary.empty()) named.insert(name_byte(file.name, file.inode));
  const auto notes = read_name_file_notes(directory);
  for (std::size_t number = 0; number < notes.size(); ++number) {
    const std::string name = name_file_name(number);
    const WorldFile* const file = find(files, name);
    if (file == nullptr && !is_note_of_name_file(notes[number])) continue;
    if (file == nullptr || !is_as_made(*file, table->world, notes[number])) {
      names.unsound_[number] = file == nullptr;
      continue;
    }
    const Descriptor opened(
        ::open(fmt::format("{}/{}", directory, name).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (opened.get() < 0) continue;
    const std::vector<std::uint64_t> locked = locked_bytes(opened.get());
    const std::set<std::uint64_t> removed = removed_in_order(opened.get());  // noted before the name is freed
    for (const std::uint64_t byte : locked)
      if (!named.contains(byte) && !removed.contains(byte)) names.lost_.push_back(byte);
  }
  if (was_any_use_kept(directory))
    names.add_lost_uses(read_kept_uses(directory).value_or(std::vector<KeptUse>()), named);
  return names;
}

// A regular removal deletes the files that record uses before it frees the dictionary's name. If such a file remains,
// the name cannot be used, even if the notes say that the dictionary was removed.
void Names::add_lost_uses(const std::vector<KeptUse>& uses, const std::set<std::uint64_t>& named) {
  for (const KeptUse& use : uses)
    if (!named.contains(use.byte) && std::find(lost_.begin(), lost_.end(), use.byte) == lost_.end())
      lost_.push_back(use.byte);
}

bool Names::refuses(const WorldFile& file) const {
  const std::uint64_t own = name_byte(file.name, file.inode);
  const bool is_in_unsound = unsound_.contains((own >> kNameInodeBits) % kNameFiles);
  return is_in_unsound || std::any_of(lost_.begin(), lost_.end(), [&](std::uint64_t byte) {
           return byte >> kNameInodeBits == own >> kNameInodeBits;
         });
}

std::size_t count_refused(const std::string& directory, const std::vector<std::string>& troubled) {
  const auto files = read_files(directory);
  if (!files) return troubled.size();
  if (const auto without = dictionaries_without_table(directory); !without.empty()) return without.size();
  const Names names = Names::read(directory, *files);
  std::set<std::uint64_t> lost;  // without inodes, because two files with the same name count as one dictionary
  for (const std::uint64_t byte : names.lost()) lost.insert(byte >> kNameInodeBits);
  std::size_t count = troubled.size();
  for (const WorldFile& file : *files) {
    if (file.dictionary.empty()) continue;
    const std::uint64_t own = name_byte(file.name, file.inode) >> kNameInodeBits;
    const bool is_counted = std::find(troubled.begin(), troubled.end(), file.dictionary) != troubled.end();
    count += names.refuses(file) && !is_counted ? 1 : 0;
    lost.erase(own);
  }
  return count + lost.size();
}

}  // namespace holdfast::inspect
