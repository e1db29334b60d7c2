#include "world/name_file.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <utility>

#include "base/atomic.h"
#include "world/runtime_directory.h"
#include "world/world_file.h"

namespace holdfast {

namespace {

using platform::FileDescriptor;

constexpr std::string_view kPrefix = "names-";
constexpr std::uint64_t kFileBytes = kHeaderBytes;
static_assert(kRemovedNotesOffset + kRemovedNotes * sizeof(std::uint64_t) <= kFileBytes);
constexpr std::uint32_t kFileMode = 0600;

// Relaxed: it is all there is to know, and the kernel orders the locks.
Word64& made(const RuntimeDirectory& directory, std::size_t number) noexcept {
  return directory.made_name_files()[number % kNameFiles];
}

Status refuse_other(const RuntimeDirectory& directory, const std::string& name) {
  return {Code::mismatch, directory.path_of(name) +
                              " was deleted, moved or replaced while processes used this directory, so it cannot be "
                              "told which names are in use; stop those processes, or choose another HOLDFAST_DIR"};
}

}  // namespace

std::string name_file_name(std::size_t number) {
  char digits[4];
  std::snprintf(digits, sizeof digits, "%02u", static_cast<unsigned>(number % kNameFiles));
  return std::string(kPrefix) + digits;
}

bool is_name_file(std::string_view file) noexcept {
  const auto is_digit = [](char byte) { return byte >= '0' && byte <= '9'; };
  return file.starts_with(kPrefix) && file.size() == kPrefix.size() + 2 &&
         std::all_of(file.begin() + kPrefix.size(), file.end(), is_digit);
}

Expected<FileDescriptor> open_name_file(const RuntimeDirectory& directory, std::size_t number) {
  const std::string name = name_file_name(number);
  auto file = open_world_file(directory, name, FileKind::names);
  if (!file) {
    const bool is_missing = file.status().code == Code::not_found;
    return is_missing && made(directory, number).load(kRelaxed) != 0 ? refuse_other(directory, name) : file.status();
  }
  const FileHeader& header = file->header();
  if (header.world != directory.world() || header.inode != file->id.inode) return refuse_other(directory, name);
  made(directory, number).store(file->id.inode, kRelaxed);
  return std::move(file->fd);
}

Expected<FileDescriptor> open_or_make_name_file(const RuntimeDirectory& directory, std::size_t number) {
  auto opened = open_name_file(directory, number);
  if (opened || opened.status().code != Code::not_found) return opened;
  const NewFile file{
      .kind = FileKind::names, .size = kFileBytes, .persist = false, .mode = kFileMode, .world = directory.world()};
  auto created = create_world_file(directory, name_file_name(number), file, [](std::byte*) {});
  if (!created && created.status().code != Code::exists) return created.status();
  return open_name_file(directory, number);
}

void forget_name_files(const RuntimeDirectory& directory) noexcept {
  if (!directory.is_anchored()) return;
  for (std::size_t number = 0; number < kNameFiles; ++number) made(directory, number).store(0, kRelaxed);
}

}  // namespace holdfast
