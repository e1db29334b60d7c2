#include "dict/names.h"

#include <dirent.h>
#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "base/name.h"
#include "platform/platform.h"
#include "world/world.h"
#include "world/world_file.h"

namespace holdfast {

namespace {

struct Close {
  void operator()(DIR* directory) const noexcept { ::closedir(directory); }
};

Status unreadable(const std::string& path) {
  return {Code::system, "cannot read " + path + ": " + platform::error_text(errno)};
}

/// Whether it can be opened, or tells why not. A temporary one of another world is nobody's if no process uses it.
bool is_dictionary(const World& world, const std::string& file) {
  auto opened = World::observes() ? look_at_world_file(world.directory(), file, FileKind::dictionary)
                                  : open_world_file(world.directory(), file, FileKind::dictionary);
  if (!opened) return opened.status().code != Code::not_found;
  const bool is_for_us = opened->header().world == world.id() || opened->header().persist != kTemporary;
  return is_for_us || platform::has_record_locks(opened->fd.get());
}

}  // namespace

std::optional<std::string> dictionary_of_file(std::string_view file) {
  if (!file.ends_with(kDictionarySuffix)) return std::nullopt;
  file.remove_suffix(kDictionarySuffix.size());
  return decode_name(file);
}

Expected<std::vector<std::string>> dictionary_names(World& world) {
  const std::string& path = world.directory().path();
  platform::FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const std::unique_ptr<DIR, Close> directory(fd ? ::fdopendir(fd.get()) : nullptr);
  if (directory == nullptr) return unreadable(path);
  fd.release();  // the stream owns it now
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* const entry = ::readdir(directory.get())) {
    const std::string file = entry->d_name;
    if (auto name = dictionary_of_file(file); name && is_dictionary(world, file)) names.push_back(std::move(*name));
    errno = 0;
  }
  if (errno != 0) return unreadable(path);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace holdfast
