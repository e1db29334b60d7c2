// How a process reaches a segment's file for the `file` strategy of a shmtx.
//
// Each acquisition opens the file anew: a record lock belongs to an open file description, so threads of one process
// exclude each other too. The description is pinned by a mapping and its descriptor closed at once: a host that closes
// all descriptors drops no lock, and a forked child holds none.
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
  struct Key {};  // only open() makes one

 public:
  RecordLock(Key, std::string path, platform::FileId id);
  /// `id`: the file that is mapped (platform::Mapping::file()); refused when `name` leads to another one by now.
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
  // Where fresh descriptions come from, also after the file lost its name. The host may close it behind our back, so it
  // is compared with id_ before each use.
  std::atomic<int> source_{-1};
};

}  // namespace holdfast
