// The interface between holdfast and the operating system. One .cc file for each mechanism implements it.
//
// Rules for every call:
//
//  1. No call throws, logs, retries forever, or keeps state that the caller cannot see, unless its comment says so.
//  2. A call that returns `int` returns 0 or an errno value. A call that returns an object returns an empty object on
//     failure and leaves the reason in errno. Read errno before any other call.
//  3. Times are CLOCK_MONOTONIC in nanoseconds. Deadlines are absolute; kNever (base/time.h) means no deadline.
//  4. Descriptors are close-on-exec.
//  5. Shared words may be in any file mapping, so futexes are never process-private.
//  6. EINTR is handled inside, unless the call documents a result for signals.
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

/// Repeats a system call while signals interrupt it. The number of repetitions is limited, so a call that is
/// interrupted every time fails with EINTR.
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

/// Duplicates `fd` to a number above 2, closes `fd`, and returns the new number, or -1 on failure. The numbers up to 2
/// are not safe: the host may have closed standard input, output or error, but may still write log lines to these
/// numbers.
int above_standard(int fd) noexcept;

/// Owns one descriptor, whose number is always above 2. The library puts every descriptor that it opens into a
/// FileDescriptor immediately.
class FileDescriptor {
 public:
  FileDescriptor() noexcept = default;
  /// Makes an empty object if `fd` is negative, or if it is 0 to 2 and no other number is free.
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

/// The identity of a file, independent of its names.
struct FileId {
  dev_t device = 0;
  ino_t inode = 0;
  friend bool operator==(const FileId&, const FileId&) = default;
};

/// Sets `id` to the identity of the file behind `fd`. Fails with EBADF for a closed descriptor.
int file_id(int fd, FileId& id) noexcept;
/// Returns whether the descriptor still refers to that file: the host may have closed it and opened another file under
/// its number. Also returns false for -1, or if the kernel does not say.
bool is_file(int fd, const FileId& id) noexcept;

/// Closes the descriptor if it still refers to that file; the host may have closed it, and its number may now belong to
/// another file. If the kernel does not say, give_back_left_over() tries again. Does nothing for -1. Preserves errno.
void close_if_file(int fd, const FileId& id) noexcept;

/// Opens the same file again, as a new open file description with its own locks. Fails with ENOENT if /proc is not
/// mounted, and with EACCES if the caller may no longer open the file.
FileDescriptor reopen(int fd, int flags) noexcept;

/// Calls `visit` with each name in the directory, until `visit` returns false. Returns 0 after the last name, ECANCELED
/// if `visit` returned false, or another errno value.
int list_directory(int directory_fd, const std::function<bool(const char*)>& visit);

/// Reserves the first `reserved` bytes, so that no later store into them can fail, and sets the file's size to `size`.
/// Returns an errno value, such as ENOSPC, ENOMEM or EFBIG. REQUIRES: the file is empty, and its file system supports
/// fallocate.
int reserve(int fd, std::uint64_t reserved, std::uint64_t size) noexcept;

/// Returns the size of the largest file that this process may make (RLIMIT_FSIZE). Making a larger file would raise
/// SIGXFSZ.
std::uint64_t file_size_limit() noexcept;

/// Returns the free bytes of the file system that contains `fd`, or the largest number if the file system has no limit
/// or does not say.
std::uint64_t free_bytes(int fd) noexcept;

// --- what event loops watch (loop_sockets.cc) -----------------------------------------------------------

/// Owns one socket that a host may close without our knowledge, for example by closefrom(). If the host then opens
/// another file under the same number, this class does not use or close that file.
class GuardedSocket {
 public:
  GuardedSocket() noexcept = default;
  GuardedSocket(const GuardedSocket&) = delete;
  GuardedSocket& operator=(const GuardedSocket&) = delete;
  ~GuardedSocket() { close(); }

  /// Takes ownership of `fd`. On failure, only closes `fd`.
  int adopt(FileDescriptor fd) noexcept;
  void close() noexcept;
  bool is_open() const noexcept { return fd_ >= 0; }
  /// Asks the kernel whether the socket is open, and was not closed by the host. Returns false if the kernel does not
  /// say.
  bool intact() const noexcept;
  /// Returns whether the host has closed the socket. If the kernel does not say, both is_lost() and intact() return
  /// false.
  bool is_lost() const noexcept;
  int get() const noexcept { return fd_; }

 private:
  int fd_ = -1;
  FileId id_;
};

/// A descriptor for event loops to watch. It is readable from signal() to drain(). No other code reads or writes it.
/// Only one thread at a time may use this object.
class Readiness {
 public:
  /// Replaces the old descriptor with a new one that is not signalled. After EMFILE, ENFILE or ENOMEM, no descriptor is
  /// open.
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
/// The loop owns the other end. Only one thread at a time may use this object.
class SelfConnection {
 public:
  ~SelfConnection() { close(); }

  /// Listens at a new path, and no longer at an earlier one. Only this user can connect. Returns an errno value, such
  /// as ENAMETOOLONG or EACCES.
  int listen(const std::string& path) noexcept;
  /// Accepts the connection that this process has made, and stops listening. Returns EAGAIN if there is no connection,
  /// and EPERM if only other processes have connected.
  int accept() noexcept;
  /// Closes the connection and stops listening. Removes the path unless it belongs to a parent process.
  void close() noexcept;
  bool is_listening() const noexcept { return listener_.is_open(); }
  bool is_open() const noexcept { return connection_.is_open(); }

  /// Sends one byte, unless a byte was sent since the last drain(). The loop must read the byte before it calls
  /// drain().
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

/// Notifies a thread when any process closes a description of a file that was open for writing, or dies with such a
/// description. Notices arrive early, before the kernel drops the record locks of that description, and some notices
/// are spurious. Use this only in a thread that start_thread() started and that does not use other descriptors. open()
/// gives this thread its own descriptor table, so that the host does not close these descriptors by mistake, and no
/// child inherits them.
class CloseNotice {
 public:
  /// Begins to watch the file. Returns ENOSYS or EPERM if notices are not available here; EMFILE if this user has too
  /// many inotify instances; ESTALE if the path names another file.
  int open(const char* path, const FileId& file) noexcept;
  /// Waits until the deadline for a notice, and takes all notices that have arrived. Returns false if there is none.
  bool wait(std::uint64_t deadline_ns) noexcept;

 private:
  FileDescriptor fd_;
};

// --- mappings (mapping.cc) ------------------------------------------------------------------------------

std::size_t page_bytes() noexcept;

/// Owns one memory mapping. Moving the object does not change the address.
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
  /// Returns the file that is mapped. For anonymous memory, all of its fields are 0.
  const FileId& file() const noexcept { return file_; }
  /// Gives up ownership. The mapping stays forever, or until the caller puts the address into a Mapping again.
  std::byte* release() noexcept;
  void reset() noexcept;

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  FileId file_;
};

/// Maps bytes [0, size) of the file, shared, readable and writable. REQUIRES: size > 0, and the file has at least
/// `size` bytes. platform/bus_guard.h explains what happens if the file is truncated.
Mapping map_shared(int fd, std::size_t size, const LossMark& mark = {}) noexcept;
/// Maps the bytes read-only, for a file that is open for reading.
Mapping map_to_look(int fd, std::size_t size, const LossMark& mark = {}) noexcept;

/// Pins the open file description behind `fd` with a page of address space. A record lock taken through the description
/// then outlives the descriptor, and ends with this mapping or with the process (also by exec). With AtFork::drop, a
/// forked child does not inherit the pin. With AtFork::inherit, the child keeps the description alive with its own
/// mapping. REQUIRES: a ForkGuard is held from before the lock is taken until `fd` is closed.
enum class AtFork { drop, inherit };
Mapping pin_description(int fd, AtFork at_fork) noexcept;
/// Removes the pin at the address that Mapping::release() returned.
void unpin(void* pin) noexcept;

/// Allocates file system memory for all pages of a shared mapping that overlap [begin, begin + size), so that no later
/// access to these pages can fail for lack of memory. Their content does not change. Returns an errno value. After
/// ENOMEM and EFAULT, which mean that there is no memory, some pages may have been allocated.
int reserve_pages(void* begin, std::size_t size) noexcept;

/// Unmaps the memory. If the kernel refuses, the next give_back_left_over() tries again. Preserves errno.
void unmap(void* data, std::size_t size) noexcept;
/// Retries earlier failures of unmap() and close_if_file(). Each attempt at a record lock calls this first, because a
/// pin that could not be unmapped still holds a lock. Preserves errno.
void give_back_left_over() noexcept;

/// Maps one private page that reads as zero after fork. If the kernel does not support this (before Linux 4.14), the
/// page is an ordinary page, and the caller's fork handler must clear it.
Mapping map_wiped_on_fork() noexcept;

// --- futex (futex.cc) -----------------------------------------------------------------------------------

enum class WaitResult {
  woken,        // or the wake-up was spurious
  changed,      // the word was not `expected`
  timed_out,    // the deadline passed
  interrupted,  // a signal handler ran
  failed,       // the kernel refuses futexes here (a sandbox): sleep in another way
};

/// Sleeps while `word` equals `expected`, until woken or until the deadline.
WaitResult futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
                      std::uint64_t deadline_ns) noexcept;
/// Wakes at most `count` sleepers, and returns how many it woke. Does no harm if the word is no longer mapped.
int futex_wake(const std::atomic<std::uint32_t>& word, int count) noexcept;

// --- clock (clock.cc) -----------------------------------------------------------------------------------

std::uint64_t monotonic_ns() noexcept;
/// Returns monotonic_ns() as of the last timer tick. This is faster, and late by at most coarse_resolution_ns().
std::uint64_t coarse_monotonic_ns() noexcept;
std::uint64_t coarse_resolution_ns() noexcept;
std::uint64_t coarse_monotonic_ms() noexcept;
/// Returns the time of a clock that also runs while the machine is suspended.
std::uint64_t boottime_ns() noexcept;
/// Returns the processor time that the calling thread has used.
std::uint64_t thread_cpu_ns() noexcept;
/// Sleeps until the deadline, or until a signal handler has run.
void sleep_until(std::uint64_t deadline_ns) noexcept;

// --- record locks (record_lock.cc) ----------------------------------------------------------------------
// These locks on the bytes of a file belong to the open file description (OFD), not to the process. Threads of one
// process that open the file separately exclude each other, and closing another descriptor of the file drops no lock.
// The bytes need not exist in the file.

/// Tries to lock the byte. Returns 0, or EAGAIN if another open file description holds the lock. REQUIRES: `fd` is open
/// for writing.
int try_record_lock(int fd, std::uint64_t byte) noexcept;
/// Does the same for a shared lock, which any number of descriptions may hold.
int try_shared_record_lock(int fd, std::uint64_t byte) noexcept;
int record_unlock(int fd, std::uint64_t byte) noexcept;
/// Releases all locks of this description.
int record_unlock_all(int fd) noexcept;

/// Finds out whether another open file description holds a lock, shared or exclusive, in [first, first + count). On
/// success, sets `holder` to one byte that such a lock covers, or to kNoHolder.
inline constexpr std::uint64_t kNoHolder = std::numeric_limits<std::uint64_t>::max();
int find_record_lock(int fd, std::uint64_t first, std::uint64_t count, std::uint64_t& holder) noexcept;
/// Returns whether another description holds any lock on the file. Returns true if this is unknown.
bool has_record_locks(int fd) noexcept;

/// Locks a whole directory, or any other file, for this description. Returns 0 or EWOULDBLOCK.
int try_lock_description(int fd) noexcept;
int unlock_description(int fd) noexcept;

// --- copies (copy.cc) -----------------------------------------------------------------------------------

/// Copies whole words into or out of shared memory. Each word is one relaxed store or load, in no particular order. If
/// another thread writes at the same time, the copy may mix old and new words, and the caller must detect this. The
/// copy is as fast as memcpy. Do not use memcpy instead, because the compiler may read the memory twice or not at all,
/// although other processes change it.
void copy_to_shared(std::atomic<std::uint64_t>* to, const char* from, std::size_t words) noexcept;
void copy_from_shared(char* to, const std::atomic<std::uint64_t>* from, std::size_t words) noexcept;

// --- threads and processors (thread.cc) -----------------------------------------------------------------

/// Returns whether the calling thread is the only thread of this process. Returns false if this is unknown.
inline bool is_single_threaded() noexcept {
#ifdef HOLDFAST_KNOWS_SINGLE_THREADED
  return __libc_single_threaded != 0;
#else
  return false;
#endif
}

/// Marks a lambda as always inlined, so that its captures stay in registers.
#define HOLDFAST_INLINE __attribute__((always_inline))

/// Tells the processor that this code is a spin loop.
inline void cpu_relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");  // `yield` does nothing on most cores; isb takes about as long as `pause` on x86
#else
  std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
}
void yield() noexcept;
/// Returns the number of processors on which this process or other processes of the machine may run. The result is at
/// least 1, and does not change after the first call.
int processor_count() noexcept;
/// Returns a random number, which differs between processes. Not suitable for secrets.
std::uint64_t random_number() noexcept;

/// Starts a detached thread with all signals blocked, so that no handler of the process runs in it. Returns EAGAIN if
/// this user or process has too many threads.
int start_thread(void* (*body)(void*), void* argument) noexcept;
/// Stops counting this thread as a background thread. A thread that start_thread() started calls this last.
void background_thread_ends() noexcept;
/// Returns whether this process has no threads except the calling thread and threads that start_thread() started.
/// Returns false if the kernel does not say.
bool is_alone_with_background_threads() noexcept;
/// Adds to a word that only this thread and its signal handlers write. `order` is the order of the store: relaxed or
/// release.
[[gnu::always_inline]] inline void add_own(std::atomic<std::uint64_t>& word, std::int64_t step,
                                           std::memory_order order) noexcept {
#if defined(__x86_64__) && !defined(HOLDFAST_SANITIZED)
  static_assert(sizeof word == sizeof(std::uint64_t));
  static_cast<void>(order);
  // This is a single instruction. Every store on x86 is a release.
  asm volatile("addq %1, %0" : "+m"(word) : "er"(step) : "cc", "memory");
#else
  word.store(word.load(std::memory_order_relaxed) + static_cast<std::uint64_t>(step), order);
#endif
}
/// Executes a full memory barrier. REQUIRES: this thread's last access to shared memory was an atomic
/// read-modify-write, which is already such a barrier on x86.
inline void barrier_behind_exchange() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  std::atomic_signal_fence(std::memory_order_seq_cst);
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}
/// Makes every thread of this process execute a full memory barrier during the call. Returns false if the kernel
/// refuses (before Linux 4.14, and in some sandboxes).
bool pass_barrier_in_all_threads() noexcept;
/// Returns a number that identifies the calling thread. The lower half is the thread's id, the upper half the pid of
/// its process.
std::uint64_t this_thread() noexcept;
/// Returns whether the thread with this number has ended. Returns false for a thread of another process, such as the
/// parent.
bool has_thread_ended(std::uint64_t thread) noexcept;
/// Sets the name, of at most 15 characters, that ps and top show for the calling thread.
void name_this_thread(const char* name) noexcept;

// --- other processes (process.cc) -----------------------------------------------------------------------

/// Waits for the end of any process, not only of a child.
class ProcessEnd {
 public:
  /// Opens the process. Returns ESRCH if there is no such process. REQUIRES: afterwards, the caller checks that the pid
  /// still belongs to the same process.
  int open(pid_t pid) noexcept;
  /// Returns when the process has ended. If the kernel has no pidfds, returns up to a second late, or even later if a
  /// new process has the same pid.
  void wait() const noexcept;
  int descriptor() const noexcept { return fd_.get(); }

 private:
  FileDescriptor fd_;
  pid_t pid_ = 0;
};

/// The arguments of start_apart().
struct Apart {
  const char* name;      // for ps and top; at most 15 characters
  int descriptor;        // kept open; -1 for none
  FileId file;           // shared mappings of this file are kept
  bool (*begin)(void*);  // returns false if there is nothing to do
  void (*body)(void*);   // can use the descriptors that begin() opened
  void* argument;
};

/// Forks a process that is independent of the host: it is not the host's child, is in another session, and blocks all
/// signals. It has a copy of the caller's private memory, but only those descriptors and shared mappings of the caller
/// that `apart` names. So it does not keep a port, a file or a dictionary in use. It calls _exit() after
/// body(argument). begin(argument) runs first, in an intermediate process for which start_apart() waits. Returns an
/// errno value, such as EAGAIN or ENOMEM. ENOENT and EACCES mean that /proc/self/maps, which lists the mappings to
/// release, cannot be read.
int start_apart(const Apart& apart) noexcept;

// --- forks (fork_gate.cc) -------------------------------------------------------------------------------

/// Installs, once, the fork handlers that make forks wait for ForkGuards. Call this when the library is loaded, and
/// before installing fork handlers that take a mutex. Those handlers then run before the gate's handlers, which is
/// necessary because a thread that holds such a mutex may need a guard.
void install_fork_gate() noexcept;

/// While a ForkGuard exists, no thread of this process forks (through libc). So a child never inherits unfinished work,
/// such as a record lock that is not pinned yet, or a container in the middle of a change. Guards may be nested. A fork
/// waits for existing guards, and new guards wait for the fork. So a thread with a guard must not wait for anything for
/// more than a few milliseconds.
class ForkGuard {
 public:
  ForkGuard() noexcept { hold(); }
  ~ForkGuard() { let_go(); }
  /// hold() and let_go() begin and end a guard that does not correspond to a scope. REQUIRES: the thread that called
  /// hold() calls let_go().
  static void hold() noexcept;
  static void let_go() noexcept;
  ForkGuard(const ForkGuard&) = delete;
  ForkGuard& operator=(const ForkGuard&) = delete;
};

/// A mutex that may be held for a long time. Forks do not wait for it, and it is free in the child, so the data that it
/// guards must always be consistent, except while a ForkGuard exists. Do not lock it while a ForkGuard is held.
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

  // 0 means free. Bit 0 says that a thread may sleep. The other bits contain the generation of the process that has
  // locked the mutex.
  std::atomic<std::uint32_t> word_{0};
};

}  // namespace holdfast::platform
