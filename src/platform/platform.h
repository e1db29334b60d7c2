// What holdfast needs from the operating system, as a contract. One .cc file per mechanism implements it.
//
// Rules for every call:
//
//  1. Nothing here throws, logs, retries for ever or keeps state that the caller cannot see, except where it says so.
//  2. A call that returns `int` returns 0 or an errno value. A call that returns an object returns an empty one on
//     failure and leaves the reason in errno, which the caller reads on the next line.
//  3. Times are CLOCK_MONOTONIC in nanoseconds; deadlines are absolute; kNever (base/time.h) is one.
//  4. Descriptors are close-on-exec.
//  5. Shared words may lie in any file mapping: futexes are never process-private.
//  6. EINTR is handled inside, except where a signal is one of the documented results.
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

/// Makes a system call again while signals interrupt it, within reason: a call that is refused for ever fails with
/// EINTR.
template <class Call>
auto uninterrupted(Call&& call) noexcept {
  constexpr int kTries = 100;
  auto result = call();
  for (int tries = 1; result < 0 && errno == EINTR && tries < kTries; ++tries) result = call();
  return result;
}

/// The system's sentence for an errno value. Any thread.
std::string error_text(int error);

// --- descriptors and files (descriptor.cc) -------------------------------------------------------------

/// The same description under a number above those of standard input, output and error, which are not free to use
/// though the host has closed them: its next log line would go there. Closes `fd`. -1 on failure.
int above_standard(int fd) noexcept;

/// Owns one descriptor, which is none of 0 to 2. All that this library opens becomes one at once.
class FileDescriptor {
 public:
  FileDescriptor() noexcept = default;
  /// Empty also if `fd` is one of 0 to 2, and no other number is free.
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

/// Which file it is, whatever its names.
struct FileId {
  dev_t device = 0;
  ino_t inode = 0;
  friend bool operator==(const FileId&, const FileId&) = default;
};

/// Fails with EBADF for a closed descriptor.
int file_id(int fd, FileId& id) noexcept;
/// Whether the descriptor is of that file: the host may have closed it and opened another under its number. False also
/// if the kernel does not say, and for -1.
bool is_file(int fd, const FileId& id) noexcept;

/// Closes the descriptor if it is of that file: a host may have closed it behind our back, and the number may belong to
/// another file by now. If the kernel does not say, give_back_left_over() asks again. Nothing to do for -1. Keeps
/// errno.
void close_if_file(int fd, const FileId& id) noexcept;

/// Opens the same file once more: a new open file description, with locks of its own.
/// REQUIRES: /proc is mounted; the caller may still open the file (ENOENT or EACCES otherwise).
FileDescriptor reopen(int fd, int flags) noexcept;

/// Calls `visit` with each name in the directory, until it returns false. 0 if it has seen all; ECANCELED if it ended
/// that, or an errno value.
int list_directory(int directory_fd, const std::function<bool(const char*)>& visit);

/// Reserves the first `reserved` bytes so that no later store into them can fail; the file's size becomes `size`.
/// REQUIRES: the file is empty and on a file system that supports fallocate. ENOSPC, ENOMEM, EFBIG.
int reserve(int fd, std::uint64_t reserved, std::uint64_t size) noexcept;

/// Largest file this process may make (RLIMIT_FSIZE); asking for more would raise SIGXFSZ.
std::uint64_t file_size_limit() noexcept;

/// Free bytes of the file system that holds `fd`; the largest number when it has no limit or does not say.
std::uint64_t free_bytes(int fd) noexcept;

// --- what event loops watch (loop_sockets.cc) -----------------------------------------------------------

/// Owns one socket that a host may close behind our back, as closefrom() does. A descriptor that it opens then under
/// the same number is neither used nor closed.
class GuardedSocket {
 public:
  GuardedSocket() noexcept = default;
  GuardedSocket(const GuardedSocket&) = delete;
  GuardedSocket& operator=(const GuardedSocket&) = delete;
  ~GuardedSocket() { close(); }

  /// On failure nothing changes, and the descriptor is closed.
  int adopt(FileDescriptor fd) noexcept;
  void close() noexcept;
  bool is_open() const noexcept { return fd_ >= 0; }
  /// Open, and not closed by the host. Asks the kernel; false also if it does not say.
  bool intact() const noexcept;
  /// Closed by the host. If the kernel does not say, neither this nor intact() is true.
  bool is_lost() const noexcept;
  int get() const noexcept { return fd_; }

 private:
  int fd_ = -1;
  FileId id_;
};

/// A descriptor for event loops to watch: readable from signal() to drain(). Nothing else reads or writes it. One
/// thread at a time.
class Readiness {
 public:
  /// A new descriptor in place of the old one, not signalled. EMFILE, ENFILE, ENOMEM: nothing is open.
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

/// A stream connection of this process with itself, for loops that can wait only for connections that they made. The
/// loop has the other end. One thread at a time.
class SelfConnection {
 public:
  ~SelfConnection() { close(); }

  /// Listens at a new path, for this user only, in place of all before. ENAMETOOLONG, EACCES, ...
  int listen(const std::string& path) noexcept;
  /// Takes the connection that this process made, and ends listening. EAGAIN: there is none; EPERM: only others'.
  int accept() noexcept;
  /// Ends listening, which removes the path unless it is a parent process's, and the connection.
  void close() noexcept;
  bool is_listening() const noexcept { return listener_.is_open(); }
  bool is_open() const noexcept { return connection_.is_open(); }

  /// Sends one byte, unless one was sent since the last drain(). The loop reads it before drain() is called.
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

/// Tells a thread that some process has closed a description of a file that was open for writing, or died with one.
/// Notices come early: before the kernel drops the record locks of that description. Some come for nothing. Only for a
/// thread of start_thread() that uses no other descriptor: open() gives it descriptors of its own, so no host closes
/// them by mistake, and no child inherits them.
class CloseNotice {
 public:
  /// ENOSYS, EPERM: not here. EMFILE: too many of this user's processes do the same. ESTALE: the path is of another
  /// file.
  int open(const char* path, const FileId& file) noexcept;
  /// Waits for a notice until the deadline (CLOCK_MONOTONIC, ns), and takes all that there are. False if none came.
  bool wait(std::uint64_t deadline_ns) noexcept;

 private:
  FileDescriptor fd_;
};

// --- mappings (mapping.cc) ------------------------------------------------------------------------------

std::size_t page_bytes() noexcept;

/// Owns one memory mapping. Moving it keeps the address.
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
  /// The file behind it; all zero for anonymous memory.
  const FileId& file() const noexcept { return file_; }
  /// The mapping stays for ever (or until the caller wraps the address again).
  std::byte* release() noexcept;
  void reset() noexcept;

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  FileId file_;
};

/// Maps bytes [0, size) of the file, shared, readable and writable.
/// REQUIRES: size > 0 and not beyond the end of the file.
/// What happens if the file is cut short: platform/bus_guard.h.
Mapping map_shared(int fd, std::size_t size, const LossMark& mark = {}) noexcept;
/// The same of a file that is open for reading: nothing can be stored there.
Mapping map_to_look(int fd, std::size_t size, const LossMark& mark = {}) noexcept;

/// Pins the open file description behind `fd` with a page of address space, so that a record lock taken through it
/// outlives the descriptor: it ends with this mapping or with the process (also by exec). A forked child has no part in
/// it (AtFork::drop), or keeps it alive with a mapping of its own (AtFork::inherit).
/// REQUIRES: a ForkGuard is held from before the lock was taken until `fd` is closed.
enum class AtFork { drop, inherit };
Mapping pin_description(int fd, AtFork at_fork) noexcept;
/// Ends a pin by the address that Mapping::release() gave.
void unpin(void* pin) noexcept;

/// Takes memory from the file system for the pages of a shared mapping in which [begin, begin + size) lies, so that no
/// later access to them can fail for want of it. What they hold stays. An errno value, of which ENOMEM and EFAULT say
/// that there is no memory; then some pages may have got theirs.
int reserve_pages(void* begin, std::size_t size) noexcept;

/// Unmaps; if the kernel refuses, the next give_back_left_over() does. Keeps errno.
void unmap(void* data, std::size_t size) noexcept;
/// Runs before each try for a record lock: a pin that could not be unmapped still holds one. Keeps errno.
void give_back_left_over() noexcept;

/// One private page that reads as zero after fork. Where the kernel cannot do that (before Linux 4.14) the page is
/// ordinary, and the caller's own fork handler has to clear it.
Mapping map_wiped_on_fork() noexcept;

// --- futex (futex.cc) -----------------------------------------------------------------------------------

enum class WaitResult {
  woken,        // or a spurious wake-up
  changed,      // the word was not `expected`
  timed_out,    // the deadline passed
  interrupted,  // a signal handler ran
  failed,       // the kernel refuses futexes here (a sandbox): sleep in another way
};

/// Sleeps while `word` is `expected`, until woken or the deadline.
WaitResult futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
                      std::uint64_t deadline_ns) noexcept;
/// Wakes at most `count` sleepers and returns how many. Harmless when the word is no longer mapped.
int futex_wake(const std::atomic<std::uint32_t>& word, int count) noexcept;

// --- clock (clock.cc) -----------------------------------------------------------------------------------

std::uint64_t monotonic_ns() noexcept;
/// The same clock as of the last timer tick: cheaper, behind by at most coarse_resolution_ns().
std::uint64_t coarse_monotonic_ns() noexcept;
std::uint64_t coarse_resolution_ns() noexcept;
std::uint64_t coarse_monotonic_ms() noexcept;
/// Goes on while the machine is suspended.
std::uint64_t boottime_ns() noexcept;
/// Processor time that the calling thread has used.
std::uint64_t thread_cpu_ns() noexcept;
/// Sleeps until the deadline or until a signal handler ran.
void sleep_until(std::uint64_t deadline_ns) noexcept;

// --- record locks (record_lock.cc) ----------------------------------------------------------------------
// Locks on bytes of a file that belong to the open file description (OFD), not to the process: threads of one process
// that open the file separately exclude each other, and closing another descriptor of the file drops nothing.
// The bytes need not exist.

/// 0, or EAGAIN if it is held. REQUIRES: `fd` is open for writing.
int try_record_lock(int fd, std::uint64_t byte) noexcept;
/// The same, but any number of descriptions may have it at once.
int try_shared_record_lock(int fd, std::uint64_t byte) noexcept;
int record_unlock(int fd, std::uint64_t byte) noexcept;
/// All that this description holds.
int record_unlock_all(int fd) noexcept;

/// Whether another open file description holds a lock, shared or not, in [first, first + count). On success `holder` is
/// a byte of it, or kNoHolder.
inline constexpr std::uint64_t kNoHolder = std::numeric_limits<std::uint64_t>::max();
int find_record_lock(int fd, std::uint64_t first, std::uint64_t count, std::uint64_t& holder) noexcept;
/// Whether another description holds any lock of the file. Unknown counts as yes.
bool has_record_locks(int fd) noexcept;

/// Locks a directory (or any file) as a whole, for this description. 0, or EWOULDBLOCK.
int try_lock_description(int fd) noexcept;
int unlock_description(int fd) noexcept;

// --- copies (copy.cc) -----------------------------------------------------------------------------------

/// Copies whole words into or out of shared memory, each with the effect of one relaxed store or load, in no order.
/// A concurrent write makes the copy a mixture, which the caller has to notice. As fast as memcpy, which must not be
/// used: a compiler may load memory that others change twice, or never.
void copy_to_shared(std::atomic<std::uint64_t>* to, const char* from, std::size_t words) noexcept;
void copy_from_shared(char* to, const std::atomic<std::uint64_t>* from, std::size_t words) noexcept;

// --- threads and processors (thread.cc) -----------------------------------------------------------------

/// Whether this process has no other thread than the calling one; false where that is not known.
inline bool is_single_threaded() noexcept {
#ifdef HOLDFAST_KNOWS_SINGLE_THREADED
  return __libc_single_threaded != 0;
#else
  return false;
#endif
}

/// For a lambda: inline in any case, so that what it captures stays in registers.
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
/// Processors on which this process or others beside it run, as far as is known, as of the first call; at least 1.
int processor_count() noexcept;
/// Not for secrets. Another process gets another number.
std::uint64_t random_number() noexcept;

/// Starts a detached thread with all signals blocked, so that no handler of the process runs in it.
/// EAGAIN: no more threads for this user or process.
int start_thread(void* (*body)(void*), void* argument) noexcept;
/// Such a thread calls this last.
void background_thread_ends() noexcept;
/// Whether this process has no threads but the calling one and those that start_thread() started; false where the
/// kernel does not say.
bool is_alone_with_background_threads() noexcept;
/// Adds to a word that only this thread and its signal handlers write. `order`: of the store, relaxed or release.
[[gnu::always_inline]] inline void add_own(std::atomic<std::uint64_t>& word, std::int64_t step,
                                           std::memory_order order) noexcept {
#if defined(__x86_64__) && !defined(HOLDFAST_SANITIZED)
  static_assert(sizeof word == sizeof(std::uint64_t));
  static_cast<void>(order);
  // One instruction, and no register; each store on x86 is a release.
  asm volatile("addq %1, %0" : "+m"(word) : "er"(step) : "cc", "memory");
#else
  word.store(word.load(std::memory_order_relaxed) + static_cast<std::uint64_t>(step), order);
#endif
}
/// A full memory barrier. REQUIRES: the last access of this thread to memory of others was an atomic read-modify-write,
/// which on x86 is such a barrier.
inline void barrier_behind_exchange() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  std::atomic_signal_fence(std::memory_order_seq_cst);
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}
/// Makes every thread of this process pass a full memory barrier at some moment during the call, wherever it runs.
/// False if the kernel refuses (before Linux 4.14, and in some sandboxes).
bool pass_barrier_in_all_threads() noexcept;
/// The calling thread: its id, and in the upper half that of its process.
std::uint64_t this_thread() noexcept;
/// Whether the thread with that name has ended. False also for one of another process, such as a parent.
bool has_thread_ended(std::uint64_t thread) noexcept;
/// What ps and top call the calling thread; at most 15 characters.
void name_this_thread(const char* name) noexcept;

// --- other processes (process.cc) -----------------------------------------------------------------------

/// Tells of the end of a process, whosever it is.
class ProcessEnd {
 public:
  /// ESRCH: there is none. REQUIRES: the caller checks afterwards that the number is still that process's.
  int open(pid_t pid) noexcept;
  /// Returns when it has ended. Where the kernel has no pidfd this takes up to a second more, or as long as another
  /// process has the number.
  void wait() const noexcept;
  int descriptor() const noexcept { return fd_.get(); }

 private:
  FileDescriptor fd_;
  pid_t pid_ = 0;
};

/// What start_apart() starts.
struct Apart {
  const char* name;      // at most 15 characters, for ps and top
  int descriptor;        // it keeps this one; -1: none
  FileId file;           // it keeps shared mappings of this file
  bool (*begin)(void*);  // false: there is nothing to do
  void (*body)(void*);   // what begin() opened is open there
  void* argument;
};

/// Forks a process that the host has nothing to do with: no child of its own, in another session, all signals blocked.
/// It has the caller's private memory, but none of its descriptors and shared mappings except those named, so it keeps
/// no port, file or dictionary in use. It ends when body(argument) returns, by _exit(). begin(argument) runs before, in
/// a process that start_apart() waits for.
/// An errno value: EAGAIN, ENOMEM; ENOENT, EACCES: without /proc/self/maps it cannot give the mappings back.
int start_apart(const Apart& apart) noexcept;

// --- forks (fork_gate.cc) -------------------------------------------------------------------------------

/// Makes forks wait for ForkGuards, once. Call it before installing fork handlers that take a mutex when the library is
/// loaded: they then run before this one's, as a thread that holds such a mutex may want a guard.
void install_fork_gate() noexcept;

/// While one of these lives, no thread of this process forks (through libc), so nothing half-made gets into a child: a
/// record lock not yet pinned, a container in the middle of a change. Nests. A fork waits for those that live, and new
/// ones wait for the fork: with one alive, wait for others a few milliseconds at most.
class ForkGuard {
 public:
  ForkGuard() noexcept { hold(); }
  ~ForkGuard() { let_go(); }
  /// The same for what does not end with a scope. REQUIRES: the thread that holds lets go.
  static void hold() noexcept;
  static void let_go() noexcept;
  ForkGuard(const ForkGuard&) = delete;
  ForkGuard& operator=(const ForkGuard&) = delete;
};

/// A mutex that may be held for long, as forks do not wait for it: a child finds it free. So what it guards must be fit
/// for use at any time, except while a ForkGuard lives. Lock it with none alive.
class LongMutex {
 public:
  /// Holds it for a scope.
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

  // 0: free. Bit 0: a thread may sleep; above: in which process of a line of forks it was locked.
  std::atomic<std::uint32_t> word_{0};
};

}  // namespace holdfast::platform
