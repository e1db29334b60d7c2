#include "world/world.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <optional>

#include "platform/platform.h"
#include "platform/sentences.h"
#include "world/file_use.h"
#include "world/process_table.h"

namespace holdfast {

namespace {

/// The timeout while processes enter one after the other, as hundreds of forked children may do.
constexpr std::uint64_t kEnterTimeoutNs = 5 * kNsPerSecond;
/// The first timeout of a forked child. The child enters inside a call, and the holder of the table's lock may be
/// stopped. After a failure, the child waits for a shorter time.
constexpr std::uint64_t kFirstTimeoutOfChildNs = kNsPerSecond;
constexpr std::uint64_t kEnterAgainTimeoutNs = kNsPerSecond / 20;
/// The pause before such a child tries again, which doubles each time. No benchmark covers this constant, because none
/// has a child that was refused.
constexpr std::uint64_t kFirstRetryNs = kNsPerSecond / 10;
constexpr std::uint64_t kLongestRetryNs = kNsPerSecond;
/// A process that exits does not wait long in order to remove unused files, because the next process that enters does
/// the same.
constexpr ProcessTable::Timeouts kLeaveTimeouts{kNsPerSecond / 2, kNsPerSecond / 2};
/// The number of times to check, once per millisecond, whether another process that is exiting has ended.
constexpr int kLeaveLooks = 250;

// Guards the creation of the world, entering, and leaving.
platform::LongMutex entering;
// Guards the message that says why this process could not enter. Locked only inside a ForkGuard, so that no child finds
// it locked.
std::mutex failing;
std::atomic<World*> the_world{nullptr};
// Set before the world is made, while `entering` is held. A forked child inherits it.
std::atomic<bool> observing{false};
constexpr const char* kOnlyLooks = "this process is a read-only observer, and cannot change anything";
// The world is never destroyed, because threads may use it while the process runs its exit handlers.
alignas(World) std::byte world_storage[sizeof(World)];

}  // namespace

/// Makes the World. Also runs when the process ends or forks.
struct WorldMaker {
  static Expected<World*> make() {
    const bool looks = World::observes();
    auto chosen =
        RuntimeDirectory::from_environment(looks ? RuntimeDirectory::Missing::refuse : RuntimeDirectory::Missing::make);
    if (!chosen) return chosen.status();
    const RuntimeDirectory::Visit visit(*chosen);
    platform::Mapping page = platform::map_wiped_on_fork();
    if (!page) return Status{Code::no_memory, "cannot map a page: " + platform::error_text(errno)};
    auto* const identity = new (page.data()) World::Identity{};
    if (looks) return make_observed(*chosen, identity, std::move(page));
    // Another process may find the table of another boot unused, and retire it while this process is about to enter it.
    constexpr int kAttempts = 10;
    for (int attempt = 1;; ++attempt) {
      auto table = ProcessTable::open(*chosen);
      if (!table) return table.status();
      World* const world = place(std::move(*table), identity);
      Status entered = world->enter(kEnterTimeoutNs);
      if (entered.ok()) {
        page.release();
        return world;
      }
      const bool retired = !world->table_->is_current();
      world->~World();
      if (!retired || attempt == kAttempts) return entered;
    }
  }

  static Expected<World*> make_observed(const RuntimeDirectory& chosen, World::Identity* identity,
                                        platform::Mapping page) {
    auto table = ProcessTable::look(chosen);
    if (!table) return table.status();
    World* const world = place(std::move(*table), identity);
    Status ready = world->table_->prepare_to_judge();
    if (ready.ok()) {
      page.release();
      return world;
    }
    world->~World();
    return ready;
  }

  static World* place(ProcessTable table, World::Identity* identity) {
    const RuntimeDirectory directory = table.directory();
    auto* const world =
        new (world_storage) World(directory, std::make_unique<ProcessTable>(std::move(table)), identity);
    world->table_->clear_when_lost(identity->token);
    return world;
  }

  static void leave() noexcept {
    World* const world = the_world.load(std::memory_order_acquire);
    if (world == nullptr) return;
    // A process without a token is a child that has never done anything here.
    if (const Token self = world->known_token(); self != kNobody) world->leave(slot_of(self));
  }

  static void install_handlers() {
    static const bool once = [] {
      // This is for kernels that cannot wipe the page. No thread is entering now, because it would hold the table's
      // lock.
      ::pthread_atfork(nullptr, nullptr, [] {
        if (World* const world = the_world.load(std::memory_order_acquire)) {
          world->identity_->token.store(kNobody, std::memory_order_relaxed);
          world->identity_->retry_ns.store(0, std::memory_order_relaxed);
          world->identity_->pause_ns.store(0, std::memory_order_relaxed);
        }
      });
      return true;
    }();
    static_cast<void>(once);
  }
};

// Runs when the library is unloaded. It is not an exit handler, because the host's exit handlers and destructors may
// hold and take locks until then.
[[gnu::destructor]] void leave_at_the_end() noexcept { WorldMaker::leave(); }

World::World(RuntimeDirectory directory, std::unique_ptr<ProcessTable> table, Identity* identity)
    : directory_(std::move(directory)),
      table_(std::move(table)),
      sections_(&table_->slot(0).sections),
      identity_(identity) {
  static_assert(sizeof(ProcessSlot) == 64 * sizeof(std::uint64_t));  // World::sections()
}

World::~World() = default;

Expected<World*> World::current() {
  // Acquire: pairs with the release below.
  if (World* const world = the_world.load(std::memory_order_acquire)) return world;
  const platform::LongMutex::Hold only_one(entering);
  if (World* const world = the_world.load(std::memory_order_relaxed)) return world;
  auto made = WorldMaker::make();
  if (!made) return made;
  const platform::ForkGuard no_fork;  // a child inherits both the world and its handlers, or neither
  the_world.store(*made, std::memory_order_release);
  WorldMaker::install_handlers();
  return made;
}

Status World::observe() {
  const platform::LongMutex::Hold only_one(entering);
  if (!observes() && the_world.load(std::memory_order_relaxed) != nullptr)
    return {Code::exists, "this process has already joined the runtime directory"};
  observing.store(true, std::memory_order_relaxed);
  return {};
}

bool World::observes() noexcept { return observing.load(std::memory_order_relaxed); }

Status World::refuse_observer() { return {Code::invalid, kOnlyLooks}; }

Expected<KeptLife> World::enter_to_exec() {
  const KeepLife kept;
  auto world = current();
  if (!world) return world.status();
  if ((*world)->token() == kNobody) return last_failure();
  KeptLife life = kept.take();
  if (!life.program)
    return Status{Code::exists, "this process has already joined the runtime directory, without a descriptor"};
  return life;
}

// Calls `read(Code, std::string_view)` with the code and the message of the last failure.
template <class Read>
auto World::read_failure(Read&& read) {
  if (observes()) return read(Code::invalid, std::string_view(kOnlyLooks));
  const platform::ForkGuard no_fork;
  const std::lock_guard not_written(failing);
  const Identity::Failure& failure = the_world.load(std::memory_order_acquire)->identity_->failure;
  return read(failure.code, std::string_view(failure.text.data(), failure.length));
}

Status World::last_failure() {
  return read_failure([](Code code, std::string_view why) { return Status{code, std::string(why)}; });
}

Code World::last_failure_code() noexcept {
  return read_failure([](Code code, std::string_view) { return code; });
}

void World::keep_last_failure() noexcept {
  read_failure([](Code, std::string_view why) { platform::keep_sentence(why); });
}

Status World::enter(std::uint64_t timeout_ns) {
  const RuntimeDirectory::Visit visit(directory_);
  auto lock = table_->lock({timeout_ns, kEnterTimeoutNs});
  if (!lock) return lock.status();
  // A forked child has its parent's presence, so it never finds its own world empty. A process that is exiting also
  // counts as present, because it may hold locks until its last instruction.
  const bool is_first = !ProcessTable::anybody_present(*lock) && !ProcessTable::anybody_alive(*lock, std::nullopt) &&
                        !table_->end_holds(*lock, ProcessTable::Ended::all);
  if (is_first) {
    if (Status tidy = retire_unpersistent_files(directory_, table_->id()); !tidy.ok()) return tidy;
  }
  if (!presence_) {
    auto presence = table_->stay_present(*lock);
    if (!presence) return presence.status();
    presence_ = std::move(*presence);
  }
  if (Status ready = table_->prepare_to_judge(); !ready.ok()) return ready;
  auto token = table_->enter(*lock, is_first);
  if (!token) return token.status();
  // If the table is lost before this store, then lost() returns true below. Otherwise, the bus guard clears this token
  // (platform/bus_guard.cc).
  identity_->token.store(*token, std::memory_order_seq_cst);
  if (!table_->lost()) return {};
  identity_->token.store(kNobody, std::memory_order_relaxed);
  return {Code::system, "the file \"processes\" was cut short; end all processes that use it, and remove it"};
}

void World::note_failure(Code code, std::string_view why) noexcept {
  const platform::ForkGuard no_fork;
  const std::lock_guard not_read(failing);
  Identity::Failure& failure = identity_->failure;
  failure.code = code;
  failure.length = std::min(why.size(), failure.text.size());
  why.copy(failure.text.data(), failure.length);
  const std::uint64_t last = identity_->pause_ns.load(std::memory_order_relaxed);
  const std::uint64_t next = last == 0 ? kFirstRetryNs : std::min(2 * last, kLongestRetryNs);
  identity_->pause_ns.store(next, std::memory_order_relaxed);
  identity_->retry_ns.store(platform::monotonic_ns() + next, std::memory_order_relaxed);
}

bool World::is_too_early() const noexcept {
  return platform::coarse_monotonic_ns() < identity_->retry_ns.load(std::memory_order_relaxed);
}

Token World::enter_again() noexcept {
  if (observes() || is_too_early()) return kNobody;
  const platform::LongMutex::Hold only_one(entering);
  if (const Token token = known_token(); token != kNobody) return token;
  if (is_too_early()) return kNobody;
  try {
    const bool is_first = identity_->pause_ns.load(std::memory_order_relaxed) == 0;
    const Status entered = enter(is_first ? kFirstTimeoutOfChildNs : kEnterAgainTimeoutNs);
    if (entered.ok()) return known_token();
    note_failure(entered.code, entered.message);
  } catch (...) {
    note_failure(Code::no_memory, "out of memory");
  }
  return kNobody;
}

namespace {

struct Keeper {
  World* world;
  pid_t parent;
  platform::ProcessEnd end;
  platform::FileDescriptor only_one;
};

}  // namespace

// Starts a keeper if necessary. The keeper is forked, so it has this process's presence from its first instruction on.
// It does not need a slot, because it does not hold anything. If the keeper is killed, the next process that calls this
// function detects its death.
Status World::keep_for(pid_t parent) {
  if (observes()) return refuse_observer();
  if (token() == kNobody) return last_failure();
  const bool had_one = table_->had_keeper(parent);
  if (table_->has_keeper(parent)) return {};
  Keeper keeper{this, parent, {}, {}};
  const int unknown = parent > 0 ? keeper.end.open(parent) : 0;
  // Check this last: if the parent is still the same process now, the descriptor that reports its end belongs to that
  // process. A result of 0 means that the parent is in another pid namespace.
  if (parent <= 0 || ::getppid() != parent)
    return {Code::invalid, "process " + std::to_string(parent) + " is not the parent of this process"};
  if (unknown != 0)
    return {Code::system, "cannot watch process " + std::to_string(parent) + ": " + platform::error_text(unknown)};
  const auto begin = [](void* argument) {
    auto& self = *static_cast<Keeper*>(argument);
    self.only_one = self.world->table_->become_keeper(self.parent);
    return static_cast<bool>(self.only_one);
  };
  const auto stay = [](void* argument) {
    auto& self = *static_cast<Keeper*>(argument);
    self.end.wait();
    self.world->table_->end_keeping(self.parent);
    self.world->leave(std::nullopt);
  };
  const int error =
      platform::start_apart({"holdfast-keeper", keeper.end.descriptor(), table_->file(), begin, stay, &keeper});
  if (error == 0 && had_one)
    return {Code::not_found, "the holdfast-keeper that kept " + directory_.path() + " for process " +
                                 std::to_string(parent) + " was killed; a new one has replaced it"};
  if (error == 0) return {};
  return {Code::system, "cannot start a holdfast-keeper for " + directory_.path() + ": " + platform::error_text(error)};
}

// Ends this process's presence. The slot stays until the kernel releases it, because other threads may still be inside
// critical sections, and this process keeps what it holds. So this call removes nothing while another process is
// exiting, and nothing that threads of this process use. The next process that enters removes the rest.
void World::leave(std::optional<std::uint32_t> slot) noexcept {
  try {
    const platform::LongMutex::Hold only_one(entering);
    for (int look = 1; look <= kLeaveLooks; ++look) {
      {
        const RuntimeDirectory::Visit visit(directory_);
        auto lock = table_->lock(kLeaveTimeouts);
        if (!lock) return;
        presence_.reset();
        if (ProcessTable::anybody_present(*lock) || !platform::is_alone_with_background_threads()) return;
        if (!ProcessTable::anybody_alive(*lock, slot)) {
          if (table_->end_holds(*lock, ProcessTable::Ended::known)) return;
          static_cast<void>(retire_unpersistent_files(directory_, table_->id()));
          return;
        }
      }
      platform::sleep_until(platform::monotonic_ns() + kNsPerMs);
    }
  } catch (...) {
    // There is not enough memory; the next process that enters removes the files.
  }
}

Liveness World::judge(Token token) noexcept {
  if (token == kNobody) return Liveness::dead;
  if (token == known_token()) return Liveness::alive;
  if (generation_of(token) == kNeverUsed) return Liveness::dead;
  return table_->judge(slot_of(token), generation_of(token));
}

Liveness World::judge_owner(std::uint32_t owner) noexcept {
  const Token own = known_token();
  if (own != kNobody && owner_bits(own) == owner) return Liveness::alive;
  return table_->judge_process(slot_of_owner(owner), generation_of_owner(owner), kOwnerGenerationMask);
}

bool World::lost() const noexcept { return table_->lost(); }

Status World::judge_trouble() noexcept { return table_->judge_trouble(); }

std::uint64_t World::unjudged() const noexcept { return table_->unjudged(); }

const WorldId& World::id() const noexcept { return table_->id(); }

FencingRanges World::fencing() const noexcept { return table_->fencing(); }

ProcessSlot* World::slot(Token token) noexcept {
  const std::uint32_t index = slot_of(token);
  if (token == kNobody || index >= kSlots) return nullptr;
  ProcessSlot& slot = table_->slot(index);
  const std::uint64_t generation = generation_of(token);
  // Acquire: pairs with the release in ProcessTable::take_slot. One of the words may have been overwritten.
  if (slot.generations[0].load(std::memory_order_acquire) == generation) return &slot;
  return table_->generation_of_slot(index) == generation ? &slot : nullptr;
}

Token World::token_of(std::uint32_t owner) noexcept {
  const std::uint32_t index = slot_of_owner(owner);
  if (index >= kSlots) return kNobody;
  const std::uint64_t generation = table_->generation_of_slot(index);
  const bool same = (generation & kOwnerGenerationMask) == generation_of_owner(owner);
  return make_token(index, same ? generation : generation_of_owner(owner));
}

ProcessSlot* World::owner_slot(std::uint32_t owner) noexcept {
  const std::uint32_t index = slot_of_owner(owner);
  if (index >= kSlots) return nullptr;
  ProcessSlot& slot = table_->slot(index);
  const std::uint64_t generation = table_->generation_of_slot(index);
  return (generation & kOwnerGenerationMask) == generation_of_owner(owner) ? &slot : nullptr;
}

ProcessSlot* World::slot_at(std::uint32_t index) noexcept {
  if (index >= kSlots) return nullptr;
  ProcessSlot& slot = table_->slot(index);
  return slot.generations[0].load(std::memory_order_acquire) != kNeverUsed ? &slot : nullptr;  // acquire: as in slot()
}

Token World::token_at(std::uint32_t index) noexcept {
  const std::uint64_t generation = slot_at(index) != nullptr ? table_->generation_of_slot(index) : kNeverUsed;
  return generation != kNeverUsed ? make_token(index, generation) : kNobody;
}

std::string World::table_path() const { return table_->path(); }

const platform::FileId& World::table_file() const noexcept { return table_->file(); }

std::byte* World::wait_table() const noexcept { return table_->wait_table(); }

std::vector<Token> World::living() {
  std::vector<Token> tokens;
  for (const std::uint32_t index : table_->held_slots()) {
    const std::uint64_t generation = table_->generation_of_slot(index);
    if (generation != kNeverUsed) tokens.push_back(make_token(index, generation));
  }
  return tokens;
}

}  // namespace holdfast
