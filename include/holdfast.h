/* holdfast: cross-process locks and a shared dictionary.
 *
 * This is the only public header of the C interface. C and C++ hosts include it, and LuaJIT declares the same calls
 * through FFI. docs/c.md shows how to use it. The following rules hold for every call, unless the comment of the call
 * says otherwise:
 *
 *  1. Handles are opaque. A holdfast_dict lives as long as the process: it is never freed, and opening the same name
 *     twice returns the same handle. The host frees a holdfast_parker when no thread uses it any more.
 *  2. Memory. The library keeps no pointer from the caller, except the pointer to a clock (holdfast_follow_clock). It
 *     returns no pointer that the caller must free. Leases, waits and values are plain data of the caller. Two threads
 *     may not use the same lease, wait or value at the same time.
 *  3. A string is a pointer and a length. It may contain any byte, and needs no zero byte at the end. A pointer may be
 *     null if its length or capacity is 0, and otherwise only if the call says so. A null or empty key is INVALID.
 *  4. Times and durations are seconds of CLOCK_MONOTONIC, as a double. An `exptime` counts from the call. An exptime of
 *     0, or of more than 1e10 (317 years), means "never expires". A negative exptime and NaN are INVALID.
 *     A value never ends late: a call that begins after the exptime does not find the value. A value may end up to 1 ms
 *     early. If its exptime is ten seconds or more, it may end another tick of the system's clock earlier, which is 1
 *     to 10 ms on most systems.
 *     Holds (lock or permits) never end early. They end at most 1 ms late. A lock with an exptime of ten seconds or
 *     more may end up to 1 s late. See also holdfast_follow_clock().
 *  5. Results. A call returns a holdfast_code. Its output through pointers is meaningful only if the code is OK. A
 *     later library may return a code that this header does not list. Treat such a code as a failure;
 *     holdfast_code_text() returns its text.
 *  6. Messages. holdfast_error() returns one English sentence about the last failed call of this thread, or "" if the
 *     code says everything. A call that succeeds does not change the message. A thread always gets the same pointer, to
 *     its current message. So holdfast_error() and the call itself may be arguments of the same expression, in any
 *     order of evaluation. holdfast_strerror(code) returns a text for the code of a call, whether the call failed or
 *     not. A message of more than 767 bytes is cut, and ends in "...". If there is no memory for a message, a shorter
 *     message replaces it, possibly at another address.
 *  7. Marks. A mark in the comment of a call says whether the call may sleep, and which codes it may return in addition
 *     to the codes in its comment.
 *     [set-up]  Reads and creates files. Waits up to 5 s while another process does the same, then returns BUSY. Also:
 *               PERMISSION, NO_MEMORY, CORRUPT, MISMATCH, SYSTEM, INVALID; the message says what was found and what was
 *               expected. The first call of a process or of a forked child may do all this, whatever its mark.
 *     [read]    Takes no mutex, and does not wait for a stopped process. Sleeps briefly, but only if writers disturb it
 *               repeatedly, and returns TIMEOUT after half a second. Also: INVALID (key), REMOVED.
 *     [change]  Holds a mutex of the dictionary for some microseconds, and sleeps while another process holds this
 *               mutex. If that process is alive but stopped (by SIGSTOP or a debugger), returns TIMEOUT after 1 second
 *               and changes nothing. Also: INVALID (key, exptime), REMOVED, BUSY, CORRUPT, SYSTEM, or the reason why a
 *               forked child cannot join the runtime directory.
 *     [attempt] Like [change], but returns TIMEOUT after 0.05 seconds. It is for callers that soon try again.
 *     [wait]    Makes attempts until its timeout is over. Between two attempts the thread sleeps until a release, the
 *               death of a process or the end of an exptime wakes it. Returns TIMEOUT if a stopped process blocked the
 *               call until the timeout was over.
 *     A call without a mark does not sleep, except holdfast_parker_sleep. Only holdfast_parker_sleep and calls marked
 *     [wait] wait for locks or permits. Only holdfast_lock_verify waits for an answer from the cluster's store.
 *  8. Threads. Any thread may make any call at any time, with the same handles. This includes destructors of pthread
 *     keys, of thread-local objects and of static objects, functions registered with atexit, and a thread that outlives
 *     main. Once the process is exiting, a parker's descriptor and timer may be refused (SYSTEM). A lease belongs to
 *     the process: any thread may release it, and it outlives the thread that took it. Each waiting thread needs its
 *     own parker, because holdfast_parker_sleep reports all waiters of a parker. A call marked [wait] makes its own
 *     parker. Do not cancel a thread inside a call. A stack of 32 KB is enough for every call.
 *  9. Fork. A child may use its parent's handles at any time, whatever other threads of the parent were doing. The
 *     child is a separate process: in it, the parent's leases are NOT_OWNER, and the parent's parkers have no waiters.
 *     At most 1,024 processes can use a runtime directory. A further process can only read, and all its other calls
 *     return SYSTEM.
 * 10. The end. When a process ends in any way, including exec, everything that it holds becomes free. It may end while
 *     its threads are inside calls.
 * 11. Signals. Do not make calls from a signal handler. If a handler calls a function that changes a dictionary while
 *     its thread is doing so, the call returns BUSY instead of causing a deadlock. Signals end holdfast_parker_sleep
 *     early, but no other call. A call marked [wait] continues when the handler has returned, and its timeout does not
 *     change. No handler may leave a call by longjmp or an exception, because the thread would stay inside the call,
 *     and what it locked there would stay locked until the process ends. A handler must not fork if its thread may be
 *     in a call or in fork() itself. Such a fork may wait for the thread that it interrupts, or may leave a lock of the
 *     call to the child.
 * 12. Damage. No call throws, aborts, or calls back into the host. If malloc fails, the code is NO_MEMORY or one of the
 *     codes above. The library never trusts what another process wrote into shared memory: damage may cost entries, but
 *     never causes a crash. There is one exception: a file that is cut short while in use (by truncate, or by cp over
 *     it), or that loses a page which a full file system cannot replace. The kernel then ends the process with SIGBUS.
 *     After holdfast_guard_sigbus(), the call continues with memory that is all zero instead, and its result is
 *     worthless. From then on the dictionary and its locks are REMOVED, and the dictionary may be removed by name and
 *     opened again. Once one process has detected the loss, this applies to every process, with or without the guard.
 *     But if the first page of the file is missing, each process must detect the loss itself. If the process table was
 *     cut short, calls that need it return SYSTEM until the process ends, and no lock is taken over.
 * 13. Versions. Compare holdfast_abi() with HOLDFAST_ABI before any other call. If the numbers differ, the library does
 *     not match the header. If they are equal, calls, structs and values have the same meaning; a later library may add
 *     calls and codes.
 */
#ifndef HOLDFAST_H
#define HOLDFAST_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define HOLDFAST_API __attribute__((visibility("default")))
#else
#define HOLDFAST_API
#endif

/* The default value of a field. In C, omitted fields are 0 without it; in C++ it avoids a warning. */
#if defined(__cplusplus) && __cplusplus >= 201402L
#define HOLDFAST_DEFAULT(value) = value
#else
#define HOLDFAST_DEFAULT(value)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* This number increases with every incompatible change of this header. */
#define HOLDFAST_ABI 6

typedef enum holdfast_code {
  HOLDFAST_OK = 0,
  HOLDFAST_NOT_FOUND = 1,     /* no such key or dictionary                                      */
  HOLDFAST_EXISTS = 2,        /* add: the key has a value                                       */
  HOLDFAST_NO_MEMORY = 3,     /* no room in the dictionary, /dev/shm or the process             */
  HOLDFAST_TIMEOUT = 4,       /* a stopped process blocked the call; nothing was done           */
  HOLDFAST_NOT_A_NUMBER = 5,  /* incr: the value is not a number                                */
  HOLDFAST_LOCKED = 6,        /* another holder has the lock                                    */
  HOLDFAST_NOT_OWNER = 7,     /* unlock, renew: the lease is no longer the caller's             */
  HOLDFAST_TOO_LARGE = 8,     /* key or value can never fit; holdfast_error() names the limit   */
  HOLDFAST_BUFFER = 9,        /* get: value->capacity is too small; value->size has the size    */
  HOLDFAST_INVALID = 10,      /* an argument is not valid; see holdfast_error()                 */
  HOLDFAST_SYSTEM = 11,       /* the operating system refused, or cannot say whether a holder   */
                              /* is alive; see holdfast_error()                                 */
  HOLDFAST_MISMATCH = 12,     /* it exists with other options (such as another size), or in     */
                              /* another time namespace                                         */
  HOLDFAST_CORRUPT = 13,      /* the file is not a segment of this version                      */
  HOLDFAST_PERMISSION = 14,   /* wrong owner or mode of a directory or file                     */
  HOLDFAST_BUSY = 15,         /* this thread is in a call, or another process sets up files     */
  HOLDFAST_REMOVED = 16,      /* the dictionary was removed, and no other has its name          */
  HOLDFAST_NOT_A_LIST = 17,   /* push, pop, llen: the value is not a list                       */
  HOLDFAST_IS_A_LIST = 18,    /* get: the value is a list                                       */
  HOLDFAST_DIFFERS = 19,      /* the value or the version is not the expected one               */
  HOLDFAST_DEADLOCK = 20,     /* lock_wait would never end; see holdfast_deadlock_keys          */
  HOLDFAST_ELSEWHERE = 21,    /* another machine of the cluster may have the lock               */
  HOLDFAST_UNSUPPORTED = 22,  /* not available in a cluster's dictionary, or without versions   */
  HOLDFAST_UNAVAILABLE = 23,  /* no agent, or it cannot reach the store; see holdfast_error()   */
  HOLDFAST_UNCHANGED = 24     /* the key still has the version that the caller knows            */
} holdfast_code;

typedef enum holdfast_type {
  HOLDFAST_NIL = 0,
  HOLDFAST_BOOLEAN = 1,
  HOLDFAST_NUMBER = 3,
  HOLDFAST_STRING = 4,
  HOLDFAST_TABLE = 5 /* a table, as bytes that only the host can read */
} holdfast_type;

typedef enum holdfast_mutex {
  HOLDFAST_MUTEX_FUTEX = 0, /* spin, then sleep until woken (default)        */
  HOLDFAST_MUTEX_SPIN = 1,  /* spin, then yield the processor; never sleeps  */
  HOLDFAST_MUTEX_FILE = 2   /* a record lock on the segment's file           */
} holdfast_mutex;

/* Says how long a dictionary exists (holdfast_options.persist). */
typedef enum holdfast_persist {
  HOLDFAST_TEMPORARY = -1, /* ends with the last process of the runtime directory            */
  HOLDFAST_KEPT = 0,       /* until removal or reboot; replaceable while unused (default)    */
  HOLDFAST_PERSISTENT = 1  /* until removal or reboot; only a person replaces it             */
} holdfast_persist;

typedef enum holdfast_store_op {
  HOLDFAST_SET = 0,
  HOLDFAST_ADD = 1,
  HOLDFAST_REPLACE = 2,
  HOLDFAST_SAFE_SET = 3, /* as SET, but removes no live entry to make room */
  HOLDFAST_SAFE_ADD = 4  /* as ADD, but removes no live entry to make room */
} holdfast_store_op;

typedef enum holdfast_end { HOLDFAST_LEFT = 0, HOLDFAST_RIGHT = 1 } holdfast_end;

enum {
  HOLDFAST_NAME_MAX = 250,     /* bytes of a dictionary's name, any but zero; each byte outside           */
                               /* [A-Za-z0-9._-], and a first '.', counts 3, as %XX in the file name      */
  HOLDFAST_KEY_MAX = 65535,    /* bytes of a key; at least 1                                              */
  HOLDFAST_SIZE_MIN = 12288,   /* bytes of the smallest dictionary                                        */
  HOLDFAST_WHY_MAX = 127       /* bytes of the text that explains a hold                                  */
};

/* --- the library and the runtime directory ----------------------------------------------------------- */

/* Returns the library's own HOLDFAST_ABI. */
HOLDFAST_API uint32_t holdfast_abi(void);
/* Returns the version, such as "0.2.0". The string is static. */
HOLDFAST_API const char *holdfast_version(void);
/* Returns the message of this thread's last failed call (see 6). Never returns null. */
HOLDFAST_API const char *holdfast_error(void);
/* Returns a text for this thread's last call, which returned `code`. The text is the message of the call if it failed
 * and has a message, otherwise the text of the code. Never returns null. The text is valid until the thread's next call
 * that fails. */
HOLDFAST_API const char *holdfast_strerror(int code);
/* Returns the text of a code: "not found", "exists", "no memory", "timeout", and so on. Returns "unknown code" for any
 * other number. The string is static. */
HOLDFAST_API const char *holdfast_code_text(int code);
/* Returns CLOCK_MONOTONIC in seconds. */
HOLDFAST_API double holdfast_now(void);
/* Makes `*milliseconds` the clock for the values of this process: exptimes count from its time, and values expire by
 * it. Holds are not affected. Use it for an event loop that reads the clock once in each round and counts its timers
 * from that time. A value that a handler stores then ends together with a timer of the same length, and not before it,
 * however long the handler runs. An exptime is cut to whole milliseconds. In each round, the host writes
 * CLOCK_MONOTONIC into the word, which must stay at its address while the process lives. The library ignores the word
 * while it is ahead of CLOCK_MONOTONIC, or more than a minute behind it. NULL selects the system's clock again. Any
 * thread may call this at any time. INVALID (the word is ahead of CLOCK_MONOTONIC). */
HOLDFAST_API int holdfast_follow_clock(const volatile uintptr_t *milliseconds);
/* [set-up] Joins the runtime directory, and returns its path. The path is $HOLDFAST_DIR, in which "@layout@" stands for
 * the version number of the file layout. If $HOLDFAST_DIR is not set, the path is /dev/shm/holdfast-<euid>. The process
 * stays in this runtime directory until it ends. The string lives as long as the process. Returns NULL on failure; the
 * next call tries again. */
HOLDFAST_API const char *holdfast_directory(void);
/* Installs, once for the process, a SIGBUS handler that keeps the process alive when a file of this library is cut
 * short while in use (see 12). The handler passes a SIGBUS with any other cause to the previous handler, with that
 * handler's flags and mask. A handler that is installed later must call this handler in the same way. A forked child
 * inherits the handler; exec removes it. The handler does not help a thread that blocks SIGBUS: in that case, the
 * kernel ends the process. Any thread may call this at any time. SYSTEM. */
HOLDFAST_API int holdfast_guard_sigbus(void);
/* Sets holdfast_holder.program for this process and its forked children to the first 15 bytes of `name`, instead of the
 * kernel's name for the process. Call it before the process joins the runtime directory, which means before any call
 * that opens something or is marked [change]. Any thread may call it. EXISTS (a name was already set, and stays),
 * INVALID (no bytes). */
HOLDFAST_API int holdfast_name_program(const char *name, size_t length);
/* Sets holdfast_holder.pid for this process to `pid` instead of its own. This is for a process that takes locks on
 * behalf of a child, as `holdfast lock` does for its command. Forked children show their own pids. Call it before the
 * process joins the runtime directory. Any thread may call it. INVALID (not a positive number). */
HOLDFAST_API int holdfast_show_as(int pid);
/* [set-up] Joins the runtime directory, and returns a descriptor that proves, like the process itself, that this
 * process is alive. Everything that the process holds stays held as long as the descriptor, or a copy of it, is open
 * anywhere. So if the new program or a child inherits the descriptor, everything stays held across exec, and after the
 * end of the process. The descriptor closes at exec unless the caller clears FD_CLOEXEC. The new program may run as
 * another user, because the descriptor refers to an empty file, is open for reading only, and gives no access to the
 * runtime directory. Do not lock this file.
 * Call this before the process does anything else with this library. A forked child may also call it, if it has made no
 * call that changes anything. After exec no thread of the library runs any more, so first end all other threads that
 * make calls, and close the parkers. EXISTS (the process has already joined). */
HOLDFAST_API int holdfast_hold_over_exec(int *fd);
/* [set-up] Does the same, and returns the descriptor in fds[0]. fds[1] is a second proof, for a keeper: another process
 * of this program, such as one that ends the hold when the new program ends. While a keeper has fds[1], two more kinds
 * of processes see the hold: programs with another file layout, and processes that can no longer open files of the
 * runtime directory. fds[1] gives access to the runtime directory. So leave its FD_CLOEXEC set, and send it only to
 * processes of this user. End both descriptors with holdfast_end_hold. */
HOLDFAST_API int holdfast_hold_with_keeper(int fds[2]);
/* Ends immediately what a descriptor of the two calls above holds, even if other processes have copies of it, and
 * closes the descriptor. The process for which the descriptors were made counts as dead once all of them have been
 * ended, and the process itself has ended or has become another program. Any process that has a copy may call this,
 * even if it has not joined the runtime directory. The call also ends descriptors from holdfast_use_over_exec. INVALID
 * (the descriptor is not open). */
HOLDFAST_API int holdfast_end_hold(int fd);
/* [set-up] Keeps the dictionaries of the runtime directory until the parent of this process ends, even while no other
 * process uses the directory. This is for the workers of a master that uses no dictionary itself: values outlive the
 * workers, as in nginx's ngx.shared. A small process, "holdfast-keeper", does this, one for each parent. The call forks
 * a keeper if there is none. Make the call early, while the process is small, because the keeper has a copy of the
 * process's private memory. The keeper has none of the process's descriptors and shared mappings, is not its child,
 * blocks all signals, and ends with `parent`. The dictionaries then end, unless a process uses the runtime directory.
 * NOT_FOUND (the last keeper was killed, so values may be lost, and a new keeper was started), INVALID (`parent` is not
 * getppid(), or this process is an observer), SYSTEM (fork failed, or /proc is missing). */
HOLDFAST_API int holdfast_keep_for(int parent);
/* Parses a size such as "12345", "100k", "1m" or "8g". The units are powers of 1024, in either case. INVALID (anything
 * else, zero, or more than 2^40 bytes, which is 1024g). */
HOLDFAST_API int holdfast_parse_size(const char *text, size_t length, uint64_t *bytes);

/* --- dictionaries ------------------------------------------------------------------------------------ */

typedef struct holdfast_dict holdfast_dict;

typedef struct holdfast_options {
  /* Bytes of the dictionary's memory, at least HOLDFAST_SIZE_MIN, rounded up to whole pages. 0 means the size of the
   * dictionary that exists or is declared, or else 8 MB. The memory is taken when it is first used. */
  uint64_t size HOLDFAST_DEFAULT(0);
  /* A holdfast_mutex. */
  int32_t mutex HOLDFAST_DEFAULT(0);
  /* A holdfast_persist. Below 0, the dictionary ends with the last process of the runtime directory; otherwise it
   * exists until removal or reboot. With 0, it may be replaced while no process uses it, by an open that asks for
   * another size, mutex or cluster, or by a program with another layout version or time namespace. With a number above
   * 0, such an open fails. A dictionary that belongs to a cluster is temporary with 0. */
  int32_t persist HOLDFAST_DEFAULT(0);
  /* Permission bits of the file; 0 means 0600. */
  uint32_t mode HOLDFAST_DEFAULT(0);
  /* The cluster to which its locks belong, as 1 to 63 letters, digits, '-', '_' and '.'. NULL means no cluster. */
  const char *cluster HOLDFAST_DEFAULT(nullptr);
  /* Bytes of the largest value that it must accept, under a key of up to 256 bytes. 0 means the limit that
   * $HOLDFAST_DICTS declares for a dictionary of this size. If none is declared, the limit is about 94 % of a size
   * below 1.9 MB, and 0.9 to 1.8 MB for a larger size. The maximum is about 91 % of the size, and 4 GB. A dictionary
   * for larger values has fewer shards (parts of the dictionary that each have a mutex). Then two changes need the same
   * mutex more often, and operations on a whole shard, such as the repair after a death, take longer: about 1 ms per
   * MB. While a value is stored, all other changes in its shard wait, for about 0.1 ms per MB of the value, or 0.3 ms
   * if many other values must be removed for it. */
  uint64_t largest HOLDFAST_DEFAULT(0);
} holdfast_options;

/* [set-up] Opens the dictionary, or creates it. If several processes try at the same time, one of them creates it. An
 * existing dictionary must have the same size, mutex and cluster, and must accept values of `largest` bytes. A
 * dictionary that does not match is replaced by an empty one if it is HOLDFAST_KEPT and no process uses it. Otherwise
 * the code is MISMATCH, and the message names both values. An existing dictionary keeps its mode, and the longest
 * `persist` that was requested counts. If nobody requested its size, it may be larger than the size that is requested
 * now. If the options name no cluster, $HOLDFAST_CLUSTER ("name=cluster,name=cluster") decides. If the options and
 * $HOLDFAST_CLUSTER name different clusters, the code is also MISMATCH. Also: INVALID (name, size, mutex, mode,
 * cluster, largest, $HOLDFAST_CLUSTER), NO_MEMORY (the message says how much is free).
 * A dictionary of 1.9 MB or more takes memory when it is first used. If /dev/shm has no memory for a change, the change
 * returns NO_MEMORY, unless older values can be removed. */
HOLDFAST_API int holdfast_open(const char *name, size_t length, const holdfast_options *options,
                               holdfast_dict **dict);
/* [set-up] Opens a dictionary that this process has open, that exists in the runtime directory, or that $HOLDFAST_DICTS
 * declares ("name=size,name=size:largest=bytes", where %XX in a name stands for a byte), in this order. NOT_FOUND,
 * INVALID (name, $HOLDFAST_DICTS, $HOLDFAST_CLUSTER), MISMATCH (it does not belong to the cluster that
 * $HOLDFAST_CLUSTER names). */
HOLDFAST_API int holdfast_attach(const char *name, size_t length, holdfast_dict **dict);
/* [set-up] Removes the dictionary and its locks. After that, calls with a handle of any process use the next dictionary
 * of that name and cluster, or return REMOVED if there is none. NOT_FOUND, INVALID (name).
 * A call that runs during the removal, in any thread or process, has the effects of a call before or after the removal.
 * No lock or permit of this dictionary is granted after the removal, and every fencing token of a later dictionary is
 * larger. A process keeps the memory, the mapping and the descriptor of the removed dictionary until its next call with
 * the handle, and until earlier calls have ended. After that it keeps only the handle, about 1 KB for each name. But if
 * the kernel has no membarrier (before Linux 4.14, and in some sandboxes), a process with several threads keeps
 * everything. */
HOLDFAST_API int holdfast_remove(const char *name, size_t length);
/* [set-up] Returns two descriptors. While they, or copies of them, are open anywhere, other processes see that the
 * dictionary is in use. fds[1] may be -1 if one descriptor is enough. A program that holds something across exec also
 * needs these descriptors, because the descriptor of holdfast_hold_over_exec does not keep a dictionary in use. If
 * somebody deletes or replaces files of the runtime directory, new processes are refused the dictionaries that are in
 * use, but no others. The descriptors belong to the present dictionary, not to a dictionary that is created after its
 * removal. They close at exec unless the caller clears FD_CLOEXEC, and give no access to the runtime directory. End
 * them with holdfast_end_hold. On failure both are -1: MISMATCH (the name no longer leads to the dictionary's file),
 * REMOVED, INVALID (this process is an observer). */
HOLDFAST_API int holdfast_use_over_exec(holdfast_dict *dict, int fds[2]);

typedef struct holdfast_value {
  int32_t type;    /* out: holdfast_type; NIL unless the code is OK or BUFFER               */
  uint32_t flags;  /* out: the user flags stored with the value                             */
  double number;   /* out: the value of a number; 0 or 1 for a boolean                      */
  char *data;      /* in: the caller's buffer, which receives the string or table           */
  size_t capacity; /* in: size of the buffer in bytes                                       */
  size_t size;     /* out: size of the string or table, even if it did not fit (BUFFER)     */
} holdfast_value;

/* [set-up] Lists the names of the runtime directory's dictionaries in sorted order, packed like the keys of
 * holdfast_keys. Joins the runtime directory, but does not open the dictionaries. A dictionary that is created or
 * removed during the call may or may not be listed. BUFFER (as for holdfast_keys), SYSTEM (the runtime directory cannot
 * be read). */
HOLDFAST_API int holdfast_list(holdfast_value *names, uint32_t *count);

/* [read] Returns the key's value. A key that is locked, or has permits in use, has the boolean value true. NOT_FOUND,
 * BUFFER, IS_A_LIST. */
HOLDFAST_API int holdfast_get(holdfast_dict *dict, const char *key, size_t key_length, holdfast_value *value);

/* [read] Does the same as holdfast_get, but also returns a value that has expired or was flushed, if it is still
 * stored. *stale is then nonzero. */
HOLDFAST_API int holdfast_get_stale(holdfast_dict *dict, const char *key, size_t key_length, holdfast_value *value,
                                    int *stale);

/* [change] Stores a value under the key. SET always stores; ADD stores only if there is no value (EXISTS), and REPLACE
 * only if there is a value (NOT_FOUND). The types BOOLEAN and NUMBER use `number`; STRING and TABLE use `data` and
 * `length`. NIL deletes the key, as in ngx.shared; only SET and SAFE_SET accept NIL. The new value replaces the
 * previous one, even if that is a list or a held lock. To make room, the call removes expired entries first, then the
 * least recently used live entries, but never held locks. `forcible`, which may be null, becomes nonzero if live
 * entries were removed. Also: NO_MEMORY, TOO_LARGE, INVALID (op, type). */
HOLDFAST_API int holdfast_store(holdfast_dict *dict, int op, const char *key, size_t key_length, int type,
                                const char *data, size_t length, double number, double exptime, uint32_t flags,
                                int *forcible);

/* [change] Compares and swaps in one step: stores `desired` if the key's value is `expected`. For both, a null pointer
 * or the type NIL means "no value". Otherwise the call reads type, number, data and size of both, and the flags of
 * `desired`. It compares numbers as numbers, and strings and tables byte by byte. It does not compare flags. NOT_FOUND
 * (there is no value), EXISTS (there is a value, though none was expected), DIFFERS; otherwise as holdfast_store. */
HOLDFAST_API int holdfast_cas(holdfast_dict *dict, const char *key, size_t key_length, const holdfast_value *expected,
                              const holdfast_value *desired, double exptime, int *forcible);

/* [change] Deletes the key, and releases its lock if it has one. Returns OK even if there is no such key, as in
 * ngx.shared. */
HOLDFAST_API int holdfast_delete(holdfast_dict *dict, const char *key, size_t key_length);

/* [change] Adds `by` to a number and returns the sum. If there is no value and has_init is not 0, stores init + by with
 * the exptime init_ttl. `forcible` is as in holdfast_store. NOT_FOUND (there is no value, and has_init is 0),
 * NOT_A_NUMBER, NO_MEMORY, TOO_LARGE. */
HOLDFAST_API int holdfast_incr(holdfast_dict *dict, const char *key, size_t key_length, double by, int has_init,
                               double init, double init_ttl, double *sum, int *forcible);

/* [read] Returns how long the entry still lives, in seconds, with a resolution of a millisecond. Returns 0 if the entry
 * never expires, and a negative number for a value that has expired and is still stored. NOT_FOUND. */
HOLDFAST_API int holdfast_ttl(holdfast_dict *dict, const char *key, size_t key_length, double *seconds);
/* [change] Gives an existing entry a new exptime. NOT_FOUND. */
HOLDFAST_API int holdfast_expire(holdfast_dict *dict, const char *key, size_t key_length, double exptime);
/* [change] Invalidates all entries, including locks, at the same instant. */
HOLDFAST_API int holdfast_flush_all(holdfast_dict *dict);

/* [change] Removes at most `max` entries (0: all) that have expired or were flushed. *count is the number of removed
 * entries, even after TIMEOUT, when some entries may be left. Also frees what dead processes held, and finds and
 * repairs damage. The more entries there are, the longer this takes. */
HOLDFAST_API int holdfast_flush_expired(holdfast_dict *dict, uint32_t max, uint32_t *count);

/* --- lists: a key's value may be a list of numbers and strings --- */

/* [change] Adds an element to one end of the list. `end` is a holdfast_end; `type` is NUMBER or STRING. Creates the
 * list if there is no value. *count is the new number of elements. Does not remove live entries to make room.
 * NOT_A_LIST, NO_MEMORY, TOO_LARGE, INVALID (end, type). */
HOLDFAST_API int holdfast_push(holdfast_dict *dict, const char *key, size_t key_length, int end, int type,
                               const char *data, size_t length, double number, uint32_t *count);
/* [change] Removes an element from one end of the list, and returns it. Also removes the key if this was the last
 * element. NOT_FOUND, NOT_A_LIST, BUFFER (as for holdfast_get; nothing was removed), INVALID (end). */
HOLDFAST_API int holdfast_pop(holdfast_dict *dict, const char *key, size_t key_length, int end, holdfast_value *value);
/* [read] Returns the number of elements, or 0 if there is no value. NOT_A_LIST. */
HOLDFAST_API int holdfast_llen(holdfast_dict *dict, const char *key, size_t key_length, uint32_t *count);

/* --- versions: a caller that has read a value can tell whether it has changed since --- */

/* The version of a key is a number above 0 and below 2^53, which changes whenever the key's value changes: when it is
 * set, deleted, added to, evicted or flushed, when its list or its exptime changes, and when damage or a death makes it
 * uncertain what the value is. It does not change when the value expires. Several keys may share a version. So a key's
 * version may change although its value has not, but it never stays the same when the value has changed. A copy of a
 * value is current as long as the key has the same version: once a call that changes the value has returned, in any
 * process, no call reports the old version. Once a dictionary has been removed, its versions mean nothing. All calls
 * below return UNSUPPORTED if the dictionary has no versions. */

/* [set-up] Does the same as holdfast_open, for a dictionary whose keys have versions. An existing dictionary without
 * versions does not match, as if its size were different. Versions take an additional 6 % of the size, at least 64 KB.
 * holdfast_open and holdfast_attach also open a dictionary with versions, which then keeps its versions. */
HOLDFAST_API int holdfast_open_with_versions(const char *name, size_t length, const holdfast_options *options,
                                             holdfast_dict **dict);

typedef struct holdfast_version_of_key {
  int64_t number;  /* the version; odd while a process is changing the value; 0: unknown                 */
  uint32_t stripe; /* for holdfast_is_current                                                            */
  int32_t deaths;  /* for the two calls that wait; not 0: the death of a process also ends the wait      */
  int64_t end;     /* for holdfast_is_current: when the value that was read or stored expires            */
} holdfast_version_of_key;

/* [read] Returns the key's version, even if the key has no value. */
HOLDFAST_API int holdfast_key_version(holdfast_dict *dict, const char *key, size_t key_length,
                                      holdfast_version_of_key *version);
/* [read] Returns the key's value and version, unless the version is still *version. To get the value in any case, set
 * version->number to 0. The returned value belongs to the returned version, or is newer. UNCHANGED (the value was not
 * read), NOT_FOUND (there is no value), and the codes of holdfast_get. *version is set after OK and NOT_FOUND. */
HOLDFAST_API int holdfast_get_changed(holdfast_dict *dict, const char *key, size_t key_length,
                                      holdfast_version_of_key *version, holdfast_value *value);
/* [read] Returns 1 if the value that was returned together with a version with these fields is still current: it has
 * neither changed since then nor expired. Otherwise returns 0, also if `number` is odd, or if the dictionary was
 * removed. Takes only some nanoseconds, because it does not search for the key. An `end` of 0 means that the value
 * never expires. */
HOLDFAST_API int holdfast_is_current(holdfast_dict *dict, int64_t number, uint32_t stripe, int64_t end);
/* The words of a dictionary's versions, for a program that compares versions itself. The version with the number n of a
 * stripe s is current as long as *retired == 0, n is even and base + words[2 * s] + 2 * *flushes == n. Also compare the
 * end of the value. */
typedef struct holdfast_versions {
  const volatile int64_t *words;
  const volatile int32_t *flushes;
  const volatile int32_t *retired; /* not 0: the dictionary was removed, and the words no longer change */
  int64_t base;
} holdfast_versions;

/* [set-up] Returns the words, or NULL (REMOVED, UNSUPPORTED, NO_MEMORY). Until they are released, the words stay
 * readable, and the memory of the dictionary is kept, even after its removal. */
HOLDFAST_API holdfast_versions *holdfast_keep_versions(holdfast_dict *dict);
HOLDFAST_API void holdfast_release_versions(holdfast_versions *versions);
/* [change] Stores a value as holdfast_store does with SET, or deletes the key with the type NIL, but only if the
 * version is still *version. Sets *version to the version of the new value. DIFFERS (nothing was changed). */
HOLDFAST_API int holdfast_store_unless_changed(holdfast_dict *dict, const char *key, size_t key_length,
                                               holdfast_version_of_key *version, int type, const char *data,
                                               size_t length, double number, double exptime, uint32_t flags,
                                               int *forcible);
/* [wait] Waits until the version is no longer *version, and sets it to the new version. With a timeout of 0 or less,
 * only compares; with more than 1e10, waits without limit. A change by any process wakes everyone who waits for it. If
 * a process dies in the middle of a change, the waiters continue within half a second. If version->deaths is not 0, the
 * wait also ends, with OK and the same version, within 20 ms after any process of the runtime directory has died. The
 * wait may then also end at other times. UNCHANGED (the timeout is over), NO_MEMORY, INVALID (also timeout). */
HOLDFAST_API int holdfast_wait_for_change(holdfast_dict *dict, const char *key, size_t key_length, double timeout,
                                          holdfast_version_of_key *version);

/* --- the whole dictionary --- */

/* [read] Returns at most `max` keys (0: all) in no particular order. Each key is packed into keys->data as a uint32_t
 * length and the bytes, without padding; keys->size is their total size. If keys->capacity is too small, the code is
 * BUFFER, keys->data has only a part, and keys->size is the capacity that was needed. The next call may need more. */
HOLDFAST_API int holdfast_keys(holdfast_dict *dict, uint32_t max, holdfast_value *keys, uint32_t *count);
/* [read] Returns the next keys of a scan, packed as above: about `count` (at least 1) of the keys that begin with
 * `prefix`, or fewer, or none. Set *cursor to 0 to begin. Each call that returns OK changes it, and it is 0 again at
 * the end. A key that exists from the first call to the last is returned exactly once; other keys may be missed. The
 * call never waits for more than one chain of keys (the keys in one bucket of the hash table). BUFFER (the cursor is
 * unchanged), INVALID (count). */
HOLDFAST_API int holdfast_scan(holdfast_dict *dict, uint64_t *cursor, uint32_t count, const char *prefix,
                               size_t prefix_length, holdfast_value *keys, uint32_t *found);

/* [read] Does the same as holdfast_scan for the keys that somebody holds or waits for, as a lock, an rwlock or a
 * semaphore. Keys of dead holders are included until others take them. holdfast_holders describes the holders of a
 * key. */
HOLDFAST_API int holdfast_scan_locks(holdfast_dict *dict, uint64_t *cursor, uint32_t count, const char *prefix,
                                     size_t prefix_length, holdfast_value *keys, uint32_t *found);

typedef struct holdfast_stats {
  uint64_t entries;     /* including expired ones, until their memory is needed                   */
  uint64_t bytes_used;  /* by entries, lists and waiters                                          */
  uint64_t bytes_free;  /* including memory not taken from /dev/shm yet                           */
  uint64_t hits;        /* get, get_stale: a value was found                                      */
  uint64_t misses;
  uint64_t evictions;   /* live entries removed to make room                                      */
  uint64_t expirations; /* entries removed after they had expired or were flushed                 */
  uint64_t repairs;     /* shards repaired after a process died in the middle of a change, or     */
                        /* after damage                                                          */
  uint64_t mutex_waits; /* changes that had to wait for the mutex of their shard                  */
  uint64_t lock_waits;  /* queued waits for a lock or for permits                                 */
  uint64_t lock_wakes;  /* waiters that a release woke                                            */
  uint64_t lock_reserved_ms; /* total time between a grant to a waiter and its claim                */
  uint64_t lives_unknown; /* times that the system could not say whether a process is alive         */
  uint64_t words_mended;  /* overwritten words that were repaired outside the shards                */
} holdfast_stats;

/* [read] Returns the counts since the dictionary was created. lives_unknown and words_mended are counts of the whole
 * runtime directory. */
HOLDFAST_API int holdfast_dict_stats(holdfast_dict *dict, holdfast_stats *stats);
/* [read] Returns the size of the dictionary in bytes, or 0 if the dictionary was removed. */
HOLDFAST_API uint64_t holdfast_capacity(holdfast_dict *dict);
/* [read] Returns the size, in bytes, of the largest value that fits under a key of up to 256 bytes if older values can
 * be removed. Returns 0 if the dictionary was removed. */
HOLDFAST_API uint64_t holdfast_largest_value(holdfast_dict *dict);
/* [read] Returns the number of bytes that no entry occupies, or 0 if the dictionary was removed. */
HOLDFAST_API uint64_t holdfast_free_space(holdfast_dict *dict);

/* --- locks ------------------------------------------------------------------------------------------- */

/* A dictionary and a key identify a lock. Locks are not reentrant: the holder gets LOCKED like every other caller. A
 * lease proves that its lock is held; a lease of zeros proves nothing. */
typedef struct holdfast_lease {
  uint64_t owner;    /* token of the process; 0: nothing is held                                */
  uint64_t sequence; /* fencing token: grows with every grant of this key; unique; below 2^53 */
} holdfast_lease;

typedef enum holdfast_how {
  HOLDFAST_HOW_FAIR = 1,     /* waiters go first                                                          */
  HOLDFAST_HOW_FIRST = 2,    /* first step of a wait: a refusal is not counted (holdfast_dict_contention) */
  HOLDFAST_HOW_ANY_OWNER = 4 /* holdfast_permits_upgrade: the lease may belong to another process         */
} holdfast_how;

/* [attempt] Takes the lock if it is free, has expired, or is held by a dead process. `task` is the task of this process
 * that becomes the holder (see holdfast_lock_adopt), or 0 for none. `how` is a combination of holdfast_how flags. OK
 * fills the lease; any other code except INVALID clears it. A thread that is refused more than 16 times in 4 ms may be
 * refused up to 100 more times after the holder's death. LOCKED (also if the key has an ordinary value), NO_MEMORY,
 * TOO_LARGE. */
HOLDFAST_API int holdfast_lock_try(holdfast_dict *dict, const char *key, size_t key_length, double exptime,
                                   uint32_t task, int how, holdfast_lease *lease);
/* [wait] Takes the lock as holdfast_lock_try does. If another holder has it, waits in the queue of the key, in order of
 * arrival, for up to `timeout` seconds. With a timeout of 0 or less, does not wait; with more than 1e10, waits without
 * limit. OK fills the lease; any other code except INVALID clears it. LOCKED (the timeout is over, and another holder
 * has the lock, perhaps on another machine of the cluster), SYSTEM (also if the system cannot say whether the holder is
 * alive), NO_MEMORY, TOO_LARGE, INVALID (also timeout).
 * In a cluster, also UNAVAILABLE (the agent cannot reach the store, or there is no agent). A call that does not wait
 * still asks the store, for up to 1 s, and returns ELSEWHERE if another machine has the lock. */
HOLDFAST_API int holdfast_lock(holdfast_dict *dict, const char *key, size_t key_length, double timeout, double exptime,
                               holdfast_lease *lease);
/* [change] Releases the lock and wakes one waiter. NOT_OWNER (the lock has expired and was taken by another caller, or
 * was deleted or flushed; or the lease belongs to another process, such as the parent). OK, NOT_OWNER and REMOVED clear
 * the lease. After any other code the lock is still held, and the call may be repeated. */
HOLDFAST_API int holdfast_unlock(holdfast_dict *dict, const char *key, size_t key_length, holdfast_lease *lease);
/* [attempt] Does the same as holdfast_unlock for a caller that cannot retry, such as a finaliser or the end of a scope.
 * If the release is refused (TIMEOUT, BUSY, CORRUPT, SYSTEM), the library takes over the lease. A thread of the library
 * then retries until the lock is released or lost. If no thread can be started, a later call that finds something held
 * retries the release. So the lease is always cleared, unless there is no memory for this. */
HOLDFAST_API int holdfast_unlock_for_certain(holdfast_dict *dict, const char *key, size_t key_length,
                                             holdfast_lease *lease);

/* A lease, and the place of its lock in memory, for a caller that takes the same lock again and again: the library need
 * not look the key up each time. Begin with zeros, and use the object with one key of one dictionary, in one thread at a
 * time. All other calls for leases accept `lease`. */
typedef struct holdfast_bound {
  holdfast_lease lease;
  uint64_t place[5]; /* place[0] is 0 if the place is not known */
} holdfast_bound;
/* [attempt] Does the same as holdfast_lock_try, and remembers the place of the lock if it can. */
HOLDFAST_API int holdfast_lock_bind(holdfast_dict *dict, const char *key, size_t key_length, double exptime,
                                    uint32_t task, int how, holdfast_bound *bound);
/* Takes the lock if it is free and still in its place, and nobody waits. Returns 1 and fills the lease. Otherwise
 * returns 0, without a message; in this case, call holdfast_lock_bind. Does not check the key. */
HOLDFAST_API int holdfast_lock_again(holdfast_dict *dict, const char *key, size_t key_length, double exptime,
                                     uint32_t task, holdfast_bound *bound);
/* Releases the lock if it is still in its place, and nobody waits. Returns 1 and clears the lease. Otherwise returns 0,
 * without a message; in this case, call holdfast_unlock. Does not check the key. */
HOLDFAST_API int holdfast_unlock_again(holdfast_dict *dict, const char *key, size_t key_length, holdfast_bound *bound);

/* [change] Ends the grant of the lease, whichever process has it, and wakes one waiter. This is for repair tools, and
 * for a parent that releases what its child holds across exec. The holder is not notified. holdfast_lock_holder returns
 * the owner and the sequence of the lease. NOT_OWNER (that grant has ended). */
HOLDFAST_API int holdfast_lock_break(holdfast_dict *dict, const char *key, size_t key_length,
                                     const holdfast_lease *lease);
/* [change] Gives the lease a new exptime, from now. NOT_OWNER (another lease holds the lock, or a value replaced the
 * lock), NOT_FOUND (the lock is lost and free). */
HOLDFAST_API int holdfast_lock_renew(holdfast_dict *dict, const char *key, size_t key_length,
                                     const holdfast_lease *lease, double exptime);
/* [change] Makes `task` the holder of the lease within this process. This task must make the call itself (see
 * holdfast_task_ids). Pass 0 for no task if it is not certain which task will release the lease. NOT_OWNER. */
HOLDFAST_API int holdfast_lock_adopt(holdfast_dict *dict, const char *key, size_t key_length,
                                     const holdfast_lease *lease, uint32_t task);
/* [read] Returns the seconds until the lease expires, or 0 if it never expires. NOT_OWNER. */
HOLDFAST_API int holdfast_lock_remaining(holdfast_dict *dict, const char *key, size_t key_length,
                                         const holdfast_lease *lease, double *seconds);

/* [change] Stores the reason why the lease is held, as a text of at most HOLDFAST_WHY_MAX bytes, which
 * holdfast_lock_holder shows. A text of 0 bytes removes the reason. The reason ends with the lease. NOT_OWNER,
 * NO_MEMORY (the reason is unchanged), INVALID (length). */
HOLDFAST_API int holdfast_lock_explain(holdfast_dict *dict, const char *key, size_t key_length,
                                       const holdfast_lease *lease, const char *why, size_t length);

typedef enum holdfast_held {
  HOLDFAST_HELD_LOCK = 0,
  HOLDFAST_HELD_RWLOCK = 1,
  HOLDFAST_HELD_SEMAPHORE = 2
} holdfast_held;

typedef struct holdfast_holder {
  uint64_t owner;    /* token of the process                                                             */
  uint64_t sequence; /* fencing token of the grant; 0: the process is about to take the lock, and has   */
                     /* no lease yet                                                                     */
  double held;       /* seconds since the grant                                                          */
  double remaining;  /* seconds until it expires; 0 if it never does                                     */
  uint32_t pid;      /* in the process's own pid namespace; 0: it is dead, and its slot is reused        */
  uint32_t worker;   /* number of a worker of `holdfast run`; 0xFFFFFFFF: not a worker                   */
  uint32_t waiters;  /* the number of waiters, including those in lock_watch                             */
  uint32_t alive;    /* 0: the process is dead, and the next attempt takes the lock; 1: alive; 2: the    */
                     /* system cannot say                                                                */
  uint32_t permits;  /* number of permits; 1 for a lock; HOLDFAST_ALL_PERMITS for a writer of an rwlock  */
  char program[16];  /* name of the program, ended by a zero byte                                        */
  char why[128];     /* the text of holdfast_lock_explain, ended by a zero byte                          */
  uint32_t kind;     /* what is held: a holdfast_held                                                    */
  uint64_t revision; /* in a cluster: the store's revision when this machine got the lock; else 0        */
} holdfast_holder;

/* [change] Describes the holder of the lock at one instant, and changes nothing. If there are several holders of
 * permits, describes the one that has held them longest. NOT_FOUND (there is no holder, and all of *holder is 0). */
HOLDFAST_API int holdfast_lock_holder(holdfast_dict *dict, const char *key, size_t key_length,
                                      holdfast_holder *holder);

enum { HOLDFAST_HOLDERS_MAX = 4096 /* most holders that one call describes */ };

/* [change] Describes all holders of the key's lock or permits at one instant. *count is their number, or 0 if there is
 * none, and *waiters the number of waiters. Writes at most `max` holders, and at most HOLDFAST_HOLDERS_MAX, beginning
 * with those that have held longest. With a `max` of 0, holders may be null. NO_MEMORY (the process has no memory). */
HOLDFAST_API int holdfast_holders(holdfast_dict *dict, const char *key, size_t key_length, holdfast_holder *holders,
                                  uint32_t max, uint32_t *count, uint32_t *waiters);

/* --- how long locks are waited for and held ------------------------------------------------------------ */

/* The dictionary's file contains counts for locks and permits, of all processes since the dictionary was created:
 * - How long waits took. A wait lasts from the first holdfast_lock_wait or holdfast_permits_wait that was refused until
 *   the grant, or until holdfast_lock_leave. Each wait is counted.
 * - How long grants were held. A hold lasts from the grant (or from its claim, if it was reserved for a waiter) until
 *   holdfast_unlock or holdfast_lock_break. A grant is counted if its holder waited for it, or held it for two ticks of
 *   the system's coarse clock (8 ms on most systems). Shorter holds are sampled, because reading the clock for each of
 *   them would cost more than the rest of an unlock. A process measures a short hold if it has not measured one in this
 *   dictionary for 4 ms. It also measures one in 256 of the other short holds, at random, and counts such a hold 256
 *   times. If the process makes millions of grants in a second, it samples long holds like short ones. Grants that end
 *   in another way (expired, flushed, deleted, or of a dead process) are not counted.
 *
 * Once there is something to count, the counts take memory in addition to the dictionary's size: up to 68 KB, in steps
 * of 4 KB. If there is no memory, nothing is counted. */

typedef enum holdfast_time {
  HOLDFAST_TIME_WAITED = 0,
  HOLDFAST_TIME_HELD = 1
} holdfast_time;

enum { HOLDFAST_BUCKETS = 720 /* in a histogram */ };

/* A log-linear histogram. Bucket 0 counts times below 1 ns; bucket i counts times from holdfast_bucket_end(i - 1) to
 * below holdfast_bucket_end(i). From 32 ns on, the width of a bucket is at most 1/16 of its lower bound, so its middle
 * is at most 3.2 % off. The last bucket begins at about 3 days, and has no end. */
typedef struct holdfast_histogram {
  size_t struct_size;    /* in: sizeof(holdfast_histogram)     */
  uint64_t count;        /* sum of all buckets                 */
  double sum;            /* sum of all times, in seconds       */
  double max;            /* the longest time, in seconds       */
  uint64_t buckets[720]; /* HOLDFAST_BUCKETS                   */
} holdfast_histogram;

/* [read] Fills the histogram for locks, rwlocks or semaphores. `held` is a holdfast_held; `time` is a holdfast_time.
 * The histogram is not a snapshot, because other processes may count during the call. INVALID (held, time,
 * struct_size). */
HOLDFAST_API int holdfast_dict_histogram(holdfast_dict *dict, int held, int time, holdfast_histogram *histogram);
/* Returns the upper bound of the bucket in seconds. Returns infinity for the last bucket, and for larger numbers. */
HOLDFAST_API double holdfast_bucket_end(uint32_t bucket);
/* Returns a quantile of the times, in seconds: a share of `quantile` (0 to 1) of all times is at most as long as the
 * result. The result is the middle of a bucket, but at most histogram->max. Returns 0 if nothing was counted, or if
 * `quantile` is out of range. */
HOLDFAST_API double holdfast_quantile(const holdfast_histogram *histogram, double quantile);

enum {
  HOLDFAST_CONTENDED_MAX = 64,    /* most keys that one call describes         */
  HOLDFAST_CONTENDED_KEY_MAX = 72 /* bytes of a key that are kept              */
};

/* The contention of one key since the key was recorded. */
typedef struct holdfast_contended {
  uint64_t waits;      /* waits, as in the histogram                                                          */
  uint64_t timeouts;   /* waits that ended without the lock or permits                                        */
  uint64_t refused;    /* attempts that found the key held and did not wait; an estimate if there are many    */
  double wait_time;    /* total time of all waits, in seconds                                                 */
  uint32_t kind;       /* what was requested last: a holdfast_held                                            */
  uint32_t key_length; /* length of the whole key; `key` has at most HOLDFAST_CONTENDED_KEY_MAX bytes of it   */
  char key[72];
} holdfast_contended;

/* [read] Describes the keys with the most contention, the worst first: at most `max`, and at most
 * HOLDFAST_CONTENDED_MAX. Keys are ranked by the sum of microseconds waited, waits and refusals. A dictionary records
 * about 250 keys. If more keys have contention, those with the least are dropped, and their counts start at 0 if they
 * are recorded again. `struct_size` is sizeof(holdfast_contended). INVALID (struct_size). */
HOLDFAST_API int holdfast_dict_contention(holdfast_dict *dict, holdfast_contended *keys, size_t struct_size,
                                          uint32_t max, uint32_t *count);

/* --- clusters ---------------------------------------------------------------------------------------- */

/* All machines of a cluster share the locks of a dictionary that belongs to the cluster. On each machine, a process
 * called the agent gets locks from the cluster's store. The agent has a session at the store, which ends at a deadline
 * unless the agent renews it. If the session ends, this machine loses all its locks: from then on, calls with their
 * leases return NOT_OWNER. */
typedef struct holdfast_cluster {
  char name[64];  /* name of the cluster, ended by a zero byte                               */
  uint32_t agent; /* process id of the agent, in its own pid namespace; 0: no agent          */
  uint32_t epoch; /* number of the session, different for each session                       */
  double seconds; /* seconds until the session ends unless it is renewed; 0: it is lost      */
  uint64_t machine; /* number of the session at the store, which identifies this machine; 0: unknown       */
} holdfast_cluster;

/* [read] Describes the cluster of the dictionary. UNAVAILABLE (no agent serves the dictionary, or the session is lost,
 * or the store grants nothing new because it does not answer, is full, has no leader or denies access);
 * holdfast_error() gives the reason, and *state is filled even then. NOT_FOUND (the dictionary does not belong to a
 * cluster). */
HOLDFAST_API int holdfast_cluster_state(holdfast_dict *dict, holdfast_cluster *state);

/* --- questions to the agent of a cluster ------------------------------------------------------------- */

typedef enum holdfast_question {
  HOLDFAST_ASK_VERIFY = 0, /* does this machine have the lock, according to the store?                   */
  HOLDFAST_ASK_HOLDER = 1, /* which machine has the lock?                                                */
  HOLDFAST_ASK_BREAK = 2,  /* take the lock from its machine if the grant still has `revision`           */
  HOLDFAST_ASK_STATUS = 3  /* what state is the agent in? The key is ignored, and may have 0 bytes       */
} holdfast_question;
enum { HOLDFAST_ANSWER_MAX = 4096 /* bytes */ };

/* [attempt] Asks the agent a holdfast_question, and returns a descriptor that becomes readable when holdfast_answer()
 * has a result. Close the descriptor to give up. UNAVAILABLE (there is no agent), NOT_FOUND (the dictionary does not
 * belong to a cluster), INVALID (question, key), REMOVED, SYSTEM. */
HOLDFAST_API int holdfast_ask(holdfast_dict *dict, int question, const char *key, size_t key_length, uint64_t revision,
                              int *fd);
/* [read] Returns the answer, which consists of lines of the form "name=value". The first line is "code=yes", "code=no",
 * "code=unavailable", or "code=unsupported" for a key that is too long for the store. With the last two codes, a line
 * "sentence" gives the reason. The other lines, if known, are "revision" and "machine" of the grant, and "host", "pid",
 * "program", "why" and "when" (ms since 1970) of the holder. The answer to ASK_STATUS contains "machine" of the
 * session, or "sentence" with the reason why there is no session; its other lines are the agent's counts, which
 * cluster/docs/cluster.md describes. Before the call, set *size to the size of the buffer, which must be at least
 * HOLDFAST_ANSWER_MAX. The call sets *size to the size of the answer. TIMEOUT (there is no answer yet). All other codes
 * close the descriptor. UNAVAILABLE (the agent has ended), INVALID. */
HOLDFAST_API int holdfast_answer(int fd, char *text, size_t *size);
/* Asks the cluster's store whether the lease holds the lock now. Sleeps until the store has answered, for at most
 * `seconds` (0 or more). NOT_OWNER, UNAVAILABLE (there is no agent, or it got no answer from the store), TIMEOUT (the
 * agent has not answered in time), and the codes of [read]. In a dictionary without a cluster, the call only checks the
 * lease. In an event loop, ask HOLDFAST_ASK_VERIFY instead. If the answer is yes, also call holdfast_lock_remaining():
 * the lock is held only if this call returns OK. */
HOLDFAST_API int holdfast_lock_verify(holdfast_dict *dict, const char *key, size_t key_length,
                                      const holdfast_lease *lease, double seconds);

/* --- waiting in a thread ----------------------------------------------------------------------------- */

/* The request of holdfast_acquire. Later versions may add fields at the end; a field of 0 has no effect.
 * In C, and in C++20:
 *
 *   const holdfast_request request = HOLDFAST_REQUEST(.timeout = 5, .exptime = 30, .why = "the nightly report");
 */
typedef struct holdfast_request {
  /* sizeof(holdfast_request), as HOLDFAST_REQUEST sets it */
  uint32_t struct_size HOLDFAST_DEFAULT(sizeof(holdfast_request));
  int32_t kind HOLDFAST_DEFAULT(0);          /* a holdfast_held: what to acquire                           */
  double timeout HOLDFAST_DEFAULT(0);        /* as in holdfast_lock                                        */
  double exptime HOLDFAST_DEFAULT(0);        /* as in holdfast_lock                                        */
  uint32_t want HOLDFAST_DEFAULT(0);         /* as in holdfast_permits_try; 0 for a lock                   */
  uint32_t total HOLDFAST_DEFAULT(0);        /* as in holdfast_permits_try; 0 for a lock                   */
  int32_t fair HOLDFAST_DEFAULT(0);          /* not 0: overtakes no waiter, and is not overtaken           */
  int32_t holds HOLDFAST_DEFAULT(0);         /* a holdfast_holds: what the task holds                      */
  uint32_t task HOLDFAST_DEFAULT(0);         /* the task that waits; 0: unknown; see holdfast_wait         */
  uint32_t holder_task HOLDFAST_DEFAULT(0);  /* the task that will hold the lease; 0: none                 */
  const char *why HOLDFAST_DEFAULT(nullptr); /* for holdfast_lock_holder, ended by a zero byte; NULL: none */
} holdfast_request;

#define HOLDFAST_REQUEST(...) {.struct_size = sizeof(holdfast_request), __VA_ARGS__}

/* [wait] Takes the lock or the permits that the request describes, and waits for them as holdfast_lock does. Release
 * either with holdfast_unlock. `why` is cut after HOLDFAST_WHY_MAX bytes, and omitted if there is no memory for it.
 * Returns the codes of holdfast_lock, and for permits also the codes of holdfast_permits_try. DEADLOCK (the wait would
 * never end, see holdfast_lock_wait; holdfast_error() names the keys), INVALID (also struct_size, kind, want, total,
 * and fields that this version of the library does not know). */
HOLDFAST_API int holdfast_acquire(holdfast_dict *dict, const char *key, size_t key_length,
                                  const holdfast_request *request, holdfast_lease *lease);

/* --- waiting in a loop of your own ------------------------------------------------------------------- */

/* A parker is the object on which an event loop, a thread or a Lua state sleeps. A waiter stands for one of the tasks
 * on this object that wait for a lock. To wait, call holdfast_waiter_open, then call holdfast_lock_wait until it
 * returns a code other than LOCKED and TIMEOUT. Between these calls, sleep until holdfast_parker_sleep reports the
 * waiter or wait->sleep seconds have passed. To give up, call holdfast_lock_leave. Afterwards, call
 * holdfast_waiter_close, or begin another wait. A waiter waits for only one key at a time. A wake-up is only a hint:
 * the next holdfast_lock_wait returns whether the waiter has got the lock. */
typedef struct holdfast_parker holdfast_parker;

/* [set-up] Makes a parker. Returns NULL on failure, with a message in holdfast_error(). */
HOLDFAST_API holdfast_parker *holdfast_parker_new(void);
/* Closes the parker's waiters, its descriptor and its sockets, and frees it. `parker` may be null. */
HOLDFAST_API void holdfast_parker_free(holdfast_parker *parker);
/* Opens a waiter and returns its number. Returns 0 if there is no room for a waiter, with a message in
 * holdfast_error(). Do not use the number in a forked child. */
HOLDFAST_API uint32_t holdfast_waiter_open(holdfast_parker *parker);
/* Closes a waiter. If the waiter may be in a queue, call holdfast_lock_leave first: a wake-up that is sent to a closed
 * waiter delays the next waiter. A number that does not belong to a waiter is ignored. */
HOLDFAST_API void holdfast_waiter_close(holdfast_parker *parker, uint32_t waiter);

/* Returns a range of 2^20 task ids for one Lua state, which no other Lua state of this process uses. A task id is the
 * result plus a number. The number 0 stands for the whole Lua state: use it for code outside coroutines, and for a
 * holder whose coroutine is not known. A result of 0 means that no range is left; in this case, pass no tasks. The
 * search for deadlocks follows waits from task to task. It assumes that a waiting task does nothing else, and that only
 * the task itself releases what it holds. So name a task as a holder only if it is certain that this task releases the
 * lock. Otherwise, the search may report a deadlock that does not exist. */
HOLDFAST_API uint32_t holdfast_task_ids(void);

/* Says what a task may hold while it waits. */
typedef enum holdfast_holds {
  HOLDFAST_HOLDS_NOTHING = 0,    /* nothing that others wait for                                          */
  HOLDFAST_HOLDS_SOMETHING = 1,  /* perhaps something that others wait for                                */
  HOLDFAST_HOLDS_EVERYTHING = 2, /* the same, and nothing else of its Lua state runs during the wait      */
  HOLDFAST_HOLDS_ITSELF = 4      /* added to one of the last two: perhaps also the lock for which it      */
                                 /* waits; if so, the code is DEADLOCK                                    */
} holdfast_holds;

typedef struct holdfast_wait {
  holdfast_parker *parker;
  uint32_t waiter;
  uint32_t task;  /* the task that waits; 0: unknown                                                   */
  int32_t fair;   /* not 0: no later caller gets the lock first                                        */
  int32_t holds;  /* a holdfast_holds; any other value is HOLDFAST_HOLDS_SOMETHING                     */
  double timeout; /* seconds after which the caller gives up; 0: unknown. After this time,             */
                  /* others overtake the caller if its process is stopped                              */
  double sleep;   /* out: sleep at most this many seconds before the next call                         */
  uint32_t holder_task; /* the task that will hold the lease; 0: none; see holdfast_lock_adopt        */
  int32_t tries;        /* not 0: do not wait for other machines; see holdfast_lock_wait              */
} holdfast_wait;

/* [attempt] Does the same as holdfast_lock_try for a waiter; the call itself does not wait. If the lock is held, the
 * call queues the waiter (once), and sets wait->sleep to the longest time to sleep before the next call, even if the
 * code is TIMEOUT. The waiters of a dictionary take at most a quarter of its memory. A waiter that finds no room in the
 * queue polls; the more such waiters there are, the more rarely each polls. After LOCKED, TIMEOUT and DEADLOCK, the
 * waiter may be in the queue, so repeat the call, or call holdfast_lock_leave. Any other code ends the wait. INVALID
 * (also for a number that is not a waiter of the parker, as in a forked child).
 * DEADLOCK means that the holder waits, directly or through others, for what wait->task holds, and that the caller was
 * the last in this cycle to begin its wait. The others continue when the caller releases its locks.
 * In a cluster, also UNSUPPORTED (the key is too long for the store). If wait->tries is set, also ELSEWHERE (since the
 * wait began, the store has said that another machine has the lock) and UNAVAILABLE (the agent got no answer from the
 * store). If there is no agent, the call returns neither of these two codes. */
HOLDFAST_API int holdfast_lock_wait(holdfast_dict *dict, const char *key, size_t key_length, double exptime,
                                    holdfast_wait *wait, holdfast_lease *lease);
/* [attempt] Waits for the end of a grant without taking the lock. OK means that the grant that held the lock when the
 * wait began has ended (it was released, expired, deleted or flushed, or its process died), even if the lock is held
 * again. The code is also OK if the key was not held. All watchers are woken together, and delay no waiter. Set *grant
 * to 0 to begin a wait. If the code is LOCKED, *grant is the fencing token of the grant; pass it to the next call.
 * LOCKED queues the waiter as holdfast_lock_wait does; see there for sleep, codes and holdfast_lock_leave. If `wait` is
 * null, the call only checks. If the key has permits, the wait lasts until all grants that held permits when the wait
 * began have ended. If the key has an ordinary value, the wait lasts until this value is gone. In both cases
 * wait->sleep is short, because nothing wakes the waiter. In a cluster, also ELSEWHERE (this machine does not have the
 * lock, so another machine may hold it). */
HOLDFAST_API int holdfast_lock_watch(holdfast_dict *dict, const char *key, size_t key_length, holdfast_wait *wait,
                                     uint64_t *grant);
/* Takes one step of a wait for a change of a value, which holdfast_wait_for_change does in a single call. After
 * UNCHANGED, sleep for at most wait->sleep seconds, and repeat the call, or call holdfast_lock_leave. Any other code
 * ends the wait. Only the fields parker and waiter of *wait are used. */
HOLDFAST_API int holdfast_change_wait(holdfast_dict *dict, const char *key, size_t key_length, holdfast_wait *wait,
                                      holdfast_version_of_key *version);
/* Returns the keys of the cycle of waits, beginning with the waiter's own key, packed like the keys of holdfast_keys.
 * Call it after DEADLOCK, before the waiter is used again. Returns only the first 56 bytes of a longer key. BUFFER,
 * NOT_FOUND (there was no deadlock), NO_MEMORY. */
HOLDFAST_API int holdfast_deadlock_keys(holdfast_parker *parker, uint32_t waiter, holdfast_value *keys,
                                        uint32_t *count);
/* [attempt] Removes the waiter from the queue. If a release has already chosen this waiter, wakes the next waiter
 * instead. Returns OK even if the waiter was not in a queue. TIMEOUT (the waiter's entry may remain, and is skipped
 * later), SYSTEM (the waiter was removed from the queue; the wait may have been useless, because the system cannot say
 * whether a holder is alive). In this situation a wait continues, because the holder may still release the lock;
 * holdfast_lock_try and holdfast_permits_try return SYSTEM immediately. */
HOLDFAST_API int holdfast_lock_leave(holdfast_dict *dict, const char *key, size_t key_length,
                                     holdfast_parker *parker, uint32_t waiter);

/* --- permits: rwlocks and semaphores ----------------------------------------------------------------- */

/* Instead of a lock, a key may have permits, which several holders share. A request for a kind other than the one that
 * is held (lock, rwlock or semaphore) waits in the same queue until nobody holds the key. holdfast_unlock,
 * holdfast_lock_renew, holdfast_lock_adopt, holdfast_lock_remaining, holdfast_lock_explain, holdfast_lock_holder and
 * holdfast_lock_leave work for permits as they do for locks. The permits of a dead process become free when an attempt
 * needs them. Waiters get permits in order of arrival: no request overtakes a waiter that needs more permits than are
 * free. If there are more than 64 holders, permits of dead processes and expired permits become free after attempts
 * have been made for up to a second; the fewer holders there are, the shorter this takes. */
typedef enum holdfast_permits_kind {
  HOLDFAST_RWLOCK = 0,   /* `want` is 1 to read and HOLDFAST_ALL_PERMITS to write; `total` is ignored              */
  HOLDFAST_SEMAPHORE = 1 /* `want` of `total`, which is below HOLDFAST_ALL_PERMITS; the last caller's total counts */
} holdfast_permits_kind;

enum { HOLDFAST_ALL_PERMITS = 1073741824 /* 2^30 */ };

/* [attempt] These calls do for permits what holdfast_lock_try and holdfast_lock_wait do for locks. LOCKED (also if the
 * key is held as another kind), INVALID (kind, want, total), UNSUPPORTED (in a cluster's dictionary). */
HOLDFAST_API int holdfast_permits_try(holdfast_dict *dict, const char *key, size_t key_length, int kind, uint32_t want,
                                      uint32_t total, double exptime, uint32_t task, int how,
                                      holdfast_lease *lease);
HOLDFAST_API int holdfast_permits_wait(holdfast_dict *dict, const char *key, size_t key_length, int kind,
                                       uint32_t want, uint32_t total, double exptime, holdfast_wait *wait,
                                       holdfast_lease *lease);
/* [change] Releases all permits of the lease except `count`, in one step. A count of 1 makes a writer a reader.
 * NOT_OWNER, INVALID (`count` is 0, or more than the lease has). */
HOLDFAST_API int holdfast_permits_keep(holdfast_dict *dict, const char *key, size_t key_length,
                                       const holdfast_lease *lease, uint32_t count);
/* [attempt] Turns the lease's read lock of an rwlock into the write lock, if there is no other reader. The lease keeps
 * its fencing token and its exptime. The token stays larger than the token of every earlier writer, because nobody else
 * can have got the write lock since the read lock was granted. `how` is as in holdfast_lock_try. With
 * HOLDFAST_HOW_ANY_OWNER, any process may upgrade the lease on behalf of its owner, as with holdfast_lock_break; if the
 * owner dies, the lock becomes free as usual. If `wait` is null, the call does not queue. Otherwise the call is a step
 * of a wait, like holdfast_permits_wait: the waiter goes before all others, no new reader gets the lock while it waits,
 * and wait->fair and wait->holder_task have no effect.
 * After a code other than OK, the lease still has the read lock, unless the code is REMOVED or NOT_OWNER (the lease has
 * expired, or was deleted or flushed). OK also if the lease already has the write lock. LOCKED (there are other
 * readers), DEADLOCK (as for holdfast_lock_wait; or another reader of the key waits to become the writer, so release
 * this read lock, and holdfast_deadlock_keys returns NOT_FOUND), NO_MEMORY (there is no room in the queue), INVALID
 * (the lease has a lock, or permits of a semaphore), UNSUPPORTED (in a cluster's dictionary). */
HOLDFAST_API int holdfast_permits_upgrade(holdfast_dict *dict, const char *key, size_t key_length, int how,
                                          holdfast_wait *wait, const holdfast_lease *lease);
/* [wait] Does the same, and blocks the calling thread for up to `timeout` seconds, as holdfast_lock does. `task` is the
 * task that waits, or 0 if it is unknown (see holdfast_wait). */
HOLDFAST_API int holdfast_upgrade(holdfast_dict *dict, const char *key, size_t key_length, double timeout,
                                  uint32_t task, const holdfast_lease *lease);
/* [change] Returns how many permits live processes use, and the number of waiters. Both are 0 if the key has no
 * permits. LOCKED (the key has a value, or is held as a lock), UNSUPPORTED (in a cluster's dictionary). */
HOLDFAST_API int holdfast_permits_count(holdfast_dict *dict, const char *key, size_t key_length, uint32_t *used,
                                        uint32_t *waiters);

/* Sleeps until a waiter of this parker is woken or `seconds` have passed. With 0, does not sleep; with a negative
 * number, sleeps without limit. Writes the woken waiters to `waiters`, at most `max`, which must be at least 1. Returns
 * their number, 0 if the time is over, or -1 on failure (a bad argument, no memory) with a message in holdfast_error().
 * While it sleeps, it checks for dead holders on behalf of the waiters. A signal ends the sleep early, possibly with 0.
 * A wait of more than 0.2 s starts a thread that the kernel notifies of deaths. This thread has its own descriptors,
 * and ends 10 to 20 s after the last wait. If it cannot be started, sleeps are shorter. */
HOLDFAST_API int holdfast_parker_sleep(holdfast_parker *parker, double seconds, uint32_t *waiters, int max);

/* --- waiting in an event loop -------------------------------------------------------------------------
 *
 * A loop that sleeps in poll, select or epoll watches the parker's descriptor. When the descriptor is readable, call
 * holdfast_parker_sleep(parker, 0, waiters, max) until it returns less than `max`, which also makes the descriptor
 * unreadable. A thread of the library, the wake thread, receives the wake-ups of the process, and checks for dead
 * holders. It runs while a parker with a descriptor has waiters or a timer, and for 0.8 s after that. It blocks all
 * signals, and calls no code of the host. If this thread cannot be started, or no descriptors are left, the two
 * calls below fail, and wait->sleep is short. A loop that never sleeps longer than wait->sleep needs neither of
 * these calls. */

/* Returns the parker's descriptor. Never read, write or close it. Returns -1 if no descriptor or thread is available,
 * with a message in holdfast_error(); the next call tries again. Make this call before each wait. It makes two system
 * calls, neither of which sleeps. It replaces a descriptor that the host has closed by mistake (the number may change),
 * and gives a forked child its own descriptor. */
HOLDFAST_API int holdfast_parker_fd(holdfast_parker *parker);
/* Makes the descriptor readable, once, after `seconds`. This is for loops that can wait for a descriptor but not for a
 * time. Replaces an earlier timer; a negative number only cancels it. SYSTEM, NO_MEMORY, INVALID (not a number). */
HOLDFAST_API int holdfast_parker_timer(holdfast_parker *parker, double seconds);

/* The next three calls are for loops that can wait only for connections that they have made themselves. Call
 * holdfast_parker_listen, let the loop connect to the path, then call holdfast_parker_accept. From then on the loop's
 * end of the connection receives one byte whenever the parker's descriptor would become readable. Read the byte, then
 * call holdfast_parker_sleep(parker, 0, waiters, max) until it returns less than `max`. A byte without a woken waiter
 * is harmless. The loop closes its own end. After that, and in a forked child, call holdfast_parker_listen again. */

/* The largest size of a socket's path, including the zero byte. */
#define HOLDFAST_PATH_MAX 108

/* Creates a Unix stream socket (SOCK_STREAM) in the runtime directory, and writes its path to `path`. Replaces an
 * earlier socket and its connection. SYSTEM (also if the path of the runtime directory is too long), NO_MEMORY, INVALID
 * (no room for the path). */
HOLDFAST_API int holdfast_parker_listen(holdfast_parker *parker, char *path, size_t size);
/* Accepts the connection, which this process must have made, and removes the path. Closes connections of other
 * processes. NO_MEMORY, SYSTEM (there is no connection, and the parker still listens; or no thread is available, and
 * everything is closed). */
HOLDFAST_API int holdfast_parker_accept(holdfast_parker *parker);
/* Closes the listening socket and the connection, and removes the path. */
HOLDFAST_API void holdfast_parker_disconnect(holdfast_parker *parker);

/* --- observing a runtime directory, for people and monitors ---------------------------------------------- */

/* Makes this process and its children observers. An observer does not count among the 1,024 processes of the runtime
 * directory. It does not create, repair or remove anything, even if no other process is left. holdfast_list,
 * holdfast_attach and calls marked [read] work as usual; all other calls return INVALID. If the runtime directory does
 * not exist or has never been used, calls return NOT_FOUND. Call holdfast_observe before any call that opens something
 * or has a mark. EXISTS (the process has already joined the runtime directory). */
HOLDFAST_API int holdfast_observe(void);

typedef struct holdfast_process {
  uint64_t owner;         /* its token, as in holdfast_holder                                              */
  double entered;         /* seconds since it joined the runtime directory                                 */
  uint64_t pid_namespace; /* inode of the pid namespace to which `pid` belongs; 0: unknown                 */
  uint32_t pid;
  uint32_t worker;        /* number of a worker of `holdfast run`; 0xFFFFFFFF: not a worker                */
  char program[16];       /* name of the program, ended by a zero byte                                     */
  char host[40];          /* name of its machine or container, ended by a zero byte; at most 39 bytes      */
} holdfast_process;

enum { HOLDFAST_PROCESSES_MAX = 1024 };

/* [read] Describes the processes of the runtime directory, at most `max`, as they described themselves when they
 * joined. Does not ask the kernel, so a process that has ended is included until another process gets its slot.
 * `struct_size` is sizeof(holdfast_process). INVALID (struct_size); NOT_FOUND, PERMISSION, ... if the runtime directory
 * is not available. */
HOLDFAST_API int holdfast_processes(holdfast_process *processes, size_t struct_size, uint32_t max, uint32_t *count);
/* [read] Asks the kernel whether the process with this token is alive. The more dictionaries the processes have open,
 * the longer this takes. NOT_FOUND (the process is dead), SYSTEM (the kernel cannot say). */
HOLDFAST_API int holdfast_process_lives(uint64_t owner);

typedef struct holdfast_waiter {
  uint64_t owner;   /* token of its process, which may be dead                                             */
  double waited;    /* seconds since the wait began                                                        */
  uint32_t want;    /* permits that the waiter wants; 1 for a lock; HOLDFAST_ALL_PERMITS if it waits       */
                    /* until nobody holds permits of another kind                                          */
  uint32_t watches; /* 1: it waits for the end of the grant (holdfast_lock_watch), not for the lock        */
} holdfast_waiter;

/* [read] Does the same as holdfast_holders, but takes no mutex and does not ask the kernel, so `alive` is always 2.
 * Also describes the waiters in the order of their queue, watchers last. Waiters that come or leave during the call may
 * be missing. Writes at most `max_holders` holders and `max_waiters` waiters; *holder_count and *waiter_count are the
 * numbers of all holders and waiters, and may be 0. Either array may be null if its maximum is 0. `waiter_size` is
 * sizeof(holdfast_waiter). CORRUPT (the entry is damaged), INVALID (waiter_size), NO_MEMORY (the process has no
 * memory). */
HOLDFAST_API int holdfast_look(holdfast_dict *dict, const char *key, size_t key_length, holdfast_holder *holders,
                               uint32_t max_holders, uint32_t *holder_count, holdfast_waiter *waiters,
                               size_t waiter_size, uint32_t max_waiters, uint32_t *waiter_count);

/* The state of a dictionary, as numbers of its shards. A shard is a part of the dictionary with its own mutex. */
typedef struct holdfast_health {
  uint32_t used;         /* shards that were ever used                                                     */
  uint32_t damaged;      /* inconsistent shards: holdfast_flush_expired repairs them                       */
  uint32_t uncertain;    /* shards that changed during each check, so their state is not known             */
  uint32_t held;         /* shards whose mutex was held during each check, by a process inside a call      */
  uint32_t held_by_dead; /* the same, by a dead process: the next change repairs what it left behind       */
  uint32_t held_by_idle; /* the same, by a process that is not inside a call: the mutex was overwritten    */
  uint64_t holder;       /* token of one of the processes that hold a mutex                                */
} holdfast_health;

/* [read] Checks whether the dictionary is intact, and changes nothing. Takes about a millisecond for each shard of 1
 * MB, and a twentieth of a second for a shard that others change all the time. `struct_size` is
 * sizeof(holdfast_health). INVALID (struct_size), NO_MEMORY (the process has no memory). */
HOLDFAST_API int holdfast_check(holdfast_dict *dict, holdfast_health *health, size_t struct_size);

#ifdef __cplusplus
}
#endif
#endif
