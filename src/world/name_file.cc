#include "world/name_file.h"

#include <cstdio>
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

Status refuse_other(const RuntimeDirectory& directory, const std::string& name) {
  return {Code::mismatch, directory.path_of(name) +
                              " was deleted, moved or replaced while processes used this directory, so it cannot be "
                              "told which names are in use; stop those processes, or choose another HOLDFAST_DIR"};
}

// One that another world left serves as well: locks on it can only refuse too much.
Status make(const RuntimeDirectory& directory, const std::string& name) {
  const NewFile file{.kind = FileKind::names, .size = kFileBytes, .persist = false, .mode = kFileMode};
  auto made = create_world_file(directory, name, file, [](std::byte*) {});
  return made || made.status().code == Code::exists ? Status{} : made.status();
}

}  // namespace

std::string name_file_name(std::size_t number) {
  char digits[4];
  std::snprintf(digits, sizeof digits, "%02u", static_cast<unsigned>(number % kNameFiles));
  return std::string(kNameFilePrefix) + digits;
}

Expected<FileDescriptor> open_name_file(const RuntimeDirectory& directory, std::size_t number) {
  const std::string name = name_file_name(number);
  Word64& known = directory.anchor_words()[number % kNameFiles];
  auto file = open_world_file(directory, name, FileKind::names);
  if (!file && file.status().code == Code::not_found) {
    // Relaxed, here and below: the inode is all there is to know, and the kernel orders the locks.
    if (known.load(kRelaxed) != 0) return refuse_other(directory, name);
    if (Status made = make(directory, name); !made.ok()) return made;
    file = open_world_file(directory, name, FileKind::names);
  }
  if (!file) return file.status();
  std::uint64_t inode = 0;
  if (!known.compare_exchange_strong(inode, file->id.inode, kRelaxed, kRelaxed) && inode != file->id.inode)
    return refuse_other(directory, name);
  return std::move(file->fd);
}

void forget_name_files(const RuntimeDirectory& directory) noexcept {
  if (!directory.is_anchored()) return;
  for (std::size_t number = 0; number < kNameFiles; ++number) directory.anchor_words()[number].store(0, kRelaxed);
}

}  // namespace holdfast
