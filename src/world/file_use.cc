#include "world/file_use.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/atomic.h"
#include "base/failpoint.h"
#include "base/name.h"
#include "platform/platform.h"
#include "world/backoff.h"
#include "world/boot.h"
#include "world/kept_file.h"
#include "world/name_file.h"
#include "world/name_use.h"
#include "world/runtime_directory.h"

namespace holdfast {

namespace {

using platform::Mapping;

constexpr std::uint64_t kTimeoutNs = 5 * kNsPerSecond;
/// This timeout is shorter, because forks in other threads wait in the meantime.
constexpr std::uint64_t kTimeoutUnderGuardNs = kNsPerSecond;
/// The number of checks before concluding that the file is in use. It is larger than 1, because a process that is about
/// to be refused also holds the lock for a moment.
constexpr int kLooks = 5;

bool is_of(const OpenedFile& file, const WorldId& world) noexcept {
  return file.header().world == world && file.header().inode == file.id.inode;
}

// Returns whether the file's times are meaningful here. The boot id does not matter, because no file in memory survives
// a boot, and containers have different ids. But times of another time namespace have a different meaning.
bool has_our_clock(const FileHeader& header) noexcept {
  return is_same_time_namespace(header.time_namespace, this_boot().time_namespace);
}

// Reads the file again, because it may have lost its name, or become a file of another world, after it was opened and
// before the lock was taken.
bool read_again(OpenedFile& file) noexcept {
  struct stat info;
  if (::fstat(file.fd.get(), &info) != 0 || info.st_nlink == 0) return false;
  if (::pread(file.fd.get(), file.page->data(), file.page->size(), 0) != static_cast<ssize_t>(file.page->size()))
    return false;
  return file.header().retired.load(std::memory_order_relaxed) == 0;
}

Status refuse_other_world(const std::string& path) {
  return {Code::mismatch,
          path +
              " is used by processes that the file \"processes\" does not list: one of the two files was removed or "
              "replaced; stop those processes, or choose another HOLDFAST_DIR"};
}

Status refuse_other_clock(const std::string& path) {
  return {Code::mismatch,
          path + " was created in another time namespace, whose clock differs; open it there, or remove it"};
}

enum class Taken { shared, alone, none, failed };

// Tries to take the lock. On failure, `errno` contains the reason.
Taken try_take(int fd, bool ours) noexcept {
  int error = ours ? platform::try_shared_record_lock(fd, kUseLock) : platform::try_record_lock(fd, kUseLock);
  if (error == 0) return ours ? Taken::shared : Taken::alone;
  // Users share the lock. A process that adopts or retires the file holds it exclusively for a moment.
  if (error == EAGAIN && !ours && platform::try_shared_record_lock(fd, kUseLock) == 0) return Taken::shared;
  if (error == EAGAIN) return Taken::none;
  errno = error;
  return Taken::failed;
}

}  // namespace

std::optional<std::string> dictionary_of_file(std::string_view file) {
  if (!file.ends_with(kDictionarySuffix)) return std::nullopt;
  return decode_name(file.substr(0, file.size() - kDictionarySuffix.size()));
}

Expected<UsedFile> use_dictionary_file(const RuntimeDirectory& directory, const std::string& name,
                                       const WorldId& world) {
  const std::string path = directory.path_of(name);
  const std::uint64_t deadline = platform::monotonic_ns() + kTimeoutNs;
  int users_seen = 0;
  int others_seen = 0;
  for (Backoff backoff;;) {
    auto file = open_world_file(directory, name, FileKind::dictionary);
    if (!file) return file.status();
    const bool ours = is_of(*file, world);
    const std::uint32_t life = file->header().persist;
    HOLDFAST_FAILPOINT("use.judged");
    std::unique_ptr<platform::ForkGuard> no_fork;
    if (!ours) no_fork = std::make_unique<platform::ForkGuard>();
    Taken taken = try_take(file->fd.get(), ours);
    if (taken == Taken::alone && is_use_kept(directory, name_byte(name, file->id.inode))) taken = Taken::shared;
    if (taken == Taken::failed) return Status{Code::system, "cannot lock " + path + ": " + platform::error_text(errno)};
    // A kept file is replaced if its times are meaningless here.
    const bool means_nothing = life == kKept && !has_our_clock(file->header());
    const bool outlives = life != kTemporary && !means_nothing;
    const bool serves = ours || (taken == Taken::alone && outlives);
    if (!ours && serves && !has_our_clock(file->header())) return refuse_other_clock(path);
    Mapping use;
    if (taken != Taken::none && serves) {
      auto held = hold_name(directory, name, file->id.inode);
      if (!held) return held.status();
      use = std::move(*held);
    }
    // A user that has ended in the meantime may have asked for a longer lifetime. Check this before retiring the file.
    if (taken != Taken::none && read_again(*file) && is_of(*file, world) == ours &&
        (serves || file->header().persist == life) && is_current_file(directory, name, file->id)) {
      const bool named = use || !directory.is_anchored();
      if (serves && named) return UsedFile{std::move(*file), std::move(no_fork), std::move(use)};
      if (serves && ++others_seen >= kLooks) return refuse_replaced(directory, name);
      if (!ours && taken == Taken::shared && ++users_seen >= kLooks) return refuse_other_world(path);
      if (!serves && taken == Taken::alone) {
        no_fork.reset();
        Status retired = retire_opened_file(directory, name, *file);
        return retired.ok() ? Status{Code::not_found, "there is no " + path} : retired;
      }
    }
    file->fd.reset();
    no_fork.reset();
    const std::uint64_t now = platform::monotonic_ns();
    if (now >= deadline)
      return Status{Code::busy, path + " has been locked by another process for 5 s; is that process stopped?"};
    platform::sleep_until(std::min(now + backoff.next_ns(), deadline));
  }
}

Status retire_unused_file(const RuntimeDirectory& directory, const std::string& name, const platform::FileId& id) {
  Backoff backoff;
  for (int look = 1;; ++look) {
    {
      const platform::ForkGuard no_fork;  // a child would share the lock
      auto file = open_world_file(directory, name, FileKind::dictionary);
      if (!file) return file.status().code == Code::not_found ? Status{} : file.status();
      if (file->id != id) return {};
      HOLDFAST_FAILPOINT("unused.found");
      // Hold the lock until the name is removed. A process that opens the name in the meantime waits, and then finds
      // another file or none.
      const int error = platform::try_record_lock(file->fd.get(), kUseLock);
      HOLDFAST_FAILPOINT("unused.judged");
      if (error == 0 && !is_use_kept(directory, name_byte(name, id.inode))) {
        // A user that has ended in the meantime may have asked to keep the file permanently.
        const bool is_as_judged =
            read_again(*file) && file->header().persist != kPersistent && is_current_file(directory, name, file->id);
        return is_as_judged ? retire_opened_file(directory, name, *file, kTimeoutUnderGuardNs) : Status{};
      }
      if (error != 0 && error != EAGAIN)
        return {Code::system, "cannot lock " + directory.path_of(name) + ": " + platform::error_text(error)};
    }
    if (look >= kLooks) return {Code::exists, directory.path_of(name) + " is in use"};
    platform::sleep_until(platform::monotonic_ns() + backoff.next_ns());
  }
}

Expected<UsedFile> look_at_dictionary_file(const RuntimeDirectory& directory, const std::string& name,
                                           const WorldId& world) {
  auto file = look_at_world_file(directory, name, FileKind::dictionary);
  if (!file) return file.status();
  if (is_of(*file, world)) return UsedFile{std::move(*file), nullptr, {}};
  return Status{Code::mismatch,
                directory.path_of(name) +
                    " does not belong to the file \"processes\" beside it: one of the two was replaced or copied"};
}

Status finish_adoption(const OpenedFile& file, const WorldId& world) {
  FileHeader header{};
  header.boot = this_boot().id;
  header.time_namespace = this_boot().time_namespace;
  header.inode = file.id.inode;
  header.world = world;
  // Do not use a system call, because a process over its file size limit would get SIGXFSZ.
  const Mapping page = platform::map_shared(file.fd.get(), kHeaderBytes, loss_mark(FileKind::dictionary));
  if (!page) return {Code::system, "cannot write the header of a dictionary: " + platform::error_text(errno)};
  const auto write = [&](std::size_t at, std::size_t size) {
    std::memcpy(page.data() + at, reinterpret_cast<const std::byte*>(&header) + at, size);
    crash_order();
  };
  write(offsetof(FileHeader, boot), sizeof header.boot);
  write(offsetof(FileHeader, time_namespace), sizeof header.time_namespace);
  write(offsetof(FileHeader, inode), sizeof header.inode);
  write(offsetof(FileHeader, world), sizeof header.world);  // until then, the file belongs to another world
  const int error = platform::try_shared_record_lock(file.fd.get(), kUseLock);  // replaces the exclusive lock
  if (error != 0) return {Code::system, "cannot lock a dictionary: " + platform::error_text(error)};
  return {};
}

Expected<platform::FileDescriptor> keep_dictionary_file(const RuntimeDirectory& directory, const std::string& name,
                                                        const WorldId& world, std::uint64_t inode) {
  auto file = open_world_file(directory, name, FileKind::dictionary);
  if (!file && file.status().code == Code::not_found) return refuse_replaced(directory, name);
  if (!file) return file.status();
  if (file->id.inode != inode || !is_of(*file, world)) return refuse_replaced(directory, name);
  return keep_name(directory, name, inode);
}

Status retire_unpersistent_files(const RuntimeDirectory& directory, const WorldId& world) {
  auto directory_fd = directory.open();
  if (!directory_fd) return directory_fd.status();
  const int fd = directory_fd->get();
  // Do this first. If it were done later and this process were killed before, files that are recorded but missing would
  // be refused.
  forget_name_files(directory);
  std::vector<std::string> dictionaries;
  bool has_kept_files = false;
  const int error = platform::list_directory(fd, [&](const std::string& name) {
    const bool is_foreign = is_name_file(name) && !is_sound_name_file(directory, name);
    if (name.starts_with(kTemporaryPrefix) || is_foreign) ::unlinkat(fd, name.c_str(), 0);
    if (dictionary_of_file(name)) dictionaries.push_back(name);
    if (is_kept_file(name) && !remove_leftover(fd, name.c_str())) has_kept_files = true;
    return true;
  });
  if (error != 0) return {Code::system, "cannot read " + directory.path() + ": " + platform::error_text(error)};
  if (!has_kept_files && directory.is_anchored()) directory.kept_uses().store(0, kRelaxed);  // none is made now
  for (const std::string& name : dictionaries) {
    auto file = open_world_file(directory, name, FileKind::dictionary);
    // A file that cannot be opened now keeps its name and world. A process that can open the file later keeps its data.
    // By then, the holders in it are dead, so no lock has two holders.
    if (!file || file->header().persist != kTemporary) continue;
    HOLDFAST_FAILPOINT("leftover.judged");
    // No process is present, so the only users of this world's files are processes that are exiting, perhaps the caller
    // itself. After the header was read, a user from another world may have asked for a longer lifetime and ended.
    if (!is_of(*file, world)) {
      if (platform::try_record_lock(file->fd.get(), kUseLock) != 0 || !read_again(*file)) continue;
      if (file->header().persist != kTemporary) continue;
    }
    if (has_kept_files && is_use_kept(directory, name_byte(name, file->id.inode))) continue;
    // A file that cannot be removed is left to the next process that finds no other process present. Do not wait for a
    // stopped process here, because others wait for the table's lock, which the caller holds.
    if (retire_opened_file(directory, name, *file, 0).code == Code::busy) break;
  }
  return {};
}

}  // namespace holdfast
