// The file `processes` of a world (runtime directory) consists of a header page, a slot for each process, and the table
// of waits.
//
// A process owns a slot through a kernel record lock on byte kSlotLocks + slot of this file. The kernel's answer,
// together with the generation in the slot, decides whether a process is alive. The other content of the slot does not
// matter.
//
// Record locks on this file (the bytes are far beyond its end):
//   kTableLock           entering, leaving, and deciding whether this world has ended; held for microseconds
//   kPresenceLock        shared: the world exists. Fork inherits it, unlike a slot. A child without an identity is in
//                        the world, too: a server that forks into the background must not lose what it has stored
//   kSlotLocks + slot    the process with that slot is alive
//   kKeeperLocks + pid   a keeper keeps the world until the process with that pid ends (World::keep_for)
//
// A process that has become another program by exec, but still holds locks, has no record lock here except those of its
// keeper. A separate file shows that it is alive (world/kept_file.h), and its generation is odd. All other processes
// have even generations and no such file.
//
// If none of these locks is held, the boot id and the time namespace in the header show whether the file is still
// valid. A process joins a table that is in use whatever its boot id is, because containers have different boot ids. A
// copy of a table is refused, because its header names another inode.
//
// A process that enters holds the table's lock for about 0.2 ms. Waiting processes sleep, in order of arrival, on a
// word that contains the holder's pid. A holder wakes the next process when it has closed the file. A holder that dies
// does not wake others, so each sleep is bounded. The bounds are random and grow. On two processors, 900 children that
// are forked together enter within 0.3 s.
//
// A process gives up after one second if the same process holds the lock all the time, because that process may be
// stopped. It gives up after five seconds if the lock passes from process to process. After a failure, changes fail
// immediately for 0.1 s, and after further failures for up to 1 s.
//
// The generation of a slot is stored three times, and two equal copies decide. So a single overwritten word cannot make
// a process look dead. The generation is raised under the table's lock while the slot's lock is free. So a successor is
// never mistaken for its predecessor, at whatever point the predecessor was stopped. The first generation of a slot is
// the lower half of the world id modulo 2^47, plus 1. If this number has the wrong parity, the next number is used
// instead. world/file_use.h explains why each world begins at a different number.
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
  Word64 unjudged;                 // how often judge() has returned unknown; shown to users
  Word64 kept_uses;                // not 0: a dictionary may be kept in use across exec (world/name_use.h)
  Word64 keeper;                   // byte of the last keeper that has not ended properly, 0: none; shown to users
  alignas(64) FencingMemory fencing;
  alignas(64) std::array<Word64, kNameFiles> name_files;  // note_of_name_file() of each file; 0: not opened yet
};
static_assert(sizeof(TableHeader) <= kHeaderBytes && offsetof(TableHeader, lock_holder) == 128 &&
              offsetof(TableHeader, fencing) == 192 && offsetof(TableHeader, name_files) == 256);

/// The slot of one process. Only its owner writes it, unless stated otherwise. All processes read it, but only as
/// hints.
struct alignas(64) ProcessSlot {
  // The owner writes the other words of this cache line before it stores the generations (release), and never again.
  std::array<std::atomic<std::uint64_t>, 3> generations;  // grow with every owner; 0: never used; all three are equal
  std::atomic<std::uint64_t> entered_ns;                  // CLOCK_MONOTONIC
  std::array<std::atomic<std::uint64_t>, 2> comm;         // the program's name, cut to 15 bytes, zero-padded
  std::atomic<std::uint32_t> pid;                         // in the owner's pid namespace; shown to users (show_as)
  std::atomic<std::uint32_t> worker;                      // $HOLDFAST_WORKER, else kNoWorker

  // For sync/mailbox.h. Sending processes also write here.
  alignas(64) std::atomic<std::uint32_t> signal;
  std::atomic<std::uint32_t> mail_state;  // bits: 1 mail arrived, 2 the mailbox overflowed
  alignas(64) std::array<std::atomic<std::uint32_t>, kMailboxEntries> mail;
  // For sync/shmtx.h. The lower half is the number of critical sections that the threads of this process are in now,
  // and the upper half is the number that they have begun. The word has a separate cache line, because the owner writes
  // it all the time, whereas other processes read it only to wait for the owner.
  alignas(64) std::atomic<std::uint64_t> sections;
  // For wait/parking_lot.h. The time at which this process last checked the objects that its waiters wait for
  // (CLOCK_MONOTONIC, ms). If the last check was long ago, the waiters lose their positions in the queues.
  alignas(64) std::atomic<std::uint64_t> looked_ms;
  // These words are written with the first cache line, and never again. They are shown to users.
  std::atomic<std::uint64_t> pid_namespace;        // inode of the namespace of `pid`; 0: unknown
  std::array<std::atomic<std::uint64_t>, 5> host;  // name of the machine or container, cut to 39 bytes, zero-padded
  std::array<std::byte, 8> reserved;
};
static_assert(sizeof(ProcessSlot) == 512);

/// The table of waits follows the slots (wait/wait_table.h).
inline constexpr std::size_t kWaitTableBytes = std::size_t{128} * (1 + 2048);
inline constexpr std::size_t kWaitTableAlign = 128;
inline constexpr std::size_t kWaitTableOffset = kHeaderBytes + std::size_t{kSlots} * sizeof(ProcessSlot);
inline constexpr std::size_t kTableBytes = kWaitTableOffset + kWaitTableBytes;
static_assert(kWaitTableOffset % kWaitTableAlign == 0);

/// Returns the program's name in a slot, for users.
std::string comm_of(const ProcessSlot& slot);

/// Copies zero-padded words, such as a slot's texts, and ends `bytes` with a zero byte. REQUIRES: `bytes` is no longer
/// than the words.
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

/// Sets the name that this process and its forked children write into their slots, instead of the name that the kernel
/// knows. Only the first call has an effect. Returns whether this call was the first.
bool name_program(std::string_view name) noexcept;

/// Makes this process write `pid` into its slot, instead of its own pid, when it enters the next time. Forked children
/// write their own pid again.
void show_as(pid_t pid) noexcept;

/// Returns whether a process with that generation was kept alive across exec.
constexpr bool is_of_hold(std::uint64_t generation) noexcept { return (generation & 1) != 0; }

/// Two descriptors that keep a process alive across exec. Either of them is enough, as long as it is open anywhere.
struct KeptLife {
  platform::FileDescriptor program;  // for the program: does not give access to the world (world/kept_file.h)
  platform::FileDescriptor keeper;   // of the table, with locks on slot and presence; no program may inherit it
};

/// While this object exists, enter() in this thread keeps the process alive across exec.
class KeepLife {
 public:
  KeepLife() noexcept;
  ~KeepLife();
  KeepLife(const KeepLife&) = delete;
  KeepLife& operator=(const KeepLife&) = delete;
  /// Returns the descriptors. They are empty if this thread has not entered since the object was made.
  KeptLife take() const noexcept;
};

/// Closes a descriptor of a KeptLife or of a kept dictionary, and releases its lock even if other processes have the
/// description open. Fails with invalid for any other descriptor.
Status end_kept_description(int fd);

/// This process's handle to the table. Thread-safe; all processes share the slots.
class ProcessTable {
 public:
  /// Opens the directory's table, or creates it.
  static Expected<ProcessTable> open(const RuntimeDirectory& directory);
  /// Opens the directory's table, in use or not, without changing anything. Fails with not_found if there is no table.
  static Expected<ProcessTable> look(const RuntimeDirectory& directory);

  ProcessTable(ProcessTable&& other) noexcept;
  /// Runs only for a table that could not be entered: the table of a world that was entered is never destroyed.
  ~ProcessTable();

  ProcessSlot& slot(std::uint32_t index) const noexcept { return slots()[index]; }
  std::byte* wait_table() const noexcept { return mapping_.data() + kWaitTableOffset; }
  FencingRanges fencing() const noexcept { return FencingRanges(header().fencing); }
  const WorldId& id() const noexcept { return id_; }
  std::string path() const;
  const platform::FileId& file() const noexcept { return mapping_.file(); }
  /// Returns the directory, anchored to this table.
  const RuntimeDirectory& directory() const noexcept { return directory_; }

  /// Asks the kernel whether the directory still has this table.
  bool is_current() const noexcept;

  /// Returns whether the file was truncated. The guard (platform/bus_guard.h) has then replaced it with zeros, and
  /// nothing in the table is valid.
  bool lost() const noexcept;
  /// Sets `identity` to kNobody when the file is found truncated.
  void clear_when_lost(std::atomic<Token>& identity) const noexcept {
    platform::clear_when_lost(mapping_.data(), identity);
  }

  /// Checks whether the process with this slot and generation is alive, or is kept alive across exec.
  Liveness judge(std::uint32_t index, std::uint64_t generation) noexcept;
  /// Checks whether the process itself is alive. `generation_mask` contains the bits of the generation that the caller
  /// knows.
  Liveness judge_process(std::uint32_t index, std::uint64_t generation, std::uint64_t generation_mask) noexcept;
  /// Returns how often judge() has returned unknown in this world.
  std::uint64_t unjudged() const noexcept { return header().unjudged.load(std::memory_order_relaxed); }
  /// Returns why judge() returns unknown now, or ok if it does not return unknown.
  Status judge_trouble() noexcept;
  /// Returns the generation of the slot's owner, and repairs it if one of its words was overwritten. Returns 0 if the
  /// generation is unknown or the slot never had an owner.
  std::uint64_t generation_of_slot(std::uint32_t index) noexcept;

  /// Holds the table's record lock, and keeps the process from forking, as long as the object exists.
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
    std::uint64_t with_one_ns;  // while the same process has the lock; it may be stopped
    std::uint64_t in_all_ns;    // while the lock passes from process to process
  };
  /// Takes the lock. Fails with `busy` after the timeouts.
  Expected<Lock> lock(const Timeouts& timeouts) const;

  /// Takes a free slot for this process, for as long as the process is alive, and returns its token. Fails with
  /// mismatch if this process and the table use different clocks. `is_tidy` says that exited programs have left nothing
  /// behind. REQUIRES: this process has no slot.
  Expected<Token> enter(const Lock& held, bool is_tidy);
  /// Prepares judge() for a time when descriptors, paths or permissions may be lost.
  Status prepare_to_judge() noexcept;

  /// Returns whether any process is in this world.
  static bool anybody_present(const Lock& held) noexcept;
  /// Returns whether any process except `own` has a slot. A process that is exiting is no longer present, but may still
  /// hold locks.
  static bool anybody_alive(const Lock& held, std::optional<std::uint32_t> own) noexcept;
  /// Frees the slots of exited programs that were kept alive across exec. With `all`, and if no program keeps anything,
  /// also frees the slots whose file is missing. Returns whether such a program of this world is alive, or may be
  /// alive.
  enum class Ended { known, all };
  bool end_holds(const Lock& held, Ended which);
  /// Keeps the world alive until the result is unmapped here, and in every child that was forked in the meantime.
  Expected<platform::Mapping> stay_present(const Lock& held);

  /// Returns whether the world has a keeper for the process with this pid, in this pid namespace. Returns false if this
  /// is unknown.
  bool has_keeper(pid_t pid) noexcept;
  /// Makes this process the only keeper for the process with this pid, as long as the result is open. The result is
  /// empty if there is already a keeper, or if this is unknown.
  platform::FileDescriptor become_keeper(pid_t pid) const;
  /// Returns whether there probably was a keeper that has not called end_keeping(). Call this before has_keeper().
  bool had_keeper(pid_t pid) const noexcept;
  /// Records that the keeper is ending properly.
  void end_keeping(pid_t pid) noexcept;

  /// Returns the slots that processes hold, in ascending order.
  std::vector<std::uint32_t> held_slots();

 private:
  ProcessTable(RuntimeDirectory directory, platform::Mapping mapping);

  static Expected<ProcessTable> attach(const RuntimeDirectory& directory, const OpenedFile& file, Access access);
  enum class Kernel { holds, free, silent };
  /// Asks the kernel whether a process holds the byte of this slot.
  Kernel ask(std::uint32_t index) noexcept;
  Expected<Token> take_slot(const Lock& held, platform::FileDescriptor fd, std::uint32_t index);
  void set_generation(std::uint32_t index, std::uint64_t generation) noexcept;
  /// Does the same as judge() for a slot that no process locks.
  Liveness judge_hold(std::uint32_t index, std::uint64_t generation) noexcept;
  void count_unjudged() noexcept;
  bool may_be_held(std::uint32_t index) noexcept;
  TableHeader& header() const noexcept { return *reinterpret_cast<TableHeader*>(mapping_.data()); }
  ProcessSlot* slots() const noexcept { return reinterpret_cast<ProcessSlot*>(mapping_.data() + kHeaderBytes); }
  /// Returns a new description of the table's file, opened with O_RDWR or O_RDONLY. When a description for writing is
  /// closed, all waiting processes check whether a process died (wait/death_watch.h).
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
  // This descriptor is open from the time a process enters, so that it does no harm if descriptors, permissions or
  // paths are lost later. The process's children inherit it. The host may close the descriptor (daemons close
  // everything). So the descriptor is compared with the file before a process is considered dead, and is closed only if
  // it still belongs to the file (platform::close_if_file).
  std::atomic<int> probe_fd_{-1};
};

}  // namespace holdfast
