#include "world/process_table.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <type_traits>

#include "base/failpoint.h"
#include "world/backoff.h"
#include "world/boot.h"
#include "world/kept_file.h"

namespace holdfast {

namespace {

using platform::FileDescriptor;
using platform::FileId;

constexpr const char* kTableName = "processes";
constexpr std::uint32_t kTableMode = 0600;
/// The pause between two attempts at the table's lock while no holder is recorded. No benchmark covers this constant,
/// because none measures many processes that enter together.
constexpr std::uint64_t kTableRetryNs = kNsPerMs;

/// Returns where the generations of a world begin. Each world begins at a different number, so that tokens of another
/// world, which a dictionary may still contain, do not name a process here.
std::uint64_t first_generation(const WorldId& id) noexcept { return (id.low & kGenerationMask >> 1) + 1; }

/// Returns the value that two of the three words have, or kNeverUsed.
std::uint64_t majority(const std::array<std::uint64_t, 3>& words) noexcept {
  if (words[0] == words[1] || words[0] == words[2]) return words[0];
  return words[1] == words[2] ? words[1] : kNeverUsed;
}

std::uint32_t worker_number() noexcept {
  const char* const text = ::secure_getenv("HOLDFAST_WORKER");
  if (text == nullptr) return kNoWorker;
  std::uint32_t number = kNoWorker;
  const char* const end = text + std::strlen(text);
  const auto [stopped, error] = std::from_chars(text, end, number);
  return error == std::errc() && stopped == end ? number : kNoWorker;
}

using ProgramName = std::array<char, 16>;

// The given name is written once, by the thread that sets `begun`. Other threads read it after `done` (release,
// acquire).
enum class Naming : std::uint32_t { none, begun, done };
std::atomic<Naming> naming{Naming::none};
ProgramName given_name{};

// The lower half is the pid that was passed to show_as(). The upper half is the pid of the process that called it.
std::atomic<std::uint64_t> shown_pid{0};

std::uint32_t pid_to_show() noexcept {
  const auto own = static_cast<std::uint32_t>(::getpid());
  const std::uint64_t shown = shown_pid.load(std::memory_order_relaxed);
  return shown >> 32 == own ? static_cast<std::uint32_t>(shown) : own;
}

using HostName = std::array<char, 40>;

/// Returns the host's name as this process sees it. In a container, this is the container's name.
HostName host_name() noexcept {
  utsname names{};
  HostName name{};
  if (::uname(&names) == 0) std::memcpy(name.data(), names.nodename, ::strnlen(names.nodename, name.size() - 1));
  return name;
}

template <std::size_t Words>
void store_text(const std::array<char, Words * 8>& text,
                std::array<std::atomic<std::uint64_t>, Words>& words) noexcept {
  for (std::size_t i = 0; i < Words; ++i) {
    std::uint64_t word;
    std::memcpy(&word, text.data() + i * sizeof word, sizeof word);
    words[i].store(word, std::memory_order_relaxed);
  }
}

/// Returns the name from name_program(), or else the kernel's name of the program (not of the calling thread, if /proc
/// is available).
ProgramName program_name() noexcept {
  if (naming.load(std::memory_order_acquire) == Naming::done) return given_name;
  ProgramName name{};
  const FileDescriptor fd(::open("/proc/self/comm", O_RDONLY | O_CLOEXEC));
  if (!fd || ::read(fd.get(), name.data(), name.size() - 1) <= 0) ::prctl(PR_GET_NAME, name.data());
  name.back() = '\0';
  if (char* const newline = std::strchr(name.data(), '\n')) *newline = '\0';
  return name;
}

}  // namespace

std::uint64_t pid_namespace() noexcept {
  struct stat info;
  return ::stat("/proc/self/ns/pid", &info) == 0 ? info.st_ino : 0;
}

bool name_program(std::string_view name) noexcept {
  Naming before = Naming::none;
  if (!naming.compare_exchange_strong(before, Naming::begun, std::memory_order_relaxed)) return false;
  name.copy(given_name.data(), given_name.size() - 1);
  naming.store(Naming::done, std::memory_order_release);
  return true;
}

void show_as(pid_t pid) noexcept {
  const auto own = static_cast<std::uint64_t>(::getpid());
  shown_pid.store(own << 32 | static_cast<std::uint32_t>(pid), std::memory_order_relaxed);
}

std::string comm_of(const ProcessSlot& slot) {
  char name[sizeof(ProgramName)];
  copy_text(slot.comm, name);
  return name;
}

// --- kept across exec -------------------------------------------------------------------------------------

namespace {

constinit thread_local bool keeps_life{false};
constinit thread_local int kept_for_program{-1};
constinit thread_local int kept_for_keeper{-1};
static_assert(std::is_trivially_destructible_v<decltype(keeps_life)>);
static_assert(std::is_trivially_destructible_v<decltype(kept_for_program)>);
static_assert(std::is_trivially_destructible_v<decltype(kept_for_keeper)>);

}  // namespace

KeepLife::KeepLife() noexcept { keeps_life = true; }

KeepLife::~KeepLife() {
  keeps_life = false;
  take();
}

KeptLife KeepLife::take() const noexcept {
  return {FileDescriptor(std::exchange(kept_for_program, -1)), FileDescriptor(std::exchange(kept_for_keeper, -1))};
}

Status end_kept_description(int fd) {
  if (const int error = platform::record_unlock_all(fd))
    return {Code::invalid, "bad descriptor " + std::to_string(fd) + ": " + platform::error_text(error)};
  // Waiting processes are notified when a description of the table is closed (wait/death_watch.h). Close a new
  // description, because the description of a keeper stays open if other processes have it.
  if (const int flags = ::fcntl(fd, F_GETFL); flags >= 0 && (flags & O_ACCMODE) == O_RDWR)
    platform::reopen(fd, O_RDWR | O_CLOEXEC).reset();
  FileDescriptor(fd).reset();
  return {};
}

// --- opening ---------------------------------------------------------------------------------------------

namespace {

Status cannot_lock(const RuntimeDirectory& directory, int error) {
  return {Code::system, "cannot lock " + directory.path_of(kTableName) + ": " + platform::error_text(error)};
}

Status locks_do_not_work(const RuntimeDirectory& directory, int error) {
  return {Code::system,
          "record locks do not work on " + directory.path_of(kTableName) + ": " + platform::error_text(error)};
}

// Retires the table under its lock, so that no process enters a table that is about to be removed.
Status retire_table(const RuntimeDirectory& directory, const OpenedFile& file) {
  const int error = platform::try_record_lock(file.fd.get(), kTableLock);
  if (error == EAGAIN || (error == 0 && (platform::has_record_locks(file.fd.get()) || is_anything_kept(directory))))
    return {};  // a process has entered in the meantime
  if (error != 0) return cannot_lock(directory, error);
  return retire_opened_file(directory, kTableName, file);
}

bool is_genuine(const OpenedFile& file) noexcept { return file.header().inode == file.id.inode; }
bool has_our_clock(const OpenedFile& file) noexcept {
  return is_same_time_namespace(file.header().time_namespace, this_boot().time_namespace);
}

/// Returns the error for a table that is a copy, or has another clock.
Status refuse_table(const RuntimeDirectory& directory, const OpenedFile& file) {
  const std::string path = directory.path_of(kTableName);
  if (!is_genuine(file)) {
    return {Code::corrupt, path + " is a copy, or was overwritten: it records inode " +
                               std::to_string(file.header().inode) + ", but has " + std::to_string(file.id.inode) +
                               "; stop the processes that use it"};
  }
  return {Code::mismatch, path + " is used by processes in another time namespace (" +
                              std::to_string(file.header().time_namespace) + "; this process is in " +
                              std::to_string(this_boot().time_namespace) + "); choose another HOLDFAST_DIR"};
}

/// Checks whether an opened table is still valid. If it is neither valid nor in use, retires it.
Status judge_table(const RuntimeDirectory& directory, const OpenedFile& file, bool& usable) {
  const bool is_sound = is_genuine(file) && has_our_clock(file);
  usable = is_sound && is_same_boot(file.header().boot, this_boot().id);
  if (usable) return {};
  const bool in_use = platform::has_record_locks(file.fd.get()) || is_anything_kept(directory);
  usable = is_sound && in_use;
  if (usable) return {};
  return in_use ? refuse_table(directory, file) : retire_table(directory, file);
}

}  // namespace

ProcessTable::ProcessTable(ProcessTable&& other) noexcept
    : directory_(std::move(other.directory_)),
      mapping_(std::move(other.mapping_)),
      id_(other.id_),
      time_namespace_(other.time_namespace_),
      only_looks_(other.only_looks_),
      probe_fd_(other.probe_fd_.exchange(-1, std::memory_order_relaxed)) {}

ProcessTable::~ProcessTable() { platform::close_if_file(probe_fd_.load(std::memory_order_relaxed), mapping_.file()); }

Expected<ProcessTable> ProcessTable::attach(const RuntimeDirectory& directory, const OpenedFile& file, Access access) {
  if (file.header().size != kTableBytes) {
    return Status{Code::corrupt, directory.path_of(kTableName) + " has " + std::to_string(file.header().size) +
                                     " bytes, expected " + std::to_string(kTableBytes)};
  }
  auto mapping = map_world_file(file, access);
  if (!mapping) return mapping.status();
  ProcessTable table(directory, std::move(*mapping));
  table.only_looks_ = access == Access::look;
  return table;
}

Expected<ProcessTable> ProcessTable::open(const RuntimeDirectory& directory) {
  // Retry, but not forever, because another process may create or retire the file between two steps.
  constexpr int kAttempts = 100;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    auto file = open_world_file(directory, kTableName, FileKind::processes);
    if (file) {
      bool usable = false;
      if (Status judged = judge_table(directory, *file, usable); !judged.ok()) return judged;
      if (usable) return attach(directory, *file, Access::change);
      continue;
    }
    if (file.status().code != Code::not_found) return file.status();
    const NewFile table{.kind = FileKind::processes, .size = kTableBytes, .persist = kPersistent, .mode = kTableMode};
    auto created = create_world_file(directory, kTableName, table, [](std::byte* base) {
      FencingRanges(reinterpret_cast<TableHeader*>(base)->fencing)
          .initialise();  // all other words are zero: free slots
    });
    if (created) return ProcessTable(directory, std::move(*created));
    if (created.status().code != Code::exists) return created.status();
  }
  return Status{Code::system,
                directory.path_of(kTableName) + " keeps being created and removed by other processes; try again"};
}

Expected<ProcessTable> ProcessTable::look(const RuntimeDirectory& directory) {
  auto file = look_at_world_file(directory, kTableName, FileKind::processes);
  if (!file) return file.status();
  if (!is_genuine(*file) || !has_our_clock(*file)) return refuse_table(directory, *file);
  return attach(directory, *file, Access::look);
}

ProcessTable::ProcessTable(RuntimeDirectory directory, platform::Mapping mapping)
    : directory_(std::move(directory)),
      mapping_(std::move(mapping)),
      id_(header().file.world),
      time_namespace_(header().file.time_namespace) {
  directory_.anchor(kTableName, mapping_.file(), id_, header().name_files.data(), &header().kept_uses);
}

bool ProcessTable::is_current() const noexcept {
  try {
    return is_current_file(directory_, kTableName, mapping_.file());
  } catch (...) {
    return true;  // no memory for the path
  }
}

bool ProcessTable::lost() const noexcept {
  return (header().file.retired.load(std::memory_order_relaxed) & kRetiredByDamage) != 0;
}

Expected<FileDescriptor> ProcessTable::open_file(int access) const {
  if (lost()) {
    return Status{Code::system,
                  directory_.path_of(kTableName) +
                      " was cut short while this process used it; end all processes that use it, and remove it"};
  }
  return directory_.open_anchor(access);
}

// --- the table's lock ------------------------------------------------------------------------------------

// Waiters sleep in order of arrival, on a word with the holder's pid. So hundreds of processes that are forked together
// do not starve, and leave a processor to the holder. A holder that dies does not wake others, so each sleep is
// bounded.
Expected<ProcessTable::Lock> ProcessTable::lock(const Timeouts& timeouts) const {
  const std::uint64_t start_ns = platform::monotonic_ns();
  std::uint64_t passed_on_ns = start_ns;  // when a different holder was last seen
  std::uint32_t last_holder = header().lock_holder.load(std::memory_order_relaxed);
  for (Backoff backoff;;) {
    // Make a new description for each attempt, and prevent forks while it exists, because a child would share the
    // description and hold the lock.
    auto guard = std::make_unique<platform::ForkGuard>();
    auto fd = open_file(O_RDWR);
    if (!fd) return fd.status();
    const int error = platform::try_record_lock(fd->get(), kTableLock);
    if (error == 0) {
      // A process that found the table unused may have retired it since it was opened.
      if (!is_current()) return Status{Code::system, directory_.path_of(kTableName) + " was removed or replaced"};
      header().lock_holder.store(static_cast<std::uint32_t>(::getpid()), std::memory_order_relaxed);
      return Lock(std::move(guard), std::move(*fd), &header().lock_holder);
    }
    if (error != EAGAIN) return cannot_lock(directory_, error);
    fd->reset();
    guard.reset();
    const std::uint64_t now = platform::monotonic_ns();
    const std::uint32_t holder = header().lock_holder.load(std::memory_order_relaxed);
    if (std::exchange(last_holder, holder) != holder) passed_on_ns = now;
    const std::uint64_t stopped_ns = passed_on_ns + timeouts.with_one_ns;
    const std::uint64_t end_ns = start_ns + timeouts.in_all_ns;
    if (now >= stopped_ns) return refuse_while_locked(timeouts.with_one_ns, holder);
    if (now >= end_ns) return refuse_while_others_enter(timeouts.in_all_ns);
    const std::uint64_t until_ns = std::min({now + backoff.next_ns(), stopped_ns, end_ns});
    if (holder == 0 || platform::futex_wait(header().lock_holder, holder, until_ns) == platform::WaitResult::failed) {
      platform::sleep_until(std::min(until_ns, now + kTableRetryNs));
    }
  }
}

Status ProcessTable::refuse_while_locked(std::uint64_t timeout_ns, std::uint32_t holder) const {
  return {Code::busy, directory_.path_of(kTableName) + " has been locked by " +
                          (holder != 0 ? "process " + std::to_string(holder) : "another process") + " for " +
                          std::to_string(timeout_ns / kNsPerMs) + " ms; is that process stopped?"};
}

Status ProcessTable::refuse_while_others_enter(std::uint64_t timeout_ns) const {
  return {Code::busy, "cannot lock " + directory_.path_of(kTableName) + " within " +
                          std::to_string(timeout_ns / kNsPerMs) + " ms: too many processes are joining; try again"};
}

std::string ProcessTable::path() const { return directory_.path_of(kTableName); }

// Wakes the next process after the close, because before that, the lock is still taken.
ProcessTable::Lock::~Lock() {
  if (!fd_) return;
  holder_->store(0, std::memory_order_relaxed);
  fd_.reset();
  platform::futex_wake(*holder_, 1);
}

// --- entering --------------------------------------------------------------------------------------------

void ProcessTable::describe_self(ProcessSlot& slot) const noexcept {
  store_text(program_name(), slot.comm);
  store_text(host_name(), slot.host);
  slot.pid_namespace.store(pid_namespace(), std::memory_order_relaxed);
  slot.entered_ns.store(platform::monotonic_ns(), std::memory_order_relaxed);
  slot.pid.store(pid_to_show(), std::memory_order_relaxed);
  slot.worker.store(worker_number(), std::memory_order_relaxed);
  slot.sections.store(0, std::memory_order_relaxed);
  slot.looked_ms.store(platform::coarse_monotonic_ns() / kNsPerMs, std::memory_order_relaxed);
  slot.signal.store(0, std::memory_order_relaxed);
  slot.mail_state.store(0, std::memory_order_relaxed);
  for (auto& entry : slot.mail) entry.store(0, std::memory_order_relaxed);
}

namespace {

/// Returns the next generation with the right parity, which says whether the process is kept alive across exec.
std::uint64_t generation_behind(std::uint64_t before, bool keeps) noexcept {
  const std::uint64_t next = (before + 1) & kGenerationMask;
  const std::uint64_t fitting = is_of_hold(next) == keeps ? next : (next + 1) & kGenerationMask;
  return fitting == kNeverUsed ? 2 : fitting;
}

}  // namespace

void ProcessTable::set_generation(std::uint32_t index, std::uint64_t generation) noexcept {
  // Release: a reader of this generation (World::slot) also sees what was stored before, such as the empty mailbox.
  for (auto& word : slots()[index].generations) word.store(generation, std::memory_order_release);
}

// Takes a slot. The slot's lock is free, so its last owner is dead, and under the table's lock, no other process can
// take the slot. The generation is raised before the slot's lock is taken: from then on, the old generation means a
// dead process. If this process is killed or stopped in between, only a number is skipped.
Expected<Token> ProcessTable::take_slot(const Lock& held, FileDescriptor fd, std::uint32_t index) {
  ProcessSlot& slot = slots()[index];
  describe_self(slot);
  const std::uint64_t before = generation_of_slot(index);
  const std::uint64_t generation =
      generation_behind(before == kNeverUsed ? first_generation(id_) - 1 : before, keeps_life);
  FileDescriptor program;
  if (keeps_life) {
    auto kept = keep_life(directory_, make_token(index, generation));
    if (!kept) return kept.status();
    program = std::move(*kept);
  }
  set_generation(index, generation);
  // Remove the file afterwards, because a missing file whose generation is still current counts as deleted by hand.
  if (is_of_hold(before)) forget_life(directory_, make_token(index, before));

  HOLDFAST_FAILPOINT("enter.generation_raised");
  const int error = platform::try_record_lock(fd.get(), kSlotLocks + index);
  if (error != 0) return locks_do_not_work(directory_, error);
  HOLDFAST_FAILPOINT("enter.record_locked");
  platform::Mapping pin = platform::pin_description(fd.get(), platform::AtFork::drop);
  if (!pin) return Status{Code::system, "cannot keep a process slot: " + platform::error_text(errno)};
  if (keeps_life) {
    if (const int refused = platform::try_shared_record_lock(fd.get(), kPresenceLock))
      return cannot_lock(directory_, refused);
    kept_for_keeper = fd.release();
    kept_for_program = program.release();
  }
  fd.reset();
  std::uint64_t holder = platform::kNoHolder;
  if (platform::find_record_lock(held.fd_.get(), kSlotLocks + index, 1, holder) != 0 || holder == platform::kNoHolder) {
    return Status{Code::system, "a record lock on " + directory_.path_of(kTableName) +
                                    " does not outlive its descriptor; the directory must be on tmpfs"};
  }
  pin.release();  // after this, only the end of the process frees the slot
  return make_token(index, generation);
}

Expected<Token> ProcessTable::enter(const Lock& held, bool is_tidy) {
  if (const std::uint64_t here = time_namespace_now(); !is_same_time_namespace(here, time_namespace_)) {
    return Status{Code::mismatch, "this process is in a different time namespace (" + std::to_string(here) + ") than " +
                                      directory_.path_of(kTableName) + " (" + std::to_string(time_namespace_) +
                                      "), and their clocks differ; choose another HOLDFAST_DIR"};
  }
  if (keeps_life && !is_tidy) {
    end_holds(held, Ended::known);
    remove_left_uses(directory_);
  }
  auto fd = open_file(O_RDWR);
  if (!fd) return fd.status();
  // A random start distributes the use of generations evenly over the slots.
  const auto start = static_cast<std::uint32_t>(platform::random_number() % kSlots);
  for (std::uint32_t i = 0; i < kSlots; ++i) {
    const std::uint32_t index = (start + i) % kSlots;
    std::uint64_t holder = platform::kNoHolder;
    if (const int error = platform::find_record_lock(held.fd_.get(), kSlotLocks + index, 1, holder))
      return locks_do_not_work(directory_, error);
    if (holder != platform::kNoHolder || may_be_held(index)) continue;
    return take_slot(held, std::move(*fd), index);
  }
  return Status{Code::system,
                "all " + std::to_string(kSlots) + " process slots of " + directory_.path() +
                    " are taken; end some processes, or give unrelated programs separate directories (HOLDFAST_DIR)"};
}

bool ProcessTable::anybody_present(const Lock& held) noexcept {
  std::uint64_t holder = platform::kNoHolder;
  // If the kernel does not answer, assume that processes are present, so that nothing is removed.
  return platform::find_record_lock(held.fd_.get(), kPresenceLock, 1, holder) != 0 || holder != platform::kNoHolder;
}

bool ProcessTable::anybody_alive(const Lock& held, std::optional<std::uint32_t> own) noexcept {
  const auto is_free = [&](std::uint32_t first, std::uint32_t end) {
    std::uint64_t holder = platform::kNoHolder;
    return platform::find_record_lock(held.fd_.get(), kSlotLocks + first, end - first, holder) == 0 &&
           holder == platform::kNoHolder;
  };
  const std::uint32_t index = own.value_or(kSlots);
  return !is_free(0, index) || !is_free(std::min(index + 1, kSlots), kSlots);
}

// Reads all slots only if a file may be missing, because this takes as long as the rest of leaving.
bool ProcessTable::end_holds(const Lock& held, Ended which) {
  bool is_any_alive = false;
  const auto look_at = [&](std::uint32_t index) {
    const std::uint64_t generation = generation_of_slot(index);
    std::uint64_t holder = platform::kNoHolder;
    if (!is_of_hold(generation)) return;
    if (platform::find_record_lock(held.fd_.get(), kSlotLocks + index, 1, holder) != 0) return;
    if (holder != platform::kNoHolder) return;
    const Token token = make_token(index, generation);
    const Kept kept = find_life(directory_, token);
    is_any_alive = is_any_alive || kept == Kept::locked || kept == Kept::unknown;
    // If the file is missing, it was deleted by hand, and its program may be alive.
    const bool is_gone = kept == Kept::missing && which == Ended::all && !is_anything_kept(directory_);
    if (kept != Kept::ended && !is_gone) return;
    set_generation(index, generation_behind(generation, false));
    forget_life(directory_, token);
  };
  if (which == Ended::all) {
    for (std::uint32_t index = 0; index < kSlots; ++index) look_at(index);
    return is_any_alive;
  }
  const bool found_all = for_each_life(directory_, [&](Token token) {
    if (slot_of(token) < kSlots) look_at(slot_of(token));
  });
  return is_any_alive || !found_all;
}

Expected<platform::Mapping> ProcessTable::stay_present(const Lock&) {
  auto fd = open_file(O_RDWR);
  if (!fd) return fd.status();
  const int error = platform::try_shared_record_lock(fd->get(), kPresenceLock);
  if (error != 0) return cannot_lock(directory_, error);
  platform::Mapping pin = platform::pin_description(fd->get(), platform::AtFork::inherit);
  if (!pin) return Status{Code::system, "cannot keep a lock on the file \"processes\": " + platform::error_text(errno)};
  return pin;
}

// --- keepers ---------------------------------------------------------------------------------------------

// Returns the byte of the lock for a keeper. Linux pids have at most 22 bits, and inodes of namespaces have 32.
static std::uint64_t keeper_lock(pid_t pid) noexcept {
  constexpr unsigned kPidBits = 22;
  return kKeeperLocks + ((pid_namespace() & 0xFFFFFFFFU) << kPidBits) + static_cast<std::uint64_t>(pid);
}

bool ProcessTable::has_keeper(pid_t pid) noexcept {
  const int fd = probe_descriptor();
  const std::uint64_t byte = keeper_lock(pid);
  std::uint64_t holder = platform::kNoHolder;
  return fd >= 0 && platform::find_record_lock(fd, byte, 1, holder) == 0 && holder == byte;
}

FileDescriptor ProcessTable::become_keeper(pid_t pid) const {
  auto fd = open_file(O_RDWR);
  if (!fd || platform::try_record_lock(fd->get(), keeper_lock(pid)) != 0) return {};
  header().keeper.store(keeper_lock(pid), std::memory_order_release);  // pairs with had_keeper()
  return std::move(*fd);
}

// Returns whether the last keeper for that process has not ended properly. Acquire: a process that finds the record
// also finds the lock that was taken before it, if that lock still exists.
bool ProcessTable::had_keeper(pid_t pid) const noexcept {
  return header().keeper.load(std::memory_order_acquire) == keeper_lock(pid);
}

void ProcessTable::end_keeping(pid_t pid) noexcept {
  std::uint64_t own = keeper_lock(pid);
  header().keeper.compare_exchange_strong(own, 0, std::memory_order_relaxed);
}

// --- asking the kernel -----------------------------------------------------------------------------------

int ProcessTable::probe_descriptor() noexcept {
  int known = probe_fd_.load(std::memory_order_relaxed);
  FileId id;
  const int error = platform::file_id(known, id);
  if (error == 0 && id == mapping_.file()) return known;
  // If the host has closed this number, it may already belong to the new descriptor or to another thread, so do not
  // close it.
  const bool may_be_ours = known >= 0 && error != 0 && error != EBADF;
  try {
    auto fresh = open_file(O_RDONLY);
    if (!fresh) return -1;
    // A thread that lost the race closes its own descriptor.
    if (probe_fd_.compare_exchange_strong(known, fresh->get(), std::memory_order_relaxed)) {
      if (may_be_ours) platform::close_if_file(known, mapping_.file());
      return fresh->release();
    }
  } catch (...) {
    return -1;  // no memory for the path
  }
  return platform::is_file(known, mapping_.file()) ? known : -1;
}

Status ProcessTable::prepare_to_judge() noexcept {
  if (probe_descriptor() >= 0) return {};
  try {
    auto fresh = open_file(O_RDONLY);
    return fresh ? Status{Code::system, directory_.path_of(kTableName) + " cannot be opened"} : fresh.status();
  } catch (...) {
    return {Code::no_memory, {}};
  }
}

Status ProcessTable::judge_trouble() noexcept {
  Status why = prepare_to_judge();
  try {
    // This checks the directory, which contains the files that keep processes alive across exec.
    if (auto opened = directory_.open_as_it_is(); why.ok() && !opened) why = opened.status();
    if (!why.ok()) why.message = "cannot tell whether the blocking process is alive: " + why.message;
  } catch (...) {
    why.message.clear();  // no memory for the message
  }
  if (!why.ok()) why.code = Code::system;
  return why;
}

ProcessTable::Kernel ProcessTable::ask(std::uint32_t index) noexcept {
  std::uint64_t holder = platform::kNoHolder;
  const int fast = probe_fd_.load(std::memory_order_relaxed);
  // The answer must be exactly that byte: the descriptor's number may now belong to another file, with a lock on the
  // whole file.
  if (fast >= 0 && platform::find_record_lock(fast, kSlotLocks + index, 1, holder) == 0 &&
      holder == kSlotLocks + index) {
    return Kernel::holds;
  }
  // Before concluding that a process has died, check that the descriptor referred to this file before and after the
  // query. Otherwise, a host that closes all descriptors and opens others could make live processes look dead.
  constexpr int kAttempts = 3;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const int fd = probe_descriptor();
    if (fd < 0) return Kernel::silent;
    const int error = platform::find_record_lock(fd, kSlotLocks + index, 1, holder);
    if (error != 0 || !platform::is_file(fd, mapping_.file())) continue;
    if (holder == platform::kNoHolder) return Kernel::free;
    if (holder == kSlotLocks + index) return Kernel::holds;
    break;  // a lock of more than one slot hides the owner's lock
  }
  return Kernel::silent;
}

std::uint64_t ProcessTable::generation_of_slot(std::uint32_t index) noexcept {
  auto& words = slots()[index].generations;
  std::array<std::uint64_t, 3> seen{};
  // Acquire: pairs with the release in take_slot().
  for (std::size_t i = 0; i < seen.size(); ++i) seen[i] = words[i].load(std::memory_order_acquire);
  const std::uint64_t generation = majority(seen);
  if (generation == kNeverUsed || (seen[0] == seen[1] && seen[1] == seen[2]) || only_looks_) return generation;
  // A successor that is between its three stores writes all three words anyway, and a compare-and-swap of the exact old
  // value does not damage them.
  for (std::size_t i = 0; i < seen.size(); ++i) {
    if (seen[i] != generation &&
        words[i].compare_exchange_strong(seen[i], generation, std::memory_order_release, std::memory_order_relaxed)) {
      fencing().count_corruption_repaired();
    }
  }
  return generation;
}

// Asks the kernel first, because the generation does not change while the slot is held.
Liveness ProcessTable::judge(std::uint32_t index, std::uint64_t generation) noexcept {
  Liveness found = judge_process(index, generation, kGenerationMask);
  if (found != Liveness::dead || !is_of_hold(generation) || index >= kSlots) return found;
  found = judge_hold(index, generation);
  if (found == Liveness::unknown) count_unjudged();
  return found;
}

Liveness ProcessTable::judge_process(std::uint32_t index, std::uint64_t generation,
                                     std::uint64_t generation_mask) noexcept {
  if (index >= kSlots) return Liveness::dead;
  const Kernel kernel = ask(index);
  if (kernel == Kernel::free) return Liveness::dead;
  if (kernel == Kernel::holds) {
    const std::uint64_t current = generation_of_slot(index);
    if (current != kNeverUsed) return (current & generation_mask) == generation ? Liveness::alive : Liveness::dead;
  }
  count_unjudged();
  return Liveness::unknown;
}

void ProcessTable::count_unjudged() noexcept {
  if (!only_looks_) header().unjudged.fetch_add(1, std::memory_order_relaxed);
}

// The generation does not change while the file is locked.
Liveness ProcessTable::judge_hold(std::uint32_t index, std::uint64_t generation) noexcept {
  const std::uint64_t current = generation_of_slot(index);
  if (current == kNeverUsed) {  // never used, or its words were overwritten
    const auto& words = slots()[index].generations;
    const auto is_zero = [](const auto& word) { return word.load(std::memory_order_relaxed) == 0; };
    return std::all_of(words.begin(), words.end(), is_zero) ? Liveness::dead : Liveness::unknown;
  }
  if (current != generation) return Liveness::dead;
  const Kept kept = find_life(directory_, make_token(index, current));
  if (kept == Kept::locked) return Liveness::alive;
  if (kept == Kept::ended) return Liveness::dead;
  // A successor removes the file after it has raised the generation.
  return generation_of_slot(index) == current ? Liveness::unknown : Liveness::dead;
}

bool ProcessTable::may_be_held(std::uint32_t index) noexcept {
  const std::uint64_t generation = generation_of_slot(index);
  return is_of_hold(generation) && judge_hold(index, generation) != Liveness::dead;
}

std::vector<std::uint32_t> ProcessTable::held_slots() {
  std::vector<std::uint32_t> result;
  const int fd = probe_descriptor();
  if (fd < 0) return result;
  // The kernel reports only one of the locks in a range. This lock splits the range in two.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> ranges{{0, kSlots}};
  while (!ranges.empty()) {
    const auto [first, end] = ranges.back();
    ranges.pop_back();
    std::uint64_t holder = platform::kNoHolder;
    if (first >= end || platform::find_record_lock(fd, kSlotLocks + first, end - first, holder) != 0) continue;
    if (holder < kSlotLocks + first || holder >= kSlotLocks + end) continue;  // there is no lock, or only a foreign one
    const auto index = static_cast<std::uint32_t>(holder - kSlotLocks);
    result.push_back(index);
    ranges.emplace_back(first, index);
    ranges.emplace_back(index + 1, end);
  }
  std::sort(result.begin(), result.end());
  const auto locked = static_cast<std::ptrdiff_t>(result.size());
  for (std::uint32_t index = 0; index < kSlots; ++index) {
    const bool is_locked = std::binary_search(result.begin(), result.begin() + locked, index);
    if (!is_locked && may_be_held(index)) result.push_back(index);
  }
  std::sort(result.begin(), result.end());
  return result;
}

}  // namespace holdfast
