#include "inspect/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "base/name.h"
#include "inspect/descriptor.h"
#include "world/file_use.h"
#include "world/kept_file.h"
#include "world/name_use.h"
#include "world/world_file.h"

namespace holdfast::inspect {

namespace {

constexpr std::uint64_t kBlockBytes = 512;  // the unit of st_blocks
// docs/format.md explains these offsets. They have not changed since the first layout.
constexpr std::size_t kMutexOffset = 112;
constexpr off_t kNameFilesOffset = 256;  // since layout 6
constexpr off_t kKeptUsesOffset = 144;
constexpr std::size_t kShardsOffset = 116;
constexpr std::size_t kReadBytes = 120;

using Bytes = std::array<std::byte, kReadBytes>;

std::uint32_t word_at(const Bytes& bytes, std::size_t offset) {
  std::uint32_t word = 0;
  std::memcpy(&word, bytes.data() + offset, sizeof word);
  return word;
}

std::string mutex_in_words(std::uint32_t mutex) {
  constexpr std::array<const char*, 3> kNames{"futex", "spin", "file"};
  return mutex < kNames.size() ? kNames[mutex] : fmt::format("unknown ({})", mutex);
}

void take_header(WorldFile& file, const Bytes& bytes) {
  alignas(FileHeader) std::array<std::byte, sizeof(FileHeader)> copy{};
  std::memcpy(copy.data(), bytes.data(), copy.size());
  const auto& header = *reinterpret_cast<const FileHeader*>(copy.data());
  file.is_holdfast = header.magic == kMagic;
  if (!file.is_holdfast) return;
  file.layout = header.layout;
  if (header.kind == FileKind::processes) file.kind = WorldFile::Kind::processes;
  if (header.kind == FileKind::dictionary) file.kind = WorldFile::Kind::dictionary;
  if (header.kind == FileKind::names) file.kind = WorldFile::Kind::names;
  file.persist = header.persist;  // at the same offset in every layout
  if (!file.has_our_layout()) return;
  const std::uint32_t retired = header.retired.load(std::memory_order_relaxed);
  file.retired = retired != 0;
  file.retired_by_damage = (retired & kRetiredByDamage) != 0;
  file.made_mode = header.mode;
  file.made_bytes = header.size;
  file.made_inode = header.inode;
  file.world = fmt::format("{:016x}{:016x}", header.world.high, header.world.low);
  if (file.kind != WorldFile::Kind::dictionary) return;
  file.mutex = mutex_in_words(word_at(bytes, kMutexOffset));
  file.shards = word_at(bytes, kShardsOffset);
}

void take_status(WorldFile& file, const struct stat& status) {
  file.device = status.st_dev;
  file.inode = status.st_ino;
  file.bytes = static_cast<std::uint64_t>(status.st_size);
  file.bytes_taken = static_cast<std::uint64_t>(status.st_blocks) * kBlockBytes;
  file.mode = status.st_mode & 07777;
  file.owner = status.st_uid;
  file.group = status.st_gid;
  file.is_regular = S_ISREG(status.st_mode);
  file.is_directory = S_ISDIR(status.st_mode);
  file.links = static_cast<std::uint32_t>(status.st_nlink);
}

/// Returns the name of the file's dictionary, or an empty string if the file's name is not a dictionary's.
std::string dictionary_of(const std::string& file) {
  if (!file.ends_with(kDictionarySuffix)) return "";
  return decode_name(file.substr(0, file.size() - kDictionarySuffix.size())).value_or("");
}

/// Returns the directory's file names, sorted. Omits files that are not published yet, and files that record uses
/// across exec.
Expected<std::vector<std::string>> file_names(const std::string& directory) {
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::opendir(directory.c_str()), ::closedir);
  if (stream == nullptr)
    return Status{Code::system, fmt::format("cannot read {}: {}", directory, std::strerror(errno))};
  std::vector<std::string> names;
  while (const dirent* const entry = ::readdir(stream.get())) {
    const std::string name = entry->d_name;
    const bool is_of_no_content = name.starts_with(kTemporaryPrefix) || is_kept_file(name);
    if (name != "." && name != ".." && !is_of_no_content) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// Returns true if any process has locked this byte, or if this is unknown.
bool is_locked(int fd, std::uint64_t byte) noexcept {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(byte);
  lock.l_len = 1;
  return fd < 0 || ::fcntl(fd, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

}  // namespace

const char* life_in_words(const WorldFile& file) noexcept {
  if (file.persist == kTemporary) return "temporary";
  return file.persist == kKept ? "kept" : "persistent";
}

bool is_in_use(const std::string& directory, const WorldFile& file) {
  const Descriptor fd(::open((directory + "/" + file.name).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  // Check the lock first. A process that calls exec creates the file that records its use before exec ends the lock.
  return is_locked(fd.get(), kUseLock) || is_use_kept(directory, file);
}

std::optional<std::vector<KeptUse>> read_kept_uses(const std::string& directory, std::uint64_t byte) {
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::opendir(directory.c_str()), ::closedir);
  if (stream == nullptr) return std::nullopt;
  std::vector<KeptUse> uses;
  while (const dirent* const entry = ::readdir(stream.get())) {
    const std::uint64_t used = byte_of_use_file(entry->d_name);
    if (used == 0 || (byte != 0 && used != byte)) continue;
    const Descriptor fd(::openat(::dirfd(stream.get()), entry->d_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (fd.get() < 0 && (errno == ENOENT || errno == ELOOP)) continue;
    struct stat info {};
    if (is_locked(fd.get(), 0)) uses.push_back({used, ::fstat(fd.get(), &info) == 0 ? info.st_ino : 0});
  }
  return uses;
}

bool is_use_kept(const std::string& directory, const WorldFile& file) {
  const auto uses = read_kept_uses(directory, name_byte(file.name, file.inode));
  return !uses || !uses->empty();
}

bool was_any_use_kept(const std::string& directory) {
  const Descriptor fd(
      ::open((directory + "/" + kProcessTable).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  std::uint64_t word = 0;
  return ::pread(fd.get(), &word, sizeof word, kKeptUsesOffset) == sizeof word && word != 0;
}

std::uint32_t our_layout() noexcept { return kLayoutVersion; }

bool WorldFile::has_our_layout() const noexcept { return is_holdfast && layout == kLayoutVersion; }

WorldFile read_file(const std::string& directory, const std::string& name, Read what) {
  WorldFile file;
  file.name = name;
  file.dictionary = dictionary_of(name);
  const std::string path = directory + "/" + name;
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) {
    file.is_missing = errno == ENOENT;
    file.trouble = std::strerror(errno);
    return file;
  }
  take_status(file, status);
  if (!file.is_regular || what == Read::status) return file;
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (fd.get() < 0) {
    file.is_missing = errno == ENOENT;
    file.trouble = std::strerror(errno);
    return file;
  }
  Bytes bytes{};
  const ssize_t got = ::pread(fd.get(), bytes.data(), bytes.size(), 0);
  if (got < 0) file.trouble = std::strerror(errno);
  if (got == static_cast<ssize_t>(bytes.size())) take_header(file, bytes);
  return file;
}

WorldFile read_dictionary_file(const std::string& directory, const std::string& dictionary, Read what) {
  return read_file(directory, encode_name(dictionary) + std::string(kDictionarySuffix), what);
}

Expected<std::vector<WorldFile>> read_files(const std::string& directory) {
  auto names = file_names(directory);
  if (!names) return names.status();
  std::vector<WorldFile> files;
  for (const std::string& name : *names) {
    WorldFile file = read_file(directory, name);
    if (!file.is_missing) files.push_back(std::move(file));  // a missing file was removed in the meantime
  }
  return files;
}

Expected<std::vector<std::string>> named_dictionaries(const std::string& directory) {
  auto names = file_names(directory);
  if (!names) return names.status();
  std::vector<std::string> dictionaries;
  for (const std::string& name : *names)
    if (std::string dictionary = dictionary_of(name); !dictionary.empty())
      dictionaries.push_back(std::move(dictionary));
  std::sort(dictionaries.begin(), dictionaries.end());  // file names contain encoded names, which may sort differently
  return dictionaries;
}

std::array<std::uint64_t, kNameFiles> read_name_file_notes(const std::string& directory) {
  std::array<std::uint64_t, kNameFiles> notes{};
  const Descriptor fd(
      ::open((directory + "/" + kProcessTable).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (fd.get() < 0 || ::pread(fd.get(), notes.data(), sizeof notes, kNameFilesOffset) != sizeof notes) notes = {};
  return notes;
}

bool is_of_another_world(const std::string& directory, const std::string& dictionary) {
  const WorldFile file = read_dictionary_file(directory, dictionary);
  return file.has_our_layout() && file.world != read_file(directory, kProcessTable).world;
}

bool is_left_by_another_world(const std::string& directory, const std::string& dictionary) {
  const WorldFile file = read_dictionary_file(directory, dictionary);
  return file.persist == kTemporary && is_of_another_world(directory, dictionary) && !is_in_use(directory, file);
}

bool is_used_by_another_world(const std::string& directory, const WorldFile& file, const std::string& world) {
  return file.has_our_layout() && file.kind == WorldFile::Kind::dictionary && !file.retired && file.world != world &&
         is_in_use(directory, file);
}

std::vector<std::string> dictionaries_without_table(const std::string& directory) {
  std::vector<std::string> names;
  const auto files = read_files(directory);
  if (!files || !read_file(directory, kProcessTable, Read::status).is_missing) return names;
  for (const WorldFile& file : *files)
    if (!file.dictionary.empty() && is_used_by_another_world(directory, file, "")) names.push_back(file.dictionary);
  return names;
}

}  // namespace holdfast::inspect
