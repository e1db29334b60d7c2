#include "sync/record_lock.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace holdfast {

using platform::FileDescriptor;
using platform::FileId;
using platform::is_file;

namespace {

FileDescriptor open_by_name(const std::string& path) noexcept {
  return FileDescriptor(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
}

}  // namespace

RecordLock::RecordLock(Key, std::string path, FileId id) : path_(std::move(path)), id_(id) {}

RecordLock::~RecordLock() { platform::close_if_file(source_.load(std::memory_order_relaxed), id_); }

Expected<std::unique_ptr<RecordLock>> RecordLock::open(const RuntimeDirectory& directory, const std::string& name,
                                                       FileId id) {
  auto lock = std::make_unique<RecordLock>(Key{}, directory.path_of(name), id);
  FileDescriptor fd = open_by_name(lock->path_);
  if (!fd)
    return Status{errno == ENOENT ? Code::not_found : Code::system,
                  "cannot open " + lock->path_ + ": " + platform::error_text(errno)};
  if (!is_file(fd.get(), id)) return Status{Code::not_found, lock->path_ + " was replaced by another file"};
  lock->source_.store(fd.release(), std::memory_order_relaxed);
  return Expected<std::unique_ptr<RecordLock>>(std::move(lock));
}

FileDescriptor RecordLock::fresh_description() noexcept {
  FileDescriptor fd;
  if (const int source = source_.load(std::memory_order_relaxed); is_file(source, id_)) {
    fd = platform::reopen(source, O_RDWR);
    if (fd && is_file(fd.get(), id_)) return fd;
  }
  // The host has closed the source, or /proc is missing. Open the file by name, which works until the file is retired,
  // and keep a descriptor as the next source.
  fd = open_by_name(path_);
  if (!fd || !is_file(fd.get(), id_)) return FileDescriptor();
  int old = source_.load(std::memory_order_relaxed);
  if (!is_file(old, id_)) {
    FileDescriptor source = open_by_name(path_);
    if (source && is_file(source.get(), id_) &&
        source_.compare_exchange_strong(old, source.get(), std::memory_order_relaxed)) {
      source.release();
    }
  }
  return fd;
}

RecordLock::Attempt RecordLock::try_acquire(std::uint64_t byte, Held& held) noexcept {
  const platform::ForkGuard no_fork;
  FileDescriptor fd = fresh_description();
  if (!fd) return Attempt::unreachable;
  const int error = platform::try_record_lock(fd.get(), byte);
  if (error != 0) return error == EAGAIN ? Attempt::held : Attempt::unreachable;
  platform::Mapping pin = platform::pin_description(fd.get(), platform::AtFork::drop);
  if (!pin) {
    static_cast<void>(platform::record_unlock(fd.get(), byte));
    return Attempt::unreachable;
  }
  platform::ForkGuard::hold();
  held = {pin.release(), fd.release()};
  return Attempt::acquired;
}

// Returns whether the descriptor still leads to the file. If the kernel does not say, assume that it does, because a
// descriptor that stays open would keep the lock.
bool RecordLock::is_ours(int descriptor) const noexcept {
  FileId found;
  const int error = platform::file_id(descriptor, found);
  return error == 0 ? found == id_ : error != EBADF;
}

// Releases the lock. If the host has closed the descriptor, unmapping the pin releases the lock. If the number now
// belongs to another description of this file, unlocking the byte there has no effect, because the lock belongs to the
// pinned description.
void RecordLock::release(const Held& held, std::uint64_t byte) noexcept {
  if (is_ours(held.descriptor)) {
    static_cast<void>(platform::record_unlock(held.descriptor, byte));
    ::close(held.descriptor);
  }
  platform::unpin(held.pin);
  platform::ForkGuard::let_go();
}

// Closes the child's descriptor. The child has not inherited the pin.
void RecordLock::leave_to_parent(int descriptor) noexcept {
  if (is_ours(descriptor)) ::close(descriptor);
  platform::ForkGuard::let_go();
}

}  // namespace holdfast
