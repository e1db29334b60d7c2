// The record lock behind the `file` strategy of a shmtx, and how a process reaches the segment's file for it.
//
// Each acquisition opens the file anew: a record lock belongs to an open file description, so threads of one process
// exclude each other too. A mapping pins the description, and its descriptor is closed at once: a host that closes all
// descriptors drops no lock, and a forked child holds none.
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
  struct Key {};  // makes the constructor open()'s alone

 public:
  RecordLock(Key, std::string path, platform::FileId id);
  /// `id`: the file that is mapped (platform::Mapping::file()). Refuses if `name` leads to another file by now.
  static Expected<std::unique_ptr<RecordLock>> open(const RuntimeDirectory& directory, const std::string& name,
                                                    platform::FileId id);
  ~RecordLock();
  RecordLock(const RecordLock&) = delete;
  RecordLock& operator=(const RecordLock&) = delete;

  enum class Attempt { acquired, held, unreachable };
  /// On success `pin` is the lock: unmapping it unlocks.
  Attempt try_acquire(std::uint64_t byte, platform::Mapping& pin) noexcept;

 private:
  platform::FileDescriptor fresh_description() noexcept;

  const std::string path_;
  const platform::FileId id_;
  // The descriptor that fresh descriptions come from, also after the file lost its name. The host may close it, so
  // compare it with id_ before each use.
  std::atomic<int> source_{-1};
};

}  // namespace holdfast
