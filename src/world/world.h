// The world: the processes that share a runtime directory, and with it dictionaries and locks; and which of them live.
//
// A process enters by owning a slot of the file `processes`: a kernel record lock (OFD) on one byte, pinned by a
// mapping of a closed descriptor. The lock is absent after fork (MADV_DONTFORK) and ends with the process, however it
// ends. The token is in a page that fork wipes, so a child has no identity until it needs one. No pid decides anything.
//
// Lifetime: a world lives while it contains a process, a child that one of them forked, or a keeper, which stays until
// a given process ends. The first process to enter an empty world retires every dictionary that is not persistent. The
// last one that exits properly does so itself, so that no memory stays behind. Entering, leaving and that decision
// happen under the table's own record lock.
//
// A keeper lives as long as a process that is not in the world: nginx's master, which has another user and environment
// than its workers. A worker forks the keeper, so it is present from its first instruction on. It has no slot, because
// it holds nothing. It gives back everything else that it inherited: descriptors, or it would keep nginx's ports open,
// and shared mappings, or it would keep dictionaries in use.
//
// It is no separate program, because the library may be all that is installed, and chroot may hide the program. The
// table does not record masters by pid, because a pid decides nothing.
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
  /// Returns the one world of this process, entered on first use; the directory is chosen then and stays. Cheap after
  /// that. After a failure the next call tries again. Any thread.
  static Expected<World*> current();

  /// From now on this process only reads the world: current() takes no slot, and makes, adopts and removes no file;
  /// token() is kNobody. exists: the process has entered.
  static Status observe();
  /// Returns whether observe() was called.
  static bool observes() noexcept;
  /// Returns the error for calls that an observer cannot make.
  static Status refuse_observer();

  /// Enters and returns descriptors that keep this process's slot and presence as long as either is open anywhere: even
  /// after exec, when no code acts for the slot any longer. exists: the process already has a slot.
  static Expected<KeptLife> enter_to_exec();

  /// Keeps the world until the parent of this process ends, even while no other process is in it. Does so by a separate
  /// process, the keeper, unless that parent has one. invalid: it is not the parent. not_found: the last keeper was
  /// killed.
  Status keep_for(pid_t parent);

  /// This process's token; enters (again) after a fork. kNobody on failure, with the reason in last_failure(). A
  /// failure is remembered for 0.1 s to 1 s: a process that cannot enter fails at once, and costs others nothing.
  Token token() noexcept {
    const Token token = known_token();
    return token != kNobody ? token : enter_again();
  }
  /// The same, but kNobody in a forked child that has not entered yet. Does nothing else.
  Token known_token() const noexcept { return identity_->token.load(std::memory_order_relaxed); }
  /// Returns why token() last returned kNobody in this process. REQUIRES, here and below: it did.
  static Status last_failure();
  static Code last_failure_code() noexcept;
  /// Keeps the message for the calling thread (platform/sentences.h).
  static void keep_last_failure() noexcept;

  /// Checks whether that process still lives: asks the kernel (about 0.5 µs). dead for kNobody and for any token that
  /// was never given. Needs no identity. REQUIRES: the thread holds no shmtx.
  Liveness judge(Token token) noexcept;
  /// The same for the 31 owner bits of a shmtx word (sync/shmtx.h), which hold 20 bits of the generation.
  Liveness judge_owner(std::uint32_t owner_bits) noexcept;
  /// Returns whether the table of processes was truncated: then this process has lost its identity, and gets none.
  bool lost() const noexcept;
  /// Returns whether it is known to be dead: what it held may be taken.
  bool is_dead(Token token) noexcept { return judge(token) == Liveness::dead; }
  /// Returns why judge() says unknown; ok if it does not now.
  Status judge_trouble() noexcept;
  /// Returns how often judge() returned unknown, in any process of this world.
  std::uint64_t unjudged() const noexcept;

  /// Returns the token with these owner bits: the token of the slot's present process if it has these bits; else one
  /// that no living process has.
  Token token_of(std::uint32_t owner_bits) noexcept;

  /// Returns the slot of that token if its generation is still current, else null. For hints: the owner may die at any
  /// time.
  ProcessSlot* slot(Token token) noexcept;

  /// The same for the owner bits of a shmtx word.
  ProcessSlot* owner_slot(std::uint32_t owner_bits) noexcept;

  /// ProcessSlot::sections of that token's slot. REQUIRES: the token was given out.
  std::atomic<std::uint64_t>& sections(Token token) noexcept {
    constexpr std::size_t kWordsPerSlot = 64;
    return sections_[std::size_t{slot_of(token)} * kWordsPerSlot];
  }

  /// Slot number `index`, whether its owner lives or not; null if it never had one.
  ProcessSlot* slot_at(std::uint32_t index) noexcept;
  /// Returns the token of the slot's last process; kNobody if there was none.
  Token token_at(std::uint32_t index) noexcept;

  /// Returns the path of the file `processes`: each process of this world has descriptions of it open until it dies.
  std::string table_path() const;
  const platform::FileId& table_file() const noexcept;

  /// Memory of this world's table of waits.
  std::byte* wait_table() const noexcept;

  /// The processes that live now, in slot order, including this one if it has entered. For people: outdated when it
  /// returns.
  std::vector<Token> living();

  const RuntimeDirectory& directory() const noexcept { return directory_; }
  const WorldId& id() const noexcept;
  FencingRanges fencing() const noexcept;

  World(const World&) = delete;
  World& operator=(const World&) = delete;

 private:
  /// Lies in a page that reads as zero after fork.
  struct Identity {
    struct Failure {
      Code code;
      std::size_t length;
      std::array<char, 500> text;
    };
    std::atomic<Token> token;             // written once per process, when it enters
    std::atomic<std::uint64_t> retry_ns;  // do not enter before this time: the last attempt failed
    std::atomic<std::uint64_t> pause_ns;  // between the last attempt and the next
    Failure failure;                      // why; guarded by a mutex
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
  /// Ends this process's presence, and the world if no other process is in it. `slot`: its own, if it has one.
  void leave(std::optional<std::uint32_t> slot) noexcept;

  // Constant after construction.
  RuntimeDirectory directory_;
  std::unique_ptr<ProcessTable> table_;
  std::atomic<std::uint64_t>* sections_;  // of the table's first slot
  // Guarded by the mutex of entering. Inherited by fork; empty in a process that has left.
  platform::Mapping presence_;
  Identity* identity_;
};

}  // namespace holdfast
