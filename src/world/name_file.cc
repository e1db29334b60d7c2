#include "world/name_file.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/atomic.h"
#include "world/runtime_directory.h"
#include "world/world_file.h"

namespace holdfast {

namespace {

using platform::FileDescriptor;

constexpr std::uint64_t kFileBytes = kHeaderBytes;
static_assert(kRemovedNotesOffset + kRemovedNotes * sizeof(std::uint64_t) <= kFileBytes);
constexpr std::uint32_t kFileMode = 0600;

/// The offset of the file's number, after the FileHeader.
constexpr std::size_t kNumberOffset = 128;

// Returns the table's record of the file. Relaxed is enough, here and below, because the kernel orders the locks, and
// nothing else depends on this word.
Word64& made(const RuntimeDirectory& directory, std::size_t number) noexcept {
  return directory.made_name_files()[number % kNameFiles];
}

/// Returns the number in the name of a file. REQUIRES: name_file_name() made the name.
std::size_t number_in(std::string_view name) noexcept {
  const auto digit = [&](std::size_t at) { return static_cast<std::size_t>(name[kNameFilePrefix.size() + at] - '0'); };
  return digit(0) * 10 + digit(1);
}

bool is_sound(const RuntimeDirectory& directory, const OpenedFile& file, std::size_t number) noexcept {
  std::uint64_t own = 0;
  std::memcpy(&own, file.page->data() + kNumberOffset, sizeof own);
  return file.header().world == directory.world() && file.header().inode == file.id.inode && own == number;
}

Status refuse_other(const RuntimeDirectory& directory, const std::string& name) {
  return {Code::mismatch,
          directory.path_of(name) +
              " was deleted, moved or replaced, but processes still use this directory, so the names in use "
              "are unknown; stop those processes, or choose another HOLDFAST_DIR"};
}

}  // namespace

bool is_name_file(std::string_view file) noexcept {
  const auto is_digit = [](char byte) { return byte >= '0' && byte <= '9'; };
  return file.starts_with(kNameFilePrefix) && file.size() == kNameFilePrefix.size() + 2 &&
         std::all_of(file.begin() + kNameFilePrefix.size(), file.end(), is_digit) && number_in(file) < kNameFiles;
}

bool is_sound_name_file(const RuntimeDirectory& directory, const std::string& name) {
  if (!directory.is_anchored()) return false;
  auto file = look_at_world_file(directory, name, FileKind::names);
  return file && is_sound(directory, *file, number_in(name));
}

Expected<FileDescriptor> open_name_file(const RuntimeDirectory& directory, std::size_t number) {
  number %= kNameFiles;
  const std::string name = name_file_name(number);
  std::uint64_t known = made(directory, number).load(kRelaxed);
  // Never retire the file here, because the caller may hold the directory's lock.
  auto file = look_at_world_file(directory, name, FileKind::names);
  if (!file) {
    const bool was_deleted = file.status().code == Code::not_found && is_note_of_name_file(known);
    return was_deleted ? refuse_other(directory, name) : file.status();
  }
  if (!is_sound(directory, *file, number)) return refuse_other(directory, name);
  // Repair the word if it was overwritten.
  const std::uint64_t own = note_of_name_file(file->id.inode);
  while (known != own) {
    if (is_note_of_name_file(known)) return refuse_other(directory, name);
    if (made(directory, number).compare_exchange_weak(known, own, kRelaxed, kRelaxed)) break;
  }
  return std::move(file->fd);
}

Expected<FileDescriptor> open_or_make_name_file(const RuntimeDirectory& directory, std::size_t number) {
  auto opened = open_name_file(directory, number);
  if (opened || opened.status().code != Code::not_found) return opened;
  number %= kNameFiles;
  const NewFile file{.kind = FileKind::names,
                     .size = kFileBytes,
                     .persist = kTemporary,
                     .mode = kFileMode,
                     .world = directory.world()};
  auto created = create_world_file(directory, name_file_name(number), file, [number](std::byte* base) {
    const std::uint64_t own = number;
    std::memcpy(base + kNumberOffset, &own, sizeof own);
  });
  if (!created && created.status().code != Code::exists) return created.status();
  return open_name_file(directory, number);
}

void forget_name_files(const RuntimeDirectory& directory) noexcept {
  if (!directory.is_anchored()) return;
  for (std::size_t number = 0; number < kNameFiles; ++number) made(directory, number).store(0, kRelaxed);
}

}  // namespace holdfast
