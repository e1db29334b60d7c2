// A dictionary's segment, mapped into this process: born, attached, divided into shards.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "dict/expiry.h"
#include "dict/geometry.h"
#include "dict/layout.h"
#include "dict/shard.h"
#include "platform/platform.h"
#include "sync/record_lock.h"
#include "sync/shmtx.h"

namespace holdfast {

class World;

struct DictionaryOptions {
  std::uint64_t size = 0;
  MutexStrategy mutex = MutexStrategy::futex;
  bool persist = false;
  std::uint32_t mode = 0600;
};

class Segment {
 public:
  /// The segment `name` of the world; not_found if there is none.
  static Expected<std::unique_ptr<Segment>> attach(World& world, const std::string& name);
  /// Creates it, or attaches to the one that is there if its size and mutex are these (else mismatch).
  static Expected<std::unique_ptr<Segment>> open(World& world, const std::string& name,
                                                 const DictionaryOptions& options);

  /// File of the dictionary in the runtime directory.
  static std::string file_name(const std::string& name);

  DictionaryHeader& header() const noexcept { return *reinterpret_cast<DictionaryHeader*>(mapping_.data()); }
  const Geometry& geometry() const noexcept { return geometry_; }
  MutexStrategy strategy() const noexcept { return strategy_; }
  std::uint64_t seed() const noexcept { return seed_; }
  std::uint32_t flush_epoch() const noexcept { return header().flush_epoch.load(kAcquire) & kFlushMask; }
  bool retired() const noexcept { return header().file.retired.load(kRelaxed) != 0; }

  Shard& shard_of(std::uint64_t hash) noexcept { return shard_array_[(hash >> 32) & (geometry_.shards - 1)]; }
  std::vector<Shard>& shards() noexcept { return shards_; }

  World& world() const noexcept { return world_; }

  /// Gives the memory of a retired segment back, whoever still looks at it: from now on it is all zero, and retired.
  void abandon() noexcept;

  Status check_same(const std::string& name, const DictionaryOptions& options) const;

 private:
  struct MappedFile {
    platform::Mapping mapping;
    platform::Mapping name_use;  // world/name_use.h
  };
  Segment(World& world, MappedFile file, const Geometry& geometry, MutexStrategy strategy, std::uint64_t seed,
          std::unique_ptr<RecordLock> record_lock);
  static Expected<std::unique_ptr<Segment>> make(World& world, const std::string& name, MappedFile file,
                                                 const Geometry& geometry, MutexStrategy strategy, std::uint64_t seed);
  Status adopt(const OpenedFile& file);
  static Expected<std::unique_ptr<Segment>> create(World& world, const std::string& name,
                                                   const DictionaryOptions& options);

  World& world_;
  platform::Mapping mapping_;
  platform::Mapping name_use_;  // until it is abandoned
  bool abandoned_ = false;
  Geometry geometry_;
  MutexStrategy strategy_;
  std::uint64_t seed_;
  std::unique_ptr<RecordLock> record_lock_;  // for MutexStrategy::file
  std::vector<Shard> shards_;
  Shard* shard_array_;  // of shards_: the way from a hash to its shard needs no division
};

const char* strategy_name(MutexStrategy strategy) noexcept;

}  // namespace holdfast
