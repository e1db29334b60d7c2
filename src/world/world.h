// A world consists of the processes that share a runtime directory, and thereby dictionaries and locks. World reports
// which of these processes are alive.
//
// A process enters by taking a slot of the file `processes`: a kernel record lock (OFD) on one byte, pinned by a
// mapping whose descriptor is closed. A forked child does not inherit the lock (MADV_DONTFORK), and the lock ends with
// the process, however the process ends. The token is in a page that fork wipes, so a child has no identity until it
// needs one. No decision depends on a pid.
//
// A world exists while it contains a process, a child that such a process forked, or a keeper, which stays until a
// given process exits. The first process to enter an empty world retires every dictionary that is not persistent. The
// last process that exits properly does the same, so that no memory is left behind. Entering, leaving, and the decision
// whether to retire dictionaries happen under the table's own record lock.
//
// A keeper is needed for a process that is not in the world, such as nginx's master, whose user and environment differ
// from those of its workers. A worker forks the keeper, so the keeper is present from its first instruction on. The
// keeper has no slot, because it does not hold anything.
//
// The keeper releases everything else that it has inherited. It closes descriptors, which would keep nginx's ports
// open, and unmaps shared mappings, which would keep dictionaries in use. It is not a separate program, because only
// the library may be installed, and chroot may hide the program.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/token.h"
#include "platform/platform.h"
#include "world/fencing.h"
#include "world/runtime_directory.h"
#include "world/world_file.h"

namespace holdfast {

class ProcessTable;
struct ProcessSlot;  // world/process_table.h
struct KeptLife;

class World {
 public:
  /// Returns the only world of this process. The first call enters the world; the directory is chosen then and does not
  /// change. Later calls are cheap. After a failure, the next call tries again. Any thread may call this function.
  static Expected<World*> current();

  /// Makes this process an observer, which only reads the world. From now on, current() does not take a slot, and does
  /// not make, adopt or remove files; token() returns kNobody. Fails with exists if the process has already entered.
  static Status observe();
  /// Returns whether observe() was called.
  static bool observes() noexcept;
  /// Returns the error for calls that an observer cannot make.
  static Status refuse_observer();

  /// Enters, and returns descriptors. As long as one of the descriptors is open anywhere, this process keeps its slot
  /// and presence, even after exec, when it runs another program. Fails with exists if the process already has a slot.
  static Expected<KeptLife> enter_to_exec();

  /// Keeps the world until the parent of this process exits, even while no other process is in the world. Starts a
  /// separate process, the keeper, unless there is already a keeper for that parent. Fails with invalid if the given
  /// process is not the parent; with not_found if the last keeper was killed.
  Status keep_for(pid_t parent);

  /// Returns this process's token, and enters (again) after a fork. Returns kNobody on failure, with the reason in
  /// last_failure(). A failure is remembered for 0.1 s to 1 s, so that a process that cannot enter fails immediately,
  /// and does not slow down other processes.
  Token token() noexcept {
    const Token token = known_token();
    return token != kNobody ? token : enter_again();
  }
  /// Returns the same token without entering: kNobody in a forked child that has not entered yet.
  Token known_token() const noexcept { return identity_->token.load(std::memory_order_relaxed); }
  /// Returns why token() last returned kNobody in this process. REQUIRES, for this and the next call: token() has
  /// returned kNobody.
  static Status last_failure();
  static Code last_failure_code() noexcept;
  /// Keeps the message of last_failure() for the calling thread (platform/sentences.h).
  static void keep_last_failure() noexcept;

  /// Asks the kernel whether the process is alive, which takes about 0.5 µs. Returns dead for kNobody and for any token
  /// that was never issued. Needs no identity. REQUIRES: the thread holds no shmtx.
  Liveness judge(Token token) noexcept;
  /// Does the same for the 31 owner bits of a shmtx word (sync/shmtx.h), which hold 20 bits of the generation. But a
  /// program that has ended always counts as dead, even if its process is kept alive across exec, because nobody is
  /// inside its critical sections any more.
  Liveness judge_owner(std::uint32_t owner_bits) noexcept;
  /// Returns whether the process table was truncated. If it was, this process has lost its identity permanently.
  bool lost() const noexcept;
  /// Returns whether the process is known to be dead, so that what it held may be taken over.
  bool is_dead(Token token) noexcept { return judge(token) == Liveness::dead; }
  /// Returns why judge() returns unknown, or ok if it does not return unknown now.
  Status judge_trouble() noexcept;
  /// Returns how often judge() returned unknown, in any process of this world.
  std::uint64_t unjudged() const noexcept;

  /// Returns the token with these owner bits: the token of the slot's current process if the bits match, otherwise a
  /// token that no living process has.
  Token token_of(std::uint32_t owner_bits) noexcept;

  /// Returns the token's slot if the token's generation is current, otherwise null. The result is a hint, because the
  /// owner may die at any time.
  ProcessSlot* slot(Token token) noexcept;

  /// Does the same for the owner bits of a shmtx word.
  ProcessSlot* owner_slot(std::uint32_t owner_bits) noexcept;

  /// Returns ProcessSlot::sections of the token's slot. REQUIRES: the token was issued.
  std::atomic<std::uint64_t>& sections(Token token) noexcept {
    constexpr std::size_t kWordsPerSlot = 64;
    return sections_[std::size_t{slot_of(token)} * kWordsPerSlot];
  }

  /// Returns slot number `index`, even if its owner is dead; null if the slot never had an owner.
  ProcessSlot* slot_at(std::uint32_t index) noexcept;
  /// Returns the token of the slot's last process, or kNobody if there was none.
  Token token_at(std::uint32_t index) noexcept;

  /// Returns the path of the file `processes`. Each process of the world keeps descriptions of this file open until it
  /// dies.
  std::string table_path() const;
  const platform::FileId& table_file() const noexcept;

  /// Returns the memory of this world's table of waits.
  std::byte* wait_table() const noexcept;

  /// Returns the processes that are alive now, in slot order, including this process if it has entered. The list is
  /// only for display, because it may be outdated when the call returns.
  std::vector<Token> living();

  const RuntimeDirectory& directory() const noexcept { return directory_; }
  const WorldId& id() const noexcept;
  FencingRanges fencing() const noexcept;

  World(const World&) = delete;
  World& operator=(const World&) = delete;

 private:
  /// This process's identity, in a page that reads as zero after fork.
  struct Identity {
    struct Failure {
      Code code;
      std::size_t length;
      std::array<char, 500> text;
    };
    std::atomic<Token> token;             // written once per process, when it enters
    std::atomic<std::uint64_t> retry_ns;  // after a failed attempt: do not enter before this time
    std::atomic<std::uint64_t> pause_ns;  // the pause between the last attempt and the next
    Failure failure;                      // why the attempt failed; guarded by a mutex
  };

  World(RuntimeDirectory directory, std::unique_ptr<ProcessTable> table, Identity* identity);
  ~World();
  friend struct WorldMaker;  // world.cc

  Token enter_again() noexcept;
  Status enter(std::uint64_t timeout_ns);
  void note_failure(Code code, std::string_view why) noexcept;
  template <class Read>
  static auto read_failure(Read&& read);
  bool is_too_early() const noexcept;
  /// Ends this process's presence, and ends the world if no other process is in it. `slot` is this process's slot, if
  /// it has one.
  void leave(std::optional<std::uint32_t> slot) noexcept;

  // Constant after construction.
  RuntimeDirectory directory_;
  std::unique_ptr<ProcessTable> table_;
  std::atomic<std::uint64_t>* sections_;  // ProcessSlot::sections of the table's first slot
  // The mutex `entering` guards these members, which a forked child inherits. They are empty in a process that has
  // left.
  platform::Mapping presence_;
  Identity* identity_;
};

}  // namespace holdfast
