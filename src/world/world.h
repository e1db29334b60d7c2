// The world: the processes that share a runtime directory, and with it dictionaries and locks; and which of them live.
//
// A process enters by owning a slot of the file `processes`: a kernel record lock (OFD) on one byte, pinned by a
// mapping of a closed descriptor. The lock is absent after fork (MADV_DONTFORK) and ends with the process in whatever
// way. The token lies in a page that fork wipes, so a child has no identity until it needs one. No pid decides
// anything.
//
// Lifetime: a world lives while a process is in it, a child that one of them forked, or a keeper, which stays until a
// given process ends. The first process to enter an
// empty world retires every dictionary that is not persistent. The last one that exits in an orderly way does so
// itself, so that no memory stays behind. Entering, leaving and that decision happen under the table's own record lock.
//
// A keeper lives as long as a process that is not in the world: nginx's master, which has another user and environment
// than its workers. A worker forks it, so it is present from its first instruction on, and it has no slot, as it holds
// nothing. It gives back what else it inherited: descriptors, or it would keep nginx's ports open, and shared mappings,
// or it would keep dictionaries in use. It is no program of its own, because the library may be all that is installed
// and chroot may hide the program. Masters are not noted by pid in the table, because a pid decides nothing.
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
  /// The one world of this process, entered on first use; the directory is chosen then and stays. Cheap after that.
  /// After a failure the next call tries again. Any thread.
  static Expected<World*> current();

  /// From now on this process only looks at the world: current() takes no slot, and makes, adopts and removes no file;
  /// token() is kNobody. exists: the process has entered.
  static Status observe();
  /// Whether it does.
  static bool observes() noexcept;
  /// The refusal of what it cannot do then.
  static Status refuse_observer();

  /// Enters, and gives descriptors that keep this process's slot and presence as long as either is open anywhere: over
  /// exec, too, after which no code acts for the slot. exists: the process has a slot already.
  static Expected<KeptLife> enter_to_exec();

  /// Keeps the world until the parent of this process ends, also while no other process is in it: by a process of its
  /// own, the keeper, unless that parent has one. invalid: it is not the parent. not_found: the last one was killed.
  Status keep_for(pid_t parent);

  /// This process's token; enters (again) after a fork. kNobody on failure, with the reason in last_failure(). A
  /// failure counts for 0.1 s to 1 s: a process that cannot enter is told so at once, and costs others nothing.
  Token token() noexcept {
    const Token token = known_token();
    return token != kNobody ? token : enter_again();
  }
  /// The same, but kNobody in a forked child that has not entered yet. Does nothing else.
  Token known_token() const noexcept { return identity_->token.load(std::memory_order_relaxed); }
  /// Why token() was last kNobody in this process. REQUIRES, here and below: it was.
  static Status last_failure();
  static Code last_failure_code() noexcept;
  /// Keeps the sentence for the calling thread (platform/sentences.h).
  static void keep_last_failure() noexcept;

  /// Whether that process still lives: asks the kernel (about 0.5 µs). dead for kNobody and for any token that was
  /// never given out. Needs no identity. REQUIRES: the thread holds no shmtx.
  Liveness judge(Token token) noexcept;
  /// The same for the 31 owner bits of a shmtx word (sync/shmtx.h), which hold 20 bits of the generation.
  Liveness judge_owner(std::uint32_t owner_bits) noexcept;
  /// Whether the table of processes was cut short: then this process has lost its identity, and gets none.
  bool lost() const noexcept;
  /// Known to be dead: what it held may be taken.
  bool is_dead(Token token) noexcept { return judge(token) == Liveness::dead; }
  /// Why judge() says unknown; ok if it does not now.
  Status judge_trouble() noexcept;
  /// How often it did, in any process of this world.
  std::uint64_t unjudged() const noexcept;

  /// The token with these owner bits: of the process that has the slot now, if they are its bits; else one that nobody
  /// alive has.
  Token token_of(std::uint32_t owner_bits) noexcept;

  /// The slot of that token if its generation is still current, else null. For hints: the owner may die at any time.
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
  /// The token of the last process that had it; kNobody if there was none.
  Token token_at(std::uint32_t index) noexcept;

  /// The file `processes`: each process of this world has descriptions of it open until it dies.
  std::string table_path() const;
  const platform::FileId& table_file() const noexcept;

  /// Memory of the table of waits of this world.
  std::byte* wait_table() const noexcept;

  /// The processes that live now, in slot order, this one included if it has entered. For people: old when it returns.
  std::vector<Token> living();

  const RuntimeDirectory& directory() const noexcept { return directory_; }
  const WorldId& id() const noexcept;
  FencingRanges fencing() const noexcept;

  World(const World&) = delete;
  World& operator=(const World&) = delete;

 private:
  /// In a page that reads as zero after fork.
  struct Identity {
    struct Failure {
      Code code;
      std::size_t length;
      std::array<char, 500> text;
    };
    std::atomic<Token> token;             // written once per process, when it enters
    std::atomic<std::uint64_t> retry_ns;  // no entering before this time: the last attempt failed
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
