// The contract between holdfast and the operating system. One .cc file per mechanism implements it.
//
// Rules for every call:
//
//  1. Nothing here throws, logs, retries for ever or keeps state that the caller cannot see, unless it says so.
//  2. A call that returns `int` returns 0 or an errno value. A call that returns an object returns an empty one on
//     failure and leaves the reason in errno; the caller reads it on the next line.
//  3. Times are CLOCK_MONOTONIC in nanoseconds. Deadlines are absolute; kNever (base/time.h) is one.
//  4. Descriptors are close-on-exec.
//  5. Shared words may lie in any file mapping, so futexes are never process-private.
//  6. EINTR is handled inside, unless a signal is one of the documented results.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <utility>

#include "base/time.h"
#include "platform/bus_guard.h"

#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#define HOLDFAST_KNOWS_SINGLE_THREADED
#endif

namespace holdfast::platform {

/// Repeats a system call while signals interrupt it, within limits: a call that is interrupted every time fails with
/// EINTR.
template <class Call>
auto uninterrupted(Call&& call) noexcept {
  constexpr int kTries = 100;
  auto result = call();
  for (int tries = 1; result < 0 && errno == EINTR && tries < kTries; ++tries) result = call();
  return result;
}

/// Returns the system's message for an errno value. Thread-safe.
std::string error_text(int error);

// --- descriptors and files (descriptor.cc) -------------------------------------------------------------

/// Returns the same description under a number above 2, and closes `fd`. The host may have closed standard input,
/// output or error, but it may still write its next log line there. -1 on failure.
int above_standard(int fd) noexcept;

/// Owns one descriptor, never 0 to 2. The library puts every descriptor that it opens into one at once.
class FileDescriptor {
 public:
  FileDescriptor() noexcept = default;
  /// Also empty if `fd` is 0 to 2 and no other number is free.
  explicit FileDescriptor(int fd) noexcept : fd_(fd < 0 || fd > 2 ? fd : above_standard(fd)) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(other.release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  ~FileDescriptor() { reset(); }

  explicit operator bool() const noexcept { return fd_ >= 0; }
  int get() const noexcept { return fd_; }
  int release() noexcept { return std::exchange(fd_, -1); }
  void reset(int fd = -1) noexcept;

 private:
  int fd_ = -1;
};

/// Identity of a file, whatever its names.
struct FileId {
  dev_t device = 0;
  ino_t inode = 0;
  friend bool operator==(const FileId&, const FileId&) = default;
};

/// Fails with EBADF for a closed descriptor.
int file_id(int fd, FileId& id) noexcept;
/// Returns whether the descriptor refers to that file. The host may have closed it and opened another file under its
/// number. Also false for -1, or if the kernel does not say.
bool is_file(int fd, const FileId& id) noexcept;

/// Closes the descriptor if it refers to that file: the host may have closed it, and the number may belong to another
/// file now. If the kernel does not say, give_back_left_over() asks again. Does nothing for -1. Keeps errno.
void close_if_file(int fd, const FileId& id) noexcept;

/// Opens the same file again: a new open file description with its own locks. REQUIRES: /proc is mounted, and the
/// caller may still open the file (otherwise ENOENT or EACCES).
FileDescriptor reopen(int fd, int flags) noexcept;

/// Calls `visit` with each name in the directory until it returns false. Returns 0 if it has seen all names, ECANCELED
/// if `visit` stopped it, or another errno value.
int list_directory(int directory_fd, const std::function<bool(const char*)>& visit);

/// Reserves the first `reserved` bytes, so that no later store into them can fail, and sets the file's size to `size`.
/// REQUIRES: the file is empty and on a file system that supports fallocate. ENOSPC, ENOMEM, EFBIG.
int reserve(int fd, std::uint64_t reserved, std::uint64_t size) noexcept;

/// Largest file that this process may make (RLIMIT_FSIZE). Asking for more would raise SIGXFSZ.
std::uint64_t file_size_limit() noexcept;

/// Free bytes of the file system that holds `fd`; the largest number if it has no limit or does not say.
std::uint64_t free_bytes(int fd) noexcept;

// --- what event loops watch (loop_sockets.cc) -----------------------------------------------------------

/// Owns one socket that a host may close without our knowledge, as closefrom() does. It neither uses nor closes a
/// descriptor that the host then opens under the same number.
class GuardedSocket {
 public:
  GuardedSocket() noexcept = default;
  GuardedSocket(const GuardedSocket&) = delete;
  GuardedSocket& operator=(const GuardedSocket&) = delete;
  ~GuardedSocket() { close(); }

  /// Takes over `fd`. On failure nothing changes, and `fd` is closed.
  int adopt(FileDescriptor fd) noexcept;
  void close() noexcept;
  bool is_open() const noexcept { return fd_ >= 0; }
  /// Returns whether it is open, and the host has not closed it. Asks the kernel; also false if the kernel does not
  /// say.
  bool intact() const noexcept;
  /// Returns whether the host has closed it. If the kernel does not say, both this and intact() are false.
  bool is_lost() const noexcept;
  int get() const noexcept { return fd_; }

 private:
  int fd_ = -1;
  FileId id_;
};

/// A descriptor for event loops to watch: readable from signal() to drain(). Nobody else reads or writes it. For one
/// thread at a time.
class Readiness {
 public:
  /// Replaces the old descriptor by a new one, not signalled. EMFILE, ENFILE, ENOMEM: then none is open.
  int open() noexcept;
  void close() noexcept;
  bool is_open() const noexcept { return reader_.is_open(); }
  bool is_lost() const noexcept { return reader_.is_lost() || writer_.is_lost(); }
  int descriptor() const noexcept { return reader_.get(); }

  void signal() noexcept;
  void drain() noexcept;

 private:
  GuardedSocket reader_;
  GuardedSocket writer_;
  bool signalled_ = false;
};

/// A stream connection of this process to itself, for event loops that can wait only for connections that they opened.
/// The loop has the other end. For one thread at a time.
class SelfConnection {
 public:
  ~SelfConnection() { close(); }

  /// Listens at a new path, for this user only, instead of at earlier ones. ENAMETOOLONG, EACCES, ...
  int listen(const std::string& path) noexcept;
  /// Accepts the connection that this process made and stops listening. EAGAIN: there is none. EPERM: only connections
  /// of others are there.
  int accept() noexcept;
  /// Closes the connection and stops listening. Removes the path unless it belongs to a parent process.
  void close() noexcept;
  bool is_listening() const noexcept { return listener_.is_open(); }
  bool is_open() const noexcept { return connection_.is_open(); }

  /// Sends one byte, unless one was sent since the last drain(). The loop must read it before it calls drain().
  void signal() noexcept;
  void drain() noexcept { signalled_ = false; }

 private:
  void end_listening() noexcept;

  GuardedSocket listener_;
  GuardedSocket connection_;
  std::string path_;
  pid_t listening_pid_ = 0;
  bool signalled_ = false;
};

// --- notices that a file was closed (close_notice.cc) ---------------------------------------------------

/// Notifies a thread when any process has closed a description of a file that was open for writing, or died with one.
/// Notices come early, before the kernel drops the record locks of that description; some are spurious. Only for a
/// thread of start_thread() that uses no other descriptor: open() gives the thread its own descriptor table, so no host
/// closes these descriptors by mistake, and no child inherits them.
class CloseNotice {
 public:
  /// ENOSYS, EPERM: not available here. EMFILE: this user has too many inotify instances. ESTALE: the path names
  /// another file.
  int open(const char* path, const FileId& file) noexcept;
  /// Waits until the deadline for a notice and takes all that have arrived. False if none came.
  bool wait(std::uint64_t deadline_ns) noexcept;

 private:
  FileDescriptor fd_;
};

// --- mappings (mapping.cc) ------------------------------------------------------------------------------

std::size_t page_bytes() noexcept;

/// Owns one memory mapping. Moving the object keeps the address.
class Mapping {
 public:
  Mapping() noexcept = default;
  Mapping(void* data, std::size_t size, FileId file = {}) noexcept
      : data_(static_cast<std::byte*>(data)), size_(size), file_(file) {}
  Mapping(Mapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)), file_(other.file_) {}
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping() { reset(); }

  explicit operator bool() const noexcept { return data_ != nullptr; }
  std::byte* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }
  /// Returns the file that is mapped; all zero for anonymous memory.
  const FileId& file() const noexcept { return file_; }
  /// Gives up ownership: the mapping stays forever, or until the caller wraps the address again.
  std::byte* release() noexcept;
  void reset() noexcept;

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  FileId file_;
};

/// Maps bytes [0, size) of the file, shared, readable and writable. REQUIRES: size > 0, and not beyond the end of the
/// file. platform/bus_guard.h says what happens if the file is truncated.
Mapping map_shared(int fd, std::size_t size, const LossMark& mark = {}) noexcept;
/// The same, read-only, for a file that is open for reading.
Mapping map_to_look(int fd, std::size_t size, const LossMark& mark = {}) noexcept;

/// Pins the open file description behind `fd` with a page of address space. A record lock taken through it then
/// outlives the descriptor: it ends with this mapping or with the process (also by exec). A forked child does not
/// inherit the pin (AtFork::drop), or keeps it alive with its own mapping (AtFork::inherit). REQUIRES: a ForkGuard is
/// held from before the lock is taken until `fd` is closed.
enum class AtFork { drop, inherit };
Mapping pin_description(int fd, AtFork at_fork) noexcept;
/// Removes a pin, given the address from Mapping::release().
void unpin(void* pin) noexcept;

/// Allocates memory of the file system for all pages of a shared mapping that overlap [begin, begin + size). Then no
/// later access to them can fail for lack of memory. Their content stays. Returns an errno value: ENOMEM and EFAULT
/// mean that there is no memory, and some pages may have been allocated.
int reserve_pages(void* begin, std::size_t size) noexcept;

/// Unmaps. If the kernel refuses, the next give_back_left_over() tries again. Keeps errno.
void unmap(void* data, std::size_t size) noexcept;
/// Runs before each attempt at a record lock: a pin that could not be unmapped still holds one. Keeps errno.
void give_back_left_over() noexcept;

/// Maps one private page that reads as zero after fork. If the kernel cannot do this (before Linux 4.14), the page is
/// ordinary, and the caller's fork handler must clear it.
Mapping map_wiped_on_fork() noexcept;

// --- futex (futex.cc) -----------------------------------------------------------------------------------

enum class WaitResult {
  woken,        // or a spurious wake-up
  changed,      // the word was not `expected`
  timed_out,    // the deadline passed
  interrupted,  // a signal handler ran
  failed,       // the kernel refuses futexes here (a sandbox): sleep by other means
};

/// Sleeps while `word` equals `expected`, until woken or until the deadline.
WaitResult futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
                      std::uint64_t deadline_ns) noexcept;
/// Wakes at most `count` sleepers and returns how many. Harmless if the word is no longer mapped.
int futex_wake(const std::atomic<std::uint32_t>& word, int count) noexcept;

// --- clock (clock.cc) -----------------------------------------------------------------------------------

std::uint64_t monotonic_ns() noexcept;
/// The same clock at the last timer tick: cheaper, and late by at most coarse_resolution_ns().
std::uint64_t coarse_monotonic_ns() noexcept;
std::uint64_t coarse_resolution_ns() noexcept;
std::uint64_t coarse_monotonic_ms() noexcept;
/// This clock also runs while the machine is suspended.
std::uint64_t boottime_ns() noexcept;
/// Processor time that the calling thread has used.
std::uint64_t thread_cpu_ns() noexcept;
/// Sleeps until the deadline or until a signal handler has run.
void sleep_until(std::uint64_t deadline_ns) noexcept;

// --- record locks (record_lock.cc) ----------------------------------------------------------------------
// Locks on bytes of a file that belong to the open file description (OFD), not to the process. Threads of one process
// that open the file separately exclude each other, and closing another descriptor of the file drops no lock.
// The bytes need not exist.

/// Returns 0, or EAGAIN if another open file description holds the lock. REQUIRES: `fd` is open for writing.
int try_record_lock(int fd, std::uint64_t byte) noexcept;
/// The same for a shared lock, which any number of descriptions may hold.
int try_shared_record_lock(int fd, std::uint64_t byte) noexcept;
int record_unlock(int fd, std::uint64_t byte) noexcept;
/// Releases all locks of this description.
int record_unlock_all(int fd) noexcept;

/// Finds out whether another open file description holds a lock, shared or exclusive, in [first, first + count). On
/// success, `holder` is the number of one byte that such a lock covers, or kNoHolder.
inline constexpr std::uint64_t kNoHolder = std::numeric_limits<std::uint64_t>::max();
int find_record_lock(int fd, std::uint64_t first, std::uint64_t count, std::uint64_t& holder) noexcept;
/// Returns whether another description holds any lock on the file. True if unknown.
bool has_record_locks(int fd) noexcept;

/// Locks a whole directory (or any file) for this description. Returns 0 or EWOULDBLOCK.
int try_lock_description(int fd) noexcept;
int unlock_description(int fd) noexcept;

// --- copies (copy.cc) -----------------------------------------------------------------------------------

/// Copies whole words into or out of shared memory. Each word is one relaxed store or load, in no particular order.
/// With a concurrent write the copy is a mixture, which the caller must detect. It is as fast as memcpy. memcpy must
/// not be used here: a compiler may read the memory twice or not at all, although others change it.
void copy_to_shared(std::atomic<std::uint64_t>* to, const char* from, std::size_t words) noexcept;
void copy_from_shared(char* to, const std::atomic<std::uint64_t>* from, std::size_t words) noexcept;

// --- threads and processors (thread.cc) -----------------------------------------------------------------

/// Returns whether the calling thread is the only one of this process; false if unknown.
inline bool is_single_threaded() noexcept {
#ifdef HOLDFAST_KNOWS_SINGLE_THREADED
  return __libc_single_threaded != 0;
#else
  return false;
#endif
}

/// For a lambda: always inlined, so that its captures stay in registers.
#define HOLDFAST_INLINE __attribute__((always_inline))

/// Tells the processor that this is a spin loop.
inline void cpu_relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");  // `yield` does nothing on most cores; isb takes about as long as x86's pause
#else
  std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
}
void yield() noexcept;
/// Returns the number of processors on which this process, or others beside it, may run, as of the first call; at least
/// 1.
int processor_count() noexcept;
/// Returns a random number, not for secrets. Different processes get different ones.
std::uint64_t random_number() noexcept;

/// Starts a detached thread with all signals blocked, so that no handler of the process runs in it. EAGAIN: too many
/// threads of this user or process.
int start_thread(void* (*body)(void*), void* argument) noexcept;
/// A thread started by start_thread() calls this last.
void background_thread_ends() noexcept;
/// Returns whether this process has no threads but the calling one and those from start_thread(); false if the kernel
/// does not say.
bool is_alone_with_background_threads() noexcept;
/// Adds to a word that only this thread and its signal handlers write. `order` is the order of the store: relaxed or
/// release.
[[gnu::always_inline]] inline void add_own(std::atomic<std::uint64_t>& word, std::int64_t step,
                                           std::memory_order order) noexcept {
#if defined(__x86_64__) && !defined(HOLDFAST_SANITIZED)
  static_assert(sizeof word == sizeof(std::uint64_t));
  static_cast<void>(order);
  // One instruction without a register. Every store on x86 is a release.
  asm volatile("addq %1, %0" : "+m"(word) : "er"(step) : "cc", "memory");
#else
  word.store(word.load(std::memory_order_relaxed) + static_cast<std::uint64_t>(step), order);
#endif
}
/// A full memory barrier. REQUIRES: this thread's last access to shared memory was an atomic read-modify-write, which
/// on x86 already is such a barrier.
inline void barrier_behind_exchange() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  std::atomic_signal_fence(std::memory_order_seq_cst);
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}
/// Makes every thread of this process execute a full memory barrier at some moment during the call, wherever it runs.
/// False if the kernel refuses (before Linux 4.14, and in some sandboxes).
bool pass_barrier_in_all_threads() noexcept;
/// Identifies the calling thread: the lower half is its id, the upper half its process's pid.
std::uint64_t this_thread() noexcept;
/// Returns whether that thread has ended. Also false for a thread of another process, such as a parent.
bool has_thread_ended(std::uint64_t thread) noexcept;
/// Sets the name that ps and top show for the calling thread; at most 15 characters.
void name_this_thread(const char* name) noexcept;

// --- other processes (process.cc) -----------------------------------------------------------------------

/// Waits for the end of any process, not only of a child.
class ProcessEnd {
 public:
  /// ESRCH: no such process. REQUIRES: the caller checks afterwards that the pid still belongs to the same process.
  int open(pid_t pid) noexcept;
  /// Returns when the process has ended. Without pidfd in the kernel this takes up to a second longer, or as long as
  /// another process has the same pid.
  void wait() const noexcept;
  int descriptor() const noexcept { return fd_.get(); }

 private:
  FileDescriptor fd_;
  pid_t pid_ = 0;
};

/// Arguments of start_apart().
struct Apart {
  const char* name;      // at most 15 characters, for ps and top
  int descriptor;        // kept open; -1: none
  FileId file;           // shared mappings of this file are kept
  bool (*begin)(void*);  // false: nothing to do
  void (*body)(void*);   // runs with everything open that begin() opened
  void* argument;
};

/// Forks a process that is independent of the host: not its child, in another session, all signals blocked. It has the
/// caller's private memory, but none of its descriptors and shared mappings except those in `apart`, so it keeps no
/// port, file or dictionary in use. It calls _exit() after body(argument). begin(argument) runs first, in an
/// intermediate process that start_apart() waits for. Returns an errno value: EAGAIN, ENOMEM; ENOENT or EACCES if it
/// cannot read /proc/self/maps, which it needs to release the mappings.
int start_apart(const Apart& apart) noexcept;

// --- forks (fork_gate.cc) -------------------------------------------------------------------------------

/// Installs, once, the fork handlers that make forks wait for ForkGuards. Call it when the library is loaded, before
/// installing fork handlers that take a mutex: those then run before this one, as a thread that holds such a mutex may
/// want a guard.
void install_fork_gate() noexcept;

/// While a ForkGuard exists, no thread of this process forks (through libc). So no half-finished work gets into a
/// child, such as a record lock that is not pinned yet or a container in the middle of a change. Guards nest. A fork
/// waits for existing guards, and new guards wait for the fork, so while you hold one, wait for others a few
/// milliseconds at most.
class ForkGuard {
 public:
  ForkGuard() noexcept { hold(); }
  ~ForkGuard() { let_go(); }
  /// The same where no scope fits. REQUIRES: the thread that called hold() calls let_go().
  static void hold() noexcept;
  static void let_go() noexcept;
  ForkGuard(const ForkGuard&) = delete;
  ForkGuard& operator=(const ForkGuard&) = delete;
};

/// A mutex that may be held for long: forks do not wait for it, and it is free in the child. So the data that it guards
/// must be usable at any time, except while a ForkGuard exists. Do not lock it while you hold a ForkGuard.
class LongMutex {
 public:
  /// Holds the mutex for a scope.
  class Hold {
   public:
    explicit Hold(LongMutex& mutex) noexcept : mutex_(mutex), word_(mutex.lock()) {}
    ~Hold() { mutex_.unlock(word_); }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

   private:
    LongMutex& mutex_;
    std::uint32_t word_;
  };

 private:
  std::uint32_t lock() noexcept;
  void unlock(std::uint32_t word) noexcept;

  // 0: free. Bit 0: a thread may sleep. Above: the process, in a line of forks, that locked it.
  std::atomic<std::uint32_t> word_{0};
};

}  // namespace holdfast::platform
