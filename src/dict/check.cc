#include "dict/check.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <vector>

#include "dict/repair.h"
#include "dict/segment.h"
#include "dict/shard.h"
#include "platform/platform.h"
#include "sync/shmtx.h"
#include "world/world.h"

namespace holdfast {

namespace {

/// The number of tries if other processes change the shard. No benchmark covers this constant, because no benchmark
/// runs a check. check_test.cc runs checks while other processes change the shard.
constexpr int kLooks = 25;
constexpr std::uint64_t kPauseNs = 2'000'000;

/// The words of the header that the audit reads, or that change with these words. They do not include the mutex's cache
/// line, which contains counts of waits.
constexpr std::size_t kHeaderWords = sizeof(ShardHeader) / 8;
constexpr std::size_t kMutexWords = sizeof(ShmtxState) / 8;
/// Private memory with the alignment of a segment.
struct alignas(64) Line {
  std::array<char, 64> bytes;
};

using HeaderCopy = std::array<char, (kHeaderWords - kMutexWords) * 8>;

class ShardCheck {
 public:
  ShardCheck(Segment& segment, Shard& shard, std::vector<Line>& room) : segment_(segment), shard_(shard), room_(room) {}

  void run(holdfast_health& health) {
    ++health.used;
    std::uint64_t holder = mutex();  // 0 once the mutex was found free, or with another owner
    for (int look = 0; look < kLooks; ++look) {
      if (look != 0) platform::sleep_until(platform::monotonic_ns() + kPauseNs);
      const std::uint64_t before = mutex();
      if (owner_of(before) != owner_of(holder)) holder = 0;
      // A dead or stopped owner changes nothing, but it may have left a change incomplete, which is not damage.
      if (before != 0) continue;
      shard_.catch_up();
      const HeaderCopy header = copy_header();
      copy();
      const bool sound = audit_copy();
      std::atomic_thread_fence(kAcquire);
      const bool stable = mutex() == 0 && copy_header() == header;
      if (sound) return;
      if (!stable) continue;
      ++health.damaged;
      return;
    }
    ++health.uncertain;
    if (holder != 0) judge(owner_of(holder), health);
  }

 private:
  std::uint64_t mutex() const noexcept { return shard_.header().mutex.word.load(kAcquire); }
  static std::uint32_t owner_of(std::uint64_t word) noexcept { return static_cast<std::uint32_t>(word & kOwnerMask); }
  const Word64* words() const noexcept { return reinterpret_cast<const Word64*>(&shard_.header()); }

  HeaderCopy copy_header() const noexcept {
    HeaderCopy copied;
    platform::copy_from_shared(copied.data(), words() + kMutexWords, kHeaderWords - kMutexWords);
    return copied;
  }

  void copy() {
    const std::size_t bytes = segment_.geometry().arena_at + std::size_t{shard_.granules()} * kGranule;
    room_.resize((bytes + sizeof(Line) - 1) / sizeof(Line));
    platform::copy_from_shared(reinterpret_cast<char*>(room_.data()), words(), bytes / 8);
  }

  /// Audits the copy. The audit repairs some of the damage that it finds, but only in the copy.
  bool audit_copy() {
    auto* const base = reinterpret_cast<std::byte*>(room_.data());
    auto& state = reinterpret_cast<ShardHeader*>(base)->mutex;
    Geometry geometry = segment_.geometry();
    geometry.granules = shard_.granules();
    const Shard copied(base, geometry, Shmtx(state, MutexStrategy::futex, segment_.world(), nullptr, 0));
    return audit(copied, segment_.seed());
  }

  void judge(std::uint32_t owner, holdfast_health& health) {
    World& world = segment_.world();
    health.holder = world.token_of(owner);
    const bool is_dead = world.judge_owner(owner) == Liveness::dead;
    if (is_dead)
      ++health.held_by_dead;
    else if (count_inside(world, owner) == 0 && owner_of(mutex()) == owner)
      ++health.held_by_idle;
    else
      ++health.held;
  }

  Segment& segment_;
  Shard& shard_;
  std::vector<Line>& room_;
};

}  // namespace

Code check(Dictionary& dictionary, holdfast_health& health) {
  health = {};
  const EpochGuard inside;
  Segment* const segment = dictionary.segment(inside);
  if (segment == nullptr) return Code::removed;
  std::vector<Line> room;
  for (Shard& shard : segment->shards())
    if (shard.open_if_used()) ShardCheck(*segment, shard, room).run(health);
  return Code::ok;
}

}  // namespace holdfast
