#include "world/world.h"

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <new>
#include <type_traits>

#include "platform/platform.h"
#include "platform/sentences.h"
#include "world/process_table.h"
#include "world/world_file.h"

namespace holdfast {

namespace {

constexpr std::uint64_t kEnterPatienceNs = 5 * platform::kNsPerSecond;
/// A process that exits does not wait long to tidy up: the next one that enters does it too.
constexpr std::uint64_t kLeavePatienceNs = platform::kNsPerSecond / 2;

constexpr std::uint64_t kWordGenerationMask = (std::uint64_t{1} << 20) - 1;
constexpr std::uint64_t kNeverUsed = 0;  // generation

// Guards the birth of the world, entering and leaving.
platform::LongMutex entering;
std::atomic<World*> the_world{nullptr};
// The world is never destroyed: threads may use it while the process runs its exit handlers.
alignas(World) std::byte world_storage[sizeof(World)];

// Why the last token() of a thread was kNobody; its sentence is kept elsewhere.
constinit thread_local Code failure_of_this_thread = Code::ok;
static_assert(std::is_trivially_destructible_v<decltype(failure_of_this_thread)>);

}  // namespace

/// The steps that are not the class's own: making one, and what the process does when it ends or forks.
struct WorldMaker {
  static Expected<World*> make() {
    auto chosen = RuntimeDirectory::from_environment();
    if (!chosen) return chosen.status();
    auto table = ProcessTable::open(*chosen);
    if (!table) return table.status();
    platform::Mapping page = platform::map_wiped_on_fork();
    if (!page) return Status{Code::no_memory, "cannot map a page: " + platform::error_text(errno)};

    auto* const identity = new (page.data()) std::atomic<Token>(kNobody);
    const RuntimeDirectory directory = table->directory();
    auto* const world =
        new (world_storage) World(directory, std::make_unique<ProcessTable>(std::move(*table)), identity);
    if (Status entered = world->enter(); !entered.ok()) {
      world->~World();
      return entered;
    }
    page.release();
    return world;
  }

  static void install_handlers() {
    static const bool once = [] {
      std::atexit([] {
        if (World* const world = the_world.load(std::memory_order_acquire)) world->leave();
      });
      // The page wipes itself; this is for kernels that cannot. No thread is entering then: it would have the table's
      // lock.
      ::pthread_atfork(nullptr, nullptr, [] {
        if (World* const world = the_world.load(std::memory_order_acquire)) {
          world->identity_->store(kNobody, std::memory_order_relaxed);
        }
      });
      return true;
    }();
    static_cast<void>(once);
  }
};

World::World(RuntimeDirectory directory, std::unique_ptr<ProcessTable> table, std::atomic<Token>* identity)
    : directory_(std::move(directory)), table_(std::move(table)), identity_(identity) {}

World::~World() = default;

Expected<World*> World::current() {
  // Acquire: pairs with the release below.
  if (World* const world = the_world.load(std::memory_order_acquire)) return world;
  const platform::LongMutex::Hold only_one(entering);
  if (World* const world = the_world.load(std::memory_order_relaxed)) return world;
  auto made = WorldMaker::make();
  if (!made) return made;
  const platform::ForkGuard no_fork;  // a child has both, or neither
  the_world.store(*made, std::memory_order_release);
  WorldMaker::install_handlers();
  return made;
}

Code World::last_failure_code() noexcept { return failure_of_this_thread; }

Status World::last_failure() { return {failure_of_this_thread, platform::kept_sentence(platform::About::entering)}; }

Status World::enter() {
  auto lock = table_->lock(kEnterPatienceNs);
  if (!lock) return lock.status();
  // A forked child that enters has its parent's presence: it does not find its own world dead.
  if (!ProcessTable::anybody_present(*lock)) retire_unpersistent_files(directory_);
  if (!presence_) {
    auto presence = table_->stay_present(*lock);
    if (!presence) return presence.status();
    presence_ = std::move(*presence);
  }
  auto token = table_->enter(*lock);
  if (!token) return token.status();
  // Relaxed: other threads need nothing but the number.
  identity_->store(*token, std::memory_order_relaxed);
  return {};
}

Token World::enter_again() noexcept {
  try {
    const platform::LongMutex::Hold only_one(entering);
    if (const Token token = identity_->load(std::memory_order_relaxed); token != kNobody) return token;
    Status entered = enter();
    if (entered.ok()) return identity_->load(std::memory_order_relaxed);
    failure_of_this_thread = entered.code;
    platform::keep_sentence(platform::About::entering, entered.message);
  } catch (...) {
    failure_of_this_thread = Code::no_memory;
    platform::keep_literal(platform::About::entering, "out of memory");
  }
  return kNobody;
}

// The slot stays until the kernel takes it: other threads may still be inside critical sections.
void World::leave() noexcept {
  try {
    if (identity_->load(std::memory_order_relaxed) == kNobody) return;  // a child that never did anything here
    const platform::LongMutex::Hold only_one(entering);
    auto lock = table_->lock(kLeavePatienceNs);
    if (!lock) return;
    presence_.reset();
    if (!ProcessTable::anybody_present(*lock)) retire_unpersistent_files(directory_);
  } catch (...) {
    // No memory to tidy up with; the next one that enters does it.
  }
}

bool World::alive(Token token) noexcept {
  if (token == kNobody) return false;
  if (token == identity_->load(std::memory_order_relaxed)) return true;
  if (generation_of(token) == kNeverUsed) return false;
  return table_->is_alive(slot_of(token), generation_of(token), kGenerationMask);
}

bool World::owner_alive(std::uint32_t owner) noexcept {
  const Token own = identity_->load(std::memory_order_relaxed);
  const std::uint32_t slot = (owner >> 20 & 0x7FF) - 1;
  const std::uint64_t generation = owner & kWordGenerationMask;
  if (own != kNobody && slot_of(own) == slot && (own & kWordGenerationMask) == generation) return true;
  return table_->is_alive(slot, generation, kWordGenerationMask);
}

ProcessSlot* World::slot(Token token) noexcept {
  const std::uint32_t index = slot_of(token);
  if (token == kNobody || index >= kSlots) return nullptr;
  ProcessSlot& slot = table_->slot(index);
  // Acquire: pairs with the release in ProcessTable::enter.
  if (slot.generation.load(std::memory_order_acquire) != generation_of(token)) return nullptr;
  return &slot;
}

WaitTable World::waits() const noexcept { return table_->waits(); }

std::vector<Token> World::living() {
  std::vector<Token> tokens;
  for (const std::uint32_t index : table_->held_slots()) {
    const std::uint64_t generation = table_->slot(index).generation.load(std::memory_order_acquire);
    if (generation != kNeverUsed) tokens.push_back(make_token(index, generation));
  }
  return tokens;
}

}  // namespace holdfast
