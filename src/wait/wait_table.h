// The table of the waits of all processes in a world (one runtime directory), which the search for deadlocks
// (wait/deadlock.h) reads.
//
// A record describes one wait of one task (wait/task_id.h): when it began, its key, the task last seen holding that
// key, and the time at which it was seen. Only the waiting process writes its records, one thread at a time. All
// processes may read them at any time, and must not trust what they read. The table follows the slots in the file
// `processes`.
//
// A record is found by its owner's token and task, in one of the kProbe records that begin at number mix(token ^
// mix(task)) % kWaitRecords. mix(x) applies x = (x ^ x >> 32) * 0xD6E8FEB86659FD93 twice, then returns x ^ x >> 32. A
// record of a dead process counts as free. If no record is free, the wait is not recorded, and other processes do not
// see it.
//
//   owner   0 to token     by compare-and-swap: the record is taken; also from the token of a dead process
//           token to 0     the wait is over
//   stamp   odd            the other words are being written; a reader tries again later
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

#include "base/atomic.h"
#include "base/token.h"

namespace holdfast {

inline constexpr std::uint32_t kWaitRecords = 2048;
/// The number of bytes of a key that a record stores.
inline constexpr std::size_t kWaitKeyBytes = 56;

struct alignas(128) WaitRecord {
  Word64 owner;  // token of the process that may write the other words; 0: free
  Word32 stamp;

  // The words below belong to one wait if the stamp is even, and has the same value before and after they are read.
  Word32 task;
  Word64 token;            // the owner that wrote these words
  Word64 since;            // when the wait began (ns of CLOCK_MONOTONIC)
  Word64 seen;             // when the process last checked, and saw the values below (ns)
  Word64 holder;           // token of the only holder of the lock or permits; 0: none, several, or unknown
  Word64 holder_sequence;  // fencing token of that grant
  Word64 holder_end;       // when the grant expires (ms); 0: never
  Word32 holder_task;
  Word32 key_length;
  std::array<Word64, kWaitKeyBytes / 8> key;  // as much as fits, zero-padded
};
static_assert(sizeof(WaitRecord) == 128 && offsetof(WaitRecord, key) == 72);

struct WaitTableMemory {
  Word64 changes;  // counts records that were made or got another holder
  std::array<WaitRecord, kWaitRecords> records;
};

/// The only holder of what a task waits for, and its grant.
struct Blocker {
  Token token = kNobody;
  std::uint32_t task = 0;  // 0: unknown
  std::uint64_t sequence = 0;
  std::uint64_t end_ms = 0;

  bool known() const noexcept { return token != kNobody && task != 0; }
  friend bool operator==(const Blocker&, const Blocker&) = default;
};

/// A wait, as its record stores it.
struct Wait {
  Token token = kNobody;
  std::uint32_t task = 0;
  std::uint64_t since = 0;
  std::uint64_t seen = 0;
  Blocker blocker;
  std::uint32_t key_length = 0;
  std::array<char, kWaitKeyBytes> key{};

  /// Stores as much of the key as fits into a record.
  void set_key(std::string_view whole) noexcept;
  std::string_view kept_key() const noexcept;
};

/// A view of the table. All calls are thread-safe, except write() and release() of the same record.
class WaitTable {
 public:
  /// Makes the view. `memory` is a WaitTableMemory that is shared with other processes.
  explicit WaitTable(std::byte* memory) noexcept : memory_(reinterpret_cast<WaitTableMemory*>(memory)) {}

  /// Returns how many records were made or got another holder.
  std::uint64_t changes() const noexcept { return memory_->changes.load(kAcquire); }

  /// Takes a record for a wait of this task. Nobody can read the record before it is written. Returns null if no record
  /// is free. Calls `judge` for the owners of other records that it finds.
  WaitRecord* take(Token token, std::uint32_t task, const std::function<Liveness(Token)>& judge) noexcept;
  /// Returns whether the record still belongs to that process. The owner may differ if memory was overwritten.
  static bool is_owner(const WaitRecord& record, Token token) noexcept { return record.owner.load(kRelaxed) == token; }
  /// Writes the record. REQUIRES, for write() and release(): the caller owns the record.
  static void write(WaitRecord& record, const Wait& wait) noexcept;
  static void release(WaitRecord& record) noexcept;
  /// Counts a change. Call this after a record was written for the first time, or with a different holder.
  void count_change() noexcept { memory_->changes.fetch_add(1, kRelease); }

  enum class Found { no, yes, unreadable };
  /// Reads the wait of that task. Returns unreadable if its record is being written.
  Found find(Token token, std::uint32_t task, Wait& wait) const noexcept;

 private:
  static constexpr std::uint32_t kProbe = 16;

  WaitRecord& probe(Token token, std::uint32_t task, std::uint32_t step) const noexcept;

  WaitTableMemory* memory_;
};

}  // namespace holdfast
