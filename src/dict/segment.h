// A dictionary's segment, mapped into this process. Segment creates or attaches it, and divides it into shards.
//
// After the removal of its dictionary, a segment stays valid until the last call of this process has left it
// (sync/epoch.h). Until then, it also stays shared with the other processes that still use it. So a call that began
// before the removal has the same effects as a call that ended before the removal. The values that it stores, the lists
// that it changes, and the locks that it releases belong to the removed dictionary. A grant is reported only if it was
// made before the removal: was_removed_before_commit().
#pragma once

#include <bit>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "dict/expiry.h"
#include "dict/geometry.h"
#include "dict/layout.h"
#include "dict/shard.h"
#include "dict/statistics.h"
#include "platform/platform.h"
#include "sync/epoch.h"
#include "sync/record_lock.h"
#include "sync/shmtx.h"
#include "world/file_use.h"

namespace holdfast {

class World;

struct DictionaryOptions {
  std::uint64_t size = 0;
  MutexStrategy mutex = MutexStrategy::futex;
  std::uint32_t persist = kTemporary;  // a Persist; behind a gate, kKept means kTemporary
  std::uint32_t mode = 0600;
  std::string gate;                    // name of the gate; empty: none
  bool any_size = false;               // the caller accepts an existing dictionary of any size
  std::uint64_t largest = 0;           // size, in bytes, of the largest value that the dictionary must accept; 0: any
  std::uint64_t declared_largest = 0;  // the same from a declaration, which counts only when the dictionary is made
  bool versions = false;               // the caller needs the versions of keys
};

/// Returns the size of the dictionary with this header, without its statistics and stripes. The result is meaningless
/// if the header is damaged.
inline std::uint64_t dictionary_size(const DictionaryHeader& header) noexcept {
  return header.file.size - kStatisticsBytes - stripe_bytes(header.shards, header.stripes);
}

/// Returns whether a dictionary of `size` is large enough for a caller that asks for `asked` bytes. `any_size` says
/// that no caller has asked for this size.
inline bool serves_size(std::uint64_t size, bool any_size, std::uint64_t asked) noexcept {
  return size == round_size(asked) || (any_size && size > round_size(asked));
}

class Segment final : public Retirable, public std::enable_shared_from_this<Segment> {
 public:
  /// Attaches to the segment `name` of the world (runtime directory). Returns not_found if there is none.
  static Expected<std::unique_ptr<Segment>> attach(World& world, const std::string& name);
  /// Returns the size of the existing segment, whether or not it may be used, or 0 if there is none.
  static Expected<std::uint64_t> present_size(World& world, const std::string& name);
  /// Attaches to the segment, or creates it if there is none. Returns mismatch if the segment has another size or
  /// mutex. A kept segment that is not in use is replaced instead. If no caller has asked for the segment's size, the
  /// segment serves all callers that ask for at most this size.
  static Expected<std::unique_ptr<Segment>> open(World& world, const std::string& name,
                                                 const DictionaryOptions& options);

  /// Returns the name of the dictionary's file in the runtime directory.
  static std::string file_name(const std::string& name);

  DictionaryHeader& header() const noexcept { return *reinterpret_cast<DictionaryHeader*>(mapping_.data()); }
  const Geometry& geometry() const noexcept { return traits_.geometry; }
  MutexStrategy strategy() const noexcept { return traits_.strategy; }
  std::uint64_t seed() const noexcept { return traits_.seed; }
  std::uint32_t flush_epoch() const noexcept { return header().flush_epoch.load(kAcquire) & kFlushMask; }
  /// Returns the gate, or null in a plain dictionary.
  const Gate* gate() const noexcept { return traits_.gate; }
  /// Returns the gate's name, which is empty in a plain dictionary.
  std::string gate_name() const { return std::string(holdfast::gate_name(header().gate)); }
  /// Returns whether the keys have versions (dict/versions.h).
  bool has_versions() const noexcept { return static_cast<bool>(shard_array_->stripes()); }
  /// Returns the version of the keys of a stripe. The base differs for each dictionary, so a version of a removed
  /// dictionary is very unlikely to occur in its successor. Acquire: everything that was changed before the version
  /// changed is visible.
  std::uint64_t version_of(const Stripe& stripe) const noexcept {
    const std::uint64_t flushes = header().flush_epoch.load(kAcquire);
    return (base_version() + 2 * flushes + stripe.version.load(kAcquire)) & kVersionMask;
  }
  std::uint64_t base_version() const noexcept { return traits_.seed >> 19 & ~std::uint64_t{1}; }
  /// Returns the first stripe. All stripes are contiguous. REQUIRES: has_versions().
  const Stripe* first_stripe() const noexcept { return shard_array_->stripes().begin(); }
  /// Returns the version, but first waits briefly for a change that is under way. If the process that makes the change
  /// has died, repairs the shard. The result is odd only if the process that makes the change is stopped or preempted.
  std::uint64_t settled_version_of(Shard& shard, const Stripe& stripe) const noexcept {
    const std::uint64_t version = version_of(stripe);
    return is_settled_version(version) ? version : settle(shard, stripe);
  }
  /// Returns a number, at least 1, that no other object of this process has or had.
  std::uint64_t number() const noexcept { return number_; }
  bool retired() const noexcept { return header().file.retired.load(kRelaxed) != 0; }
  /// Returns whether the segment may have been removed before the last commit of this thread took effect. If this
  /// returns false, the removal, and all fencing tokens of a later dictionary, come after the commit. REQUIRES: the
  /// commit was an atomic read-modify-write of shared memory, or the thread has made one since then.
  // On x86, the read-modify-write is a full barrier. The barrier orders the commit before the load, and pairs with the
  // sequentially consistent exchange of mark_retired() (world/world_file.cc).
  bool was_removed_before_commit() const noexcept {
    platform::barrier_behind_exchange();
    return retired();
  }

  Shard& shard_of(std::uint64_t hash) noexcept { return shard_array_[(hash >> 32) & (traits_.geometry.shards - 1)]; }
  std::uint32_t index_of(std::uint64_t hash) const noexcept { return (hash >> 32) & (traits_.geometry.shards - 1); }
  Shard& shard_at(std::uint32_t index) noexcept { return shard_array_[index]; }
  /// Returns the number of the stripe for keys with this hash. REQUIRES: there are stripes.
  std::uint32_t stripe_number(std::uint64_t hash) const noexcept {
    const std::uint32_t each = shard_array_->stripes().count();  // faster than geometry().stripes()
    return index_of(hash) * each + (static_cast<std::uint32_t>(hash) & (each - 1));
  }
  /// Returns the index of the shard that has the stripe with this number. REQUIRES: has_versions().
  std::uint32_t shard_of_stripe(std::uint32_t number) const noexcept {
    return number >> std::countr_zero(shard_array_->stripes().count());
  }
  /// Returns the stripe with this number. REQUIRES: the number is one of the segment's stripes, and its shard is open.
  Stripe& stripe_at(std::uint32_t number) noexcept {
    return shard_array_[0].stripes().begin()[number];  // the stripes of all shards are contiguous
  }
  std::vector<Shard>& shards() noexcept { return shards_; }

  Statistics& statistics() noexcept { return statistics_; }

  World& world() const noexcept { return world_; }

  /// Calls keep_dictionary_file() of world/file_use.h. May also return removed.
  Expected<platform::FileDescriptor> keep_use() const;

  /// Releases the name for the next dictionary. REQUIRES: the segment is retired.
  void release_name() noexcept { name_use_.reset(); }

  /// Checks that the dictionary matches these options, and returns mismatch if it does not. Otherwise extends the
  /// dictionary's lifetime if the options ask for a longer one.
  Status join(const std::string& name, const DictionaryOptions& options);

 private:
  [[gnu::cold]] std::uint64_t settle(Shard& shard, const Stripe& stripe) const noexcept;
  bool has_size(const DictionaryOptions& options) const noexcept;
  bool has_traits(const DictionaryOptions& options) const noexcept;
  void raise_life(std::uint32_t persist) noexcept;
  /// Returns whether an open with other options may replace the dictionary while nobody uses it. This is the case
  /// unless somebody has asked to keep the dictionary permanently.
  bool gives_way() const noexcept;
  struct MappedFile {
    platform::Mapping mapping;
    platform::Mapping name_use;  // world/name_use.h
  };
  /// The constant part of the header.
  struct Traits {
    Geometry geometry;
    MutexStrategy strategy;
    std::uint64_t seed;
    const Gate* gate;
    bool versions;
  };
  Segment(World& world, std::string name, MappedFile file, const Traits& traits,
          std::unique_ptr<RecordLock> record_lock);
  static Expected<std::unique_ptr<Segment>> make(World& world, const std::string& name, MappedFile file,
                                                 const Traits& traits);
  Status adopt(const OpenedFile& file);
  static Expected<std::unique_ptr<Segment>> create(World& world, const std::string& name,
                                                   const DictionaryOptions& options);

  World& world_;
  const std::string name_;
  platform::Mapping mapping_;
  platform::Mapping name_use_;  // in use until release_name()
  Traits traits_;
  std::unique_ptr<RecordLock> record_lock_;  // for MutexStrategy::file
  std::vector<Shard> shards_;
  Shard* shard_array_;  // in shards_; finds the shard of a hash without a division
  Statistics statistics_;
  const std::uint64_t number_;
};

const char* strategy_name(MutexStrategy strategy) noexcept;

}  // namespace holdfast
