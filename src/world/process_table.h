// The file `processes` of a world (runtime directory) has a header page, one slot for each process, then the table of
// waits.
//
// A process owns a slot by a kernel record lock on byte kSlotLocks + slot of this file. In the slot's content only the
// generation decides about life or death, and only together with the kernel's answer.
//
// Record locks on this file (the bytes are far behind its end):
//   kTableLock           entering, leaving, and the decision whether this world has died; held for microseconds
//   kPresenceLock        shared: the world lives. Fork inherits it, unlike a slot: a child without an identity is in
//                        the world too (a server that forks into the background must not lose what it stored)
//   kSlotLocks + slot    that process lives
//   kKeeperLocks + pid   a process keeps the world until the process with that number ends (World::keep_for)
//
// A process that has become another program by exec, and still holds locks, has no lock here except the locks of its
// keeper. A separate file shows that it lives (world/kept_file.h). Its generation is odd. All other generations are
// even, and their processes have no such file.
//
// If none of these locks is held, the boot id and the time namespace in the header show whether the file is still
// valid. A table in use is joined whatever its boot id, because containers have their own boot ids. A copy of a table
// is refused, because its header names another inode.
//
// Entering takes the table's lock for some 0.2 ms. Waiting processes sleep on a word with the holder's pid, in order of
// arrival, and a holder wakes the next process when it has closed the file. A holder that dies wakes nobody, so each
// sleep is bounded, at random and longer each time. 900 children that are forked together enter within 0.3 s on two
// processors.
//
// A process waits for one second while one process has the lock, because that process may be stopped, and for five
// seconds while the lock passes from process to process. After a failure, changes fail immediately for 0.1 s, then for
// longer, up to 1 s.
//
// The generation of a slot is stored three times, and two equal copies decide, so one overwritten word kills no
// process. The generation is raised under the table's lock while the slot's lock is free. So a successor is never taken
// for its predecessor, wherever the predecessor was stopped.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/token.h"
#include "platform/platform.h"
#include "world/fencing.h"
#include "world/file_use.h"
#include "world/name_file.h"
#include "world/runtime_directory.h"
#include "world/world_file.h"

namespace holdfast {

inline constexpr std::uint32_t kSlots = 1024;
inline constexpr std::uint64_t kTableLock = std::uint64_t{1} << 39;
inline constexpr std::uint64_t kPresenceLock = kUseLock;
static_assert(kPresenceLock == kTableLock + 1);
inline constexpr std::uint64_t kSlotLocks = std::uint64_t{1} << 40;
inline constexpr std::uint64_t kKeeperLocks = std::uint64_t{1} << 60;
inline constexpr std::uint32_t kMailboxEntries = 64;
inline constexpr std::uint32_t kNoWorker = ~std::uint32_t{0};

/// The header page of the table.
struct TableHeader {
  FileHeader file;
  alignas(64) Word32 lock_holder;  // pid of the process that has kTableLock, 0: none; waiters sleep on it
  Word64 unjudged;                 // how often judge() returned unknown; for people
  Word64 kept_uses;                // not 0: a use of a dictionary was kept across exec (world/name_use.h)
  Word64 keeper;                   // lock of the last keeper that has not ended properly, 0: none; for people
  alignas(64) FencingMemory fencing;
  alignas(64) std::array<Word64, kNameFiles> name_files;  // note_of_name_file() of each, 0: none opened
};
static_assert(sizeof(TableHeader) <= kHeaderBytes && offsetof(TableHeader, lock_holder) == 128 &&
              offsetof(TableHeader, fencing) == 192 && offsetof(TableHeader, name_files) == 256);

/// The slot of one process. It is written by its owner, unless stated otherwise, and read by all processes, as hints.
struct alignas(64) ProcessSlot {
  // The owner writes the rest of this cache line before it stores the generations (release), and never again.
  std::array<std::atomic<std::uint64_t>, 3> generations;  // grow with every owner; 0: never used. All equal
  std::atomic<std::uint64_t> entered_ns;                  // CLOCK_MONOTONIC
  std::array<std::atomic<std::uint64_t>, 2> comm;         // the program's name, cut to 15 bytes, zero-padded
  std::atomic<std::uint32_t> pid;                         // in the owner's pid namespace; only for people
  std::atomic<std::uint32_t> worker;                      // $HOLDFAST_WORKER, else kNoWorker

  // For sync/mailbox.h. Posting processes write here, too.
  alignas(64) std::atomic<std::uint32_t> signal;
  std::atomic<std::uint32_t> mail_state;
  alignas(64) std::array<std::atomic<std::uint32_t>, kMailboxEntries> mail;
  // For sync/shmtx.h. Critical sections of this process: how many its threads are in now (lower half), and how many
  // they have begun (upper half). A separate cache line: the owner writes it all the time, others read it only to wait
  // for the owner.
  alignas(64) std::atomic<std::uint64_t> sections;
  // For wait/parking_lot.h. When this process last checked what its waiters wait for (CLOCK_MONOTONIC, ms).
  alignas(64) std::atomic<std::uint64_t> looked_ms;
  // These words are written with the first cache line, and never again. They are for people.
  std::atomic<std::uint64_t> pid_namespace;        // inode of the namespace of `pid`; 0: unknown
  std::array<std::atomic<std::uint64_t>, 5> host;  // of the machine or container, cut to 39 bytes, zero-padded
  std::array<std::byte, 8> reserved;
};
static_assert(sizeof(ProcessSlot) == 512);

/// The table of waits follows the slots (wait/wait_table.h).
inline constexpr std::size_t kWaitTableBytes = std::size_t{128} * (1 + 2048);
inline constexpr std::size_t kWaitTableAlign = 128;
inline constexpr std::size_t kWaitTableOffset = kHeaderBytes + std::size_t{kSlots} * sizeof(ProcessSlot);
inline constexpr std::size_t kTableBytes = kWaitTableOffset + kWaitTableBytes;
static_assert(kWaitTableOffset % kWaitTableAlign == 0);

/// Returns the program's name from a slot, for people.
std::string comm_of(const ProcessSlot& slot);

/// Copies zero-padded words, such as a slot's texts. Ends `bytes` with a zero byte. REQUIRES: `bytes` is no longer than
/// the words.
template <std::size_t Words, std::size_t Bytes>
void copy_text(const std::array<std::atomic<std::uint64_t>, Words>& words, char (&bytes)[Bytes]) noexcept {
  static_assert(Bytes == Words * sizeof(std::uint64_t));
  for (std::size_t i = 0; i < Words; ++i) {
    const std::uint64_t word = words[i].load(std::memory_order_relaxed);
    std::memcpy(bytes + i * sizeof word, &word, sizeof word);
  }
  bytes[Bytes - 1] = '\0';
}

/// Returns the inode of this process's pid namespace, or 0 if it is unknown.
std::uint64_t pid_namespace() noexcept;

/// Names this process and its forked children in their slots, instead of the kernel's name. The first name stays.
/// Returns whether this call was the first.
bool name_program(std::string_view name) noexcept;

/// Returns whether a process with that generation keeps its life across exec.
constexpr bool is_of_hold(std::uint64_t generation) noexcept { return (generation & 1) != 0; }

/// Two descriptors that keep a process alive across exec. Either descriptor is enough, as long as it is open anywhere.
struct KeptLife {
  platform::FileDescriptor program;  // for the program: it gives no access to the world (world/kept_file.h)
  platform::FileDescriptor keeper;   // of the table, with the locks on the slot and for presence; never for a program
};

/// While this object exists, this thread's enter() keeps the process's life across exec.
class KeepLife {
 public:
  KeepLife() noexcept;
  ~KeepLife();
  KeepLife(const KeepLife&) = delete;
  KeepLife& operator=(const KeepLife&) = delete;
  /// Returns the descriptors. They are empty if this thread has not entered since the object was made.
  KeptLife take() const noexcept;
};

/// Releases what a description of a KeptLife or of a use holds, even if other processes have it open, and closes the
/// descriptor. Fails with invalid.
Status end_kept_description(int fd);

/// This process's handle to the table. Thread-safe; all processes share the slots.
class ProcessTable {
 public:
  /// Opens the directory's table, or creates it.
  static Expected<ProcessTable> open(const RuntimeDirectory& directory);
  /// Opens the directory's table, in use or not, without changing anything. Fails with not_found if there is none.
  static Expected<ProcessTable> look(const RuntimeDirectory& directory);

  ProcessTable(ProcessTable&& other) noexcept;
  /// Destroys only a table that could not be entered, because the world's table is never destroyed.
  ~ProcessTable();

  ProcessSlot& slot(std::uint32_t index) const noexcept { return slots()[index]; }
  std::byte* wait_table() const noexcept { return mapping_.data() + kWaitTableOffset; }
  FencingRanges fencing() const noexcept { return FencingRanges(header().fencing); }
  const WorldId& id() const noexcept { return id_; }
  std::string path() const;
  const platform::FileId& file() const noexcept { return mapping_.file(); }
  /// Returns the directory, anchored to this table.
  const RuntimeDirectory& directory() const noexcept { return directory_; }

  /// Returns whether the directory still has this table. Asks the kernel.
  bool is_current() const noexcept;

  /// Returns whether the file was truncated, and the guard (platform/bus_guard.h) put zeros there, so that nothing in
  /// the table is true.
  bool lost() const noexcept;
  /// Sets the identity that becomes kNobody if that happens.
  void clear_when_lost(std::atomic<Token>& identity) const noexcept {
    platform::clear_when_lost(mapping_.data(), identity);
  }

  /// Checks whether the process of that slot and generation lives. `generation_mask` has the bits that the caller
  /// knows.
  Liveness judge(std::uint32_t index, std::uint64_t generation, std::uint64_t generation_mask) noexcept;
  /// Returns how often judge() returned unknown, in this world.
  std::uint64_t unjudged() const noexcept { return header().unjudged.load(std::memory_order_relaxed); }
  /// Returns why judge() returns unknown now, or ok if it does not.
  Status judge_trouble() noexcept;
  /// Returns the generation of the slot's owner. Repairs the generation if one of its words was overwritten. Returns 0
  /// if the generation is unknown or the slot never had an owner.
  std::uint64_t generation_of_slot(std::uint32_t index) noexcept;

  /// Holds the table's record lock as long as the object exists. Also keeps the process from forking.
  class Lock {
   public:
    Lock(Lock&& other) noexcept = default;
    Lock& operator=(Lock&&) = delete;
    ~Lock();

   private:
    friend class ProcessTable;
    Lock(std::unique_ptr<platform::ForkGuard> guard, platform::FileDescriptor fd, std::atomic<std::uint32_t>* holder)
        : guard_(std::move(guard)), fd_(std::move(fd)), holder_(holder) {}
    std::unique_ptr<platform::ForkGuard> guard_;  // outlives fd_
    platform::FileDescriptor fd_;
    std::atomic<std::uint32_t>* holder_;  // pid of the holder, for the message of a timeout
  };
  /// How long to wait for the table's lock.
  struct Timeouts {
    std::uint64_t with_one_ns;  // while one process has the lock; it may be stopped
    std::uint64_t in_all_ns;    // while the lock passes from process to process
  };
  /// Takes the lock. Fails with `busy` after the timeouts.
  Expected<Lock> lock(const Timeouts& timeouts) const;

  /// Takes a free slot for this process, for as long as the process lives, and returns its token. Fails with mismatch
  /// if this process has another clock than the table. REQUIRES: this process has no slot.
  Expected<Token> enter(const Lock& held);
  /// Prepares judge() for a time when descriptors, paths or rights may be gone.
  Status prepare_to_judge() noexcept;

  /// Returns whether any process is in this world.
  static bool anybody_present(const Lock& held) noexcept;
  /// Returns whether any process but `own` has a slot. A process that exits is no longer present, but may still hold
  /// locks.
  static bool anybody_alive(const Lock& held, std::optional<std::uint32_t> own) noexcept;
  /// Frees the slots of exited programs that had kept their life across exec. `all` includes slots with a missing file,
  /// if no program keeps anything. Returns whether such a program of this world lives, or may live.
  enum class Ended { known, all };
  bool end_holds(const Lock& held, Ended which);
  /// Keeps the world alive until the result is unmapped here and in every child forked in the meantime.
  Expected<platform::Mapping> stay_present(const Lock& held);

  /// Returns whether the world has a keeper for the process of that number, in this pid namespace. Returns false if
  /// this is unknown.
  bool has_keeper(pid_t pid) noexcept;
  /// Makes this process the only keeper for that process, as long as the result is open. The result is empty if there
  /// is a keeper already, or if that cannot be known.
  platform::FileDescriptor become_keeper(pid_t pid) const;
  /// Returns whether there most likely was a keeper that has not called end_keeping(). Ask before has_keeper().
  bool had_keeper(pid_t pid) const noexcept;
  /// Records that the keeper ends properly.
  void end_keeping(pid_t pid) noexcept;

  /// Returns the slots that processes hold, in ascending order.
  std::vector<std::uint32_t> held_slots();

 private:
  ProcessTable(RuntimeDirectory directory, platform::Mapping mapping);

  static Expected<ProcessTable> attach(const RuntimeDirectory& directory, const OpenedFile& file, Access access);
  enum class Kernel { holds, free, silent };
  /// Checks whether a process holds the byte of that slot.
  Kernel ask(std::uint32_t index) noexcept;
  Expected<Token> take_slot(const Lock& held, platform::FileDescriptor fd, std::uint32_t index);
  void set_generation(std::uint32_t index, std::uint64_t generation) noexcept;
  /// Does the same for a slot that no process locks.
  Liveness judge_hold(std::uint32_t index, std::uint64_t generation, std::uint64_t generation_mask) noexcept;
  bool may_be_held(std::uint32_t index) noexcept;
  TableHeader& header() const noexcept { return *reinterpret_cast<TableHeader*>(mapping_.data()); }
  ProcessSlot* slots() const noexcept { return reinterpret_cast<ProcessSlot*>(mapping_.data() + kHeaderBytes); }
  /// Returns a new description of the table's file, for O_RDWR or O_RDONLY. When a description for writing is closed,
  /// all waiting processes check for a death (wait/death_watch.h).
  Expected<platform::FileDescriptor> open_file(int access) const;
  int probe_descriptor() noexcept;
  Status refuse_while_locked(std::uint64_t timeout_ns, std::uint32_t holder) const;
  Status refuse_while_others_enter(std::uint64_t timeout_ns) const;
  void describe_self(ProcessSlot& slot) const noexcept;

  RuntimeDirectory directory_;
  platform::Mapping mapping_;
  WorldId id_;
  std::uint64_t time_namespace_ = 0;
  bool only_looks_ = false;  // mapped read-only
  // This descriptor is open from the time a process enters, so that a later lack of descriptors, rights or paths does
  // no harm. Its children inherit it. The host may close it (daemons close everything), so it is checked against the
  // file before a death is believed. It is closed only while it belongs to that file (platform::close_if_file).
  std::atomic<int> probe_fd_{-1};
};

}  // namespace holdfast
