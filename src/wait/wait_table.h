// Who waits for whom, over all processes of a world: what the search for deadlocks (wait/deadlock.h) reads.
//
// A record is one wait of one task (a coroutine, wait/task_id.h): since when, for which key, and who was seen to hold
// that, when. Only the process that waits writes its records, one thread at a time; anybody reads them at any time, and
// trusts nothing it reads. The table stands behind the slots in the file `processes`.
//
// A record is found by its owner: by token and task, within kProbe records from where their hash leads. One whose
// process is dead is as good as a free one. There may be none left: that wait is then not known to others.
//
//   owner   0 to token     by compare-and-swap: the record is taken (or from a dead one's token)
//           token to 0     the wait is over
//   stamp   odd            the rest is being written; a reader comes back later
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

#include "base/atomic.h"
#include "base/token.h"
#include "world/liveness.h"

namespace holdfast {

inline constexpr std::uint32_t kWaitRecords = 2048;
/// As much of a key as a record keeps.
inline constexpr std::size_t kWaitKeyBytes = 56;

struct alignas(128) WaitRecord {
  Word64 owner;  // who may write the rest; 0: nobody
  Word32 stamp;

  // Belong together if the stamp is even, and the same before and after they are read.
  Word32 task;
  Word64 token;            // the owner who wrote this
  Word64 since;            // when the wait began (ns of CLOCK_MONOTONIC)
  Word64 seen;             // when it was last seen to go on, as follows (ns)
  Word64 holder;           // token of the one that holds what is waited for; 0: nobody, several, or not known
  Word64 holder_sequence;  // fencing number of that grant
  Word64 holder_end;       // when the grant expires (ms); 0: never
  Word32 holder_task;
  Word32 key_length;
  std::array<Word64, kWaitKeyBytes / 8> key;  // what fits of it, zero-padded
};
static_assert(sizeof(WaitRecord) == 128 && offsetof(WaitRecord, key) == 72);

struct WaitTableMemory {
  Word64 changes;  // records that were made or got another holder, ever
  std::array<WaitRecord, kWaitRecords> records;
};

/// The one who holds what somebody waits for.
struct Blocker {
  Token token = kNobody;
  std::uint32_t task = 0;  // 0: not known
  std::uint64_t sequence = 0;
  std::uint64_t end_ms = 0;

  bool known() const noexcept { return token != kNobody && task != 0; }
  friend bool operator==(const Blocker&, const Blocker&) = default;
};

/// A wait, as its record says.
struct Wait {
  Token token = kNobody;
  std::uint32_t task = 0;
  std::uint64_t since = 0;
  std::uint64_t seen = 0;
  Blocker blocker;
  std::uint32_t key_length = 0;
  std::array<char, kWaitKeyBytes> key{};

  /// Cut to what a record keeps.
  void set_key(std::string_view whole) noexcept;
  std::string_view kept_key() const noexcept;
};

/// A view of a table. Thread-safe, but for write() and release() of one record.
class WaitTable {
 public:
  /// `memory`: a WaitTableMemory, shared with others.
  explicit WaitTable(std::byte* memory) noexcept : memory_(reinterpret_cast<WaitTableMemory*>(memory)) {}

  /// Changes when a record was made, or got another holder.
  std::uint64_t changes() const noexcept { return memory_->changes.load(kAcquire); }

  /// A record for that task's wait, not yet readable; null: none is free. `judge` is asked about those in the way.
  WaitRecord* claim(Token token, std::uint32_t task, const std::function<Liveness(Token)>& judge) noexcept;
  /// Whether the record is still that process's; damage may have taken it.
  static bool is_owner(const WaitRecord& record, Token token) noexcept { return record.owner.load(kRelaxed) == token; }
  /// REQUIRES, as the next: the record is the caller's.
  static void write(WaitRecord& record, const Wait& wait) noexcept;
  static void release(WaitRecord& record) noexcept;
  /// To be called when a record was written for the first time, or with another holder than before.
  void count_change() noexcept { memory_->changes.fetch_add(1, kRelease); }

  enum class Found { no, yes, unreadable };
  /// The wait of that task. unreadable: it is being written.
  Found find(Token token, std::uint32_t task, Wait& wait) const noexcept;

 private:
  static constexpr std::uint32_t kProbe = 16;

  WaitRecord& probe(Token token, std::uint32_t task, std::uint32_t step) const noexcept;

  WaitTableMemory* memory_;
};

}  // namespace holdfast
