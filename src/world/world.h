// The world: what shares a runtime directory, shares locks. Who is in it, and who is alive.
//
// A process enters by owning a slot of the file `processes`: a kernel record lock (OFD) on one byte, pinned by a
// mapping of a descriptor that is already closed, absent after fork (MADV_DONTFORK) and gone with the process in
// whatever way it ends. Its token lives in a page that fork wipes, so a child has no identity until it needs one. No
// pid decides anything.
//
// Lifetime: a world lives while a process is in it, or a child that one of them forked. The first process to enter a
// world with nobody in it retires every dictionary that is not persistent. The last one that exits in an orderly way
// does so itself, so that no memory stays behind. Entering, leaving and that decision happen under the table's own
// record lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/token.h"
#include "platform/platform.h"
#include "world/runtime_directory.h"

namespace holdfast {

class ProcessTable;
struct ProcessSlot;  // world/process_table.h
class WaitTable;     // world/wait_table.h

class World {
 public:
  /// The one world of this process, entered on first use; the directory is chosen then and stays.
  /// Cheap after that. A failure is not remembered: the next call tries again. Any thread.
  static Expected<World*> current();

  /// This process's token; enters (again) after a fork. kNobody on failure, with the reason in last_failure().
  Token token() noexcept {
    const Token token = identity_->load(std::memory_order_relaxed);
    return token != kNobody ? token : enter_again();
  }
  /// Why the last token() of this thread was kNobody. The sentence: platform::kept_sentence(About::entering).
  static Code last_failure_code() noexcept;
  static Status last_failure();

  /// Whether that process still lives: the kernel is asked (about 0.5 µs). False for kNobody and for any token that
  /// was never given out. Not to be called while holding a shmtx.
  bool alive(Token token) noexcept;
  /// The same for the 31 owner bits of a shmtx word (sync/shmtx.h), which hold 20 bits of the generation.
  bool owner_alive(std::uint32_t owner_bits) noexcept;

  /// The slot of that token if its generation is still current, else null. For hints: the owner may die at any time.
  ProcessSlot* slot(Token token) noexcept;

  /// Who waits for whom in this world.
  WaitTable waits() const noexcept;

  /// Who lives here now, in slot order, this process included if it has entered. For people: it is old when it returns.
  std::vector<Token> living();

  const RuntimeDirectory& directory() const noexcept { return directory_; }

  World(const World&) = delete;
  World& operator=(const World&) = delete;

 private:
  World(RuntimeDirectory directory, std::unique_ptr<ProcessTable> table, std::atomic<Token>* identity);
  ~World();
  friend struct WorldMaker;  // world.cc

  Token enter_again() noexcept;
  Status enter();
  void leave() noexcept;

  // Constant after construction.
  RuntimeDirectory directory_;
  std::unique_ptr<ProcessTable> table_;
  // Guarded by the mutex of entering. Inherited by fork; empty in a process that has left.
  platform::Mapping presence_;
  // In a page that reads as zero after fork. Written once per process by enter().
  std::atomic<Token>* identity_;
};

}  // namespace holdfast
