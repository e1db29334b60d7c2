// The record lock behind the strategy `file` of a shmtx (the mutex in shared memory).
//
// Each acquisition opens the file again, so that threads also exclude each other: a record lock belongs to an open file
// description. A mapping, which a forked child does not inherit, pins the description, so that a host that closes all
// descriptors does not release the lock. The descriptor stays open for the explicit unlock, because the description may
// outlive both the mapping and the descriptor.
//
// A child of posix_spawn or vfork, for which no fork handler runs, has a copy of the descriptor until it calls exec. No
// other child gets a copy, because forks wait until the lock is released.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "platform/platform.h"
#include "world/runtime_directory.h"

namespace holdfast {

class RecordLock {
  struct Key {};  // only open() can construct a RecordLock

 public:
  RecordLock(Key, std::string path, platform::FileId id);
  /// Makes the record lock. `id` identifies the mapped file (platform::Mapping::file()). Fails with not_found if `name`
  /// now leads to another file, or to none.
  static Expected<std::unique_ptr<RecordLock>> open(const RuntimeDirectory& directory, const std::string& name,
                                                    platform::FileId id);
  ~RecordLock();
  RecordLock(const RecordLock&) = delete;
  RecordLock& operator=(const RecordLock&) = delete;

  enum class Attempt { acquired, held, unreachable };
  struct Held {
    void* pin = nullptr;
    int descriptor = -1;  // refers to the pinned description
  };
  /// Acquires the lock. On success, `held` describes the lock, and forks wait until it is released.
  Attempt try_acquire(std::uint64_t byte, Held& held) noexcept;
  void release(const Held& held, std::uint64_t byte) noexcept;
  /// Closes a child's copy of the lock's descriptor, after a signal handler of the holder has forked the child.
  void leave_to_parent(int descriptor) noexcept;

 private:
  platform::FileDescriptor fresh_description() noexcept;
  bool is_ours(int descriptor) const noexcept;

  const std::string path_;
  const platform::FileId id_;
  // New descriptions are opened through this descriptor, even after the file has lost its name. The host may close the
  // descriptor, so compare it with id_ before each use.
  std::atomic<int> source_{-1};
};

}  // namespace holdfast
