/* holdfast: cross-process locks and a shared dictionary.
 *
 * The one public header: C and C++ hosts include it, LuaJIT declares the same calls by FFI. docs/c.md shows how to use
 * it. What holds for every call, unless the call says otherwise:
 *
 *  1. Handles are opaque. A holdfast_dict lives as long as the process: it is never freed, and opening one name twice
 *     gives the same handle. A holdfast_parker is freed by its owner, who sees to it that nobody uses it any more.
 *  2. Memory. The library keeps no pointer that it is given (but the one to a clock, see holdfast_follow_clock), and
 *     gives none that has to be freed. Leases, waits and values are plain data of the caller, and no two threads may use
 *     one at the same time.
 *  3. Strings are pointer plus length, may hold any byte, and need no zero byte at the end. A pointer may be null where
 *     its length or capacity is 0, else only where a call says so. A key that is null is INVALID, as an empty one is.
 *  4. Times and durations are seconds in a double, of CLOCK_MONOTONIC. An `exptime` of 0, or of more than 1e10 (317
 *     years), means "never expires"; a negative one and NaN are INVALID. It counts from the call. A value ends up to 1
 *     ms early and never late: a call that begins when its exptime has passed does not find it. What is held (locks,
 *     permits) never ends early, and at most 1 ms late. See also holdfast_follow_clock().
 *  5. Results. A call returns a holdfast_code. What it writes through pointers has a meaning with OK only. A code that
 *     this header does not know, from a later library, is a failure like any other; holdfast_code_text() knows it.
 *  6. holdfast_error() has one English sentence on the last call of this thread that failed, or "" where the code says
 *     all there is to say. It is valid until the thread's next call. One of more than 767 bytes is cut, and ends in
 *     "..."; where there is no memory for it, a shorter one stands for it.
 *  7. What may sleep, and the codes that come with it, is told by a mark, so calls list only the codes of their own:
 *     [set-up]  reads and makes files, and waits up to 5 s while another process does (BUSY then). Also:
 *               PERMISSION, NO_MEMORY, CORRUPT, MISMATCH, SYSTEM, INVALID; the sentence tells what was found and what
 *               was expected. The first call of a process, and of a forked child, may do all this, whatever its mark.
 *     [read]    takes no mutex and does not wait for a process that is stopped. Only where writers disturb it without
 *               end it sleeps for a moment, and gives TIMEOUT after half a second. Also: INVALID (key), REMOVED.
 *     [change]  holds a mutex of the dictionary for microseconds. When another has it, it sleeps; when that process is
 *               alive but stopped (SIGSTOP, a debugger), it gives TIMEOUT after 1 second, and has changed nothing.
 *               Also: INVALID (key, exptime), REMOVED, BUSY, CORRUPT, SYSTEM, or why a forked child cannot enter the
 *               world.
 *     [attempt] as [change], but TIMEOUT comes after 0.05 seconds: who asks again soon need not wait.
 *     Without a mark, a call does not sleep, but for parker_sleep. None but that waits for a lock or for permits.
 *  8. Threads. All calls may be made from any thread at any time, with the same handles: also from destructors of
 *     pthread keys, of thread-local and of static objects, from functions of atexit, and in a thread that outlives main.
 *     A parker's descriptor and timer may be refused (SYSTEM) once the process exits. A lease belongs to the
 *     process: any thread may give it back, and it outlives the thread that took it. Of threads that wait, each has a
 *     parker of its own, as parker_sleep tells of all waiters of a parker. No thread may be cancelled inside a call.
 *  9. Fork. A child may use its parent's handles, at any time and whatever other threads of the parent were doing.
 *     It is a process of its own: leases of the parent are NOT_OWNER there, and parkers have no waiters. At most 1,024
 *     processes are in one runtime directory; one more can only read, and gets SYSTEM from all else.
 * 10. The end. Whatever a process holds comes free with it, in whatever way it ends, exec included. It may end while
 *     threads are inside calls.
 * 11. Signals. No call may be made from a signal handler; one that changes a dictionary while the same thread does gets
 *     BUSY instead of a deadlock. Signals end parker_sleep early and nothing else. No handler may leave a call by
 *     longjmp or an exception: the thread would stay inside, and what it locked there stays locked until the process
 *     ends. A handler may not fork while its thread may be in a call, or in fork() itself: that fork may wait for the
 *     thread which it interrupts, or leave a lock of the call to the child.
 * 12. No call throws, aborts, or calls back into the host, also where malloc gives nothing: the code is NO_MEMORY then,
 *     or one of those above. What another process wrote into shared memory is never trusted: damage costs entries, never
 *     a crash. A file that is cut short while it is in use (truncate, cp over it), or loses a page that a full file
 *     system cannot replace, is another matter: the kernel ends the process by SIGBUS. After holdfast_guard_sigbus() the
 *     call goes on with memory that is all zero, and what it gives is worth nothing; from then on the dictionary is
 *     REMOVED, with its locks, and may be removed by name and opened anew. So it is for every process, with the guard
 *     or without, as soon as one has noticed; but if the first page of the file is gone each has to notice by itself.
 *     Of the table of processes: calls that need it are SYSTEM until the process ends, and nobody's lock is taken over.
 * 13. Versions. A host compares holdfast_abi() with HOLDFAST_ABI before any other call: no two with different numbers
 *     fit each other. With the same number, calls, structs and values stay what they are; calls and codes may be added.
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

#ifdef __cplusplus
extern "C" {
#endif

/* Grows with every incompatible change of this header. */
#define HOLDFAST_ABI 5

typedef enum holdfast_code {
  HOLDFAST_OK = 0,
  HOLDFAST_NOT_FOUND = 1,     /* no such key, or dictionary                                     */
  HOLDFAST_EXISTS = 2,        /* add: the key has a value                                       */
  HOLDFAST_NO_MEMORY = 3,     /* the dictionary, /dev/shm or the process has no room            */
  HOLDFAST_TIMEOUT = 4,       /* another process is in the way, and stopped; nothing was done   */
  HOLDFAST_NOT_A_NUMBER = 5,  /* incr: the value is something else                              */
  HOLDFAST_LOCKED = 6,        /* the lock is held by another                                    */
  HOLDFAST_NOT_OWNER = 7,     /* unlock, renew: the lease is no longer the caller's             */
  HOLDFAST_TOO_LARGE = 8,     /* key or value can never fit; holdfast_error() names the limit   */
  HOLDFAST_BUFFER = 9,        /* get: value->capacity is too small; value->size says what it is */
  HOLDFAST_INVALID = 10,      /* an argument is not acceptable; see holdfast_error()            */
  HOLDFAST_SYSTEM = 11,       /* the operating system said no, also to the question whether a   */
                              /* holder lives; see holdfast_error()                             */
  HOLDFAST_MISMATCH = 12,     /* it exists with another size or mutex, or in another time       */
                              /* namespace                                                      */
  HOLDFAST_CORRUPT = 13,      /* the file is not a segment of this version                      */
  HOLDFAST_PERMISSION = 14,   /* owner or mode of a directory or file is not acceptable         */
  HOLDFAST_BUSY = 15,         /* called from inside a call of this thread; set-up: by another   */
  HOLDFAST_REMOVED = 16,      /* the dictionary was removed, and there is no other of its name  */
  HOLDFAST_NOT_A_LIST = 17,   /* push, pop, llen: the value is something else                   */
  HOLDFAST_IS_A_LIST = 18,    /* get: the value is a list                                       */
  HOLDFAST_DIFFERS = 19,      /* cas: the value is another                                      */
  HOLDFAST_DEADLOCK = 20      /* lock_wait: would never end; see holdfast_deadlock_keys         */
} holdfast_code;

typedef enum holdfast_type {
  HOLDFAST_NIL = 0,
  HOLDFAST_BOOLEAN = 1,
  HOLDFAST_NUMBER = 3,
  HOLDFAST_STRING = 4,
  HOLDFAST_TABLE = 5 /* bytes that the host made of a table; the library does not look inside */
} holdfast_type;

typedef enum holdfast_mutex {
  HOLDFAST_MUTEX_FUTEX = 0, /* spin, then sleep until woken (default)        */
  HOLDFAST_MUTEX_SPIN = 1,  /* spin, then yield the processor; never sleeps  */
  HOLDFAST_MUTEX_FILE = 2   /* a record lock on the segment's file           */
} holdfast_mutex;

typedef enum holdfast_store_op {
  HOLDFAST_SET = 0,
  HOLDFAST_ADD = 1,
  HOLDFAST_REPLACE = 2,
  HOLDFAST_SAFE_SET = 3, /* as SET, but removes no live entry to make room */
  HOLDFAST_SAFE_ADD = 4  /* as ADD, the same                               */
} holdfast_store_op;

typedef enum holdfast_end { HOLDFAST_LEFT = 0, HOLDFAST_RIGHT = 1 } holdfast_end;

enum {
  HOLDFAST_NAME_MAX = 250,     /* bytes of a dictionary's name, any but zero; those not of [A-Za-z0-9._-] */
                               /* count 3 each, as %XX in the name of its file, and so does a first '.'   */
  HOLDFAST_KEY_MAX = 65535,    /* bytes of a key; 0 is refused                                            */
  HOLDFAST_SIZE_MIN = 12288,   /* bytes of the smallest dictionary                                        */
  HOLDFAST_WHY_MAX = 127       /* bytes of the text that says why something is held                       */
};

/* --- the library and the world ----------------------------------------------------------------------- */

/* HOLDFAST_ABI as the library was built. */
HOLDFAST_API uint32_t holdfast_abi(void);
/* The version, as in "0.2.0". Static. */
HOLDFAST_API const char *holdfast_version(void);
/* The sentence of the last call of this thread that failed, see 6; never null. */
HOLDFAST_API const char *holdfast_error(void);
/* "not found", "exists", "no memory", "timeout", ...; "unknown code" for anything else. Static. */
HOLDFAST_API const char *holdfast_code_text(int code);
/* CLOCK_MONOTONIC in seconds. */
HOLDFAST_API double holdfast_now(void);
/* From now on values of this process count their exptime from the time that `milliseconds` says, and end by it; what is
 * held does not. For a host whose loop reads the clock once a round and counts its timers from that: a value that a
 * handler stores ends when a timer of the same length fires that it sets, not before, however long the handler runs. An
 * exptime is cut to whole milliseconds then. The word is the host's: CLOCK_MONOTONIC as of each round. It has to stay
 * where it is as long as the process lives. While it is ahead, or behind by more than a minute, it is not followed.
 * NULL: the system's clock again, as at first. Any time, any thread. INVALID (it is ahead of that clock). */
HOLDFAST_API int holdfast_follow_clock(const volatile uintptr_t *milliseconds);
/* [set-up] Path of the runtime directory: $HOLDFAST_DIR, else /dev/shm/holdfast-<euid>. Enters the world, for good. The
 * string lives as long as the process. NULL on failure, which is not remembered: the next call tries again. */
HOLDFAST_API const char *holdfast_directory(void);
/* Installs a handler of SIGBUS, once for the process, that keeps it alive when somebody cuts a file of this library short
 * while it is in use, see 12. Signals that are about something else go to the handler that was there before, with what
 * it was installed with; one that is installed later has to call this one in the same way. A forked child has it, too;
 * after exec it is gone. It is of no use to a thread that blocks SIGBUS: the kernel ends the process there. Any time, any
 * thread. SYSTEM. */
HOLDFAST_API int holdfast_guard_sigbus(void);
/* What holdfast_holder.program says of this process and of its forked children: the first 15 bytes of it, instead of the
 * name that the kernel has for the process. The first name stays: EXISTS. It counts from when the process enters the
 * world, so call it before what is marked [change] or opens anything. Any thread. INVALID (no bytes). */
HOLDFAST_API int holdfast_name_program(const char *name, size_t length);
/* Parses "12345", "100k", "1m", "8g" (factors of 1024, either case).
 * INVALID for anything else, zero, or more than 2^40 bytes (1024g). */
HOLDFAST_API int holdfast_parse_size(const char *text, size_t length, uint64_t *bytes);

/* --- dictionaries ------------------------------------------------------------------------------------ */

typedef struct holdfast_dict holdfast_dict;

typedef struct holdfast_options {
  uint64_t size;   /* bytes of the segment, at least HOLDFAST_SIZE_MIN; rounded up to whole pages        */
  int32_t mutex;   /* holdfast_mutex                                                                     */
  int32_t persist; /* nonzero: outlives the last process of the world (until removal or reboot)          */
  uint32_t mode;   /* permission bits of the file; 0 means 0600                                          */
} holdfast_options;

/* [set-up] Opens the dictionary, creating it if it does not exist: by one process, whoever else tries at the same
 * moment. An existing one must have the same size and mutex (MISMATCH names both); it keeps its mode and persist. Also:
 * INVALID (name, size, mutex, mode), NO_MEMORY (says how much is free). */
HOLDFAST_API int holdfast_open(const char *name, size_t length, const holdfast_options *options,
                               holdfast_dict **dict);
/* [set-up] Opens a dictionary that this process has open, that exists in the world, or that is declared in
 * $HOLDFAST_DICTS ("name=size,name=size", where %XX is a byte of a name), in this order. NOT_FOUND, INVALID (name,
 * $HOLDFAST_DICTS). */
HOLDFAST_API int holdfast_attach(const char *name, size_t length, holdfast_dict **dict);
/* [set-up] Removes the dictionary from the world, with the locks in it. Handles of it, in any process, find the next
 * dictionary of that name, or fail with REMOVED. NOT_FOUND, INVALID (name). */
HOLDFAST_API int holdfast_remove(const char *name, size_t length);

typedef struct holdfast_value {
  int32_t type;    /* out: holdfast_type; NIL unless the code is OK or BUFFER               */
  uint32_t flags;  /* out: user flags                                                       */
  double number;   /* out: of a number, or 0 or 1 of a boolean                              */
  char *data;      /* in: the caller's buffer; out: unchanged, holds the string or table    */
  size_t capacity; /* in: bytes of the buffer                                               */
  size_t size;     /* out: bytes of the string or table, also when it did not fit (BUFFER)  */
} holdfast_value;

/* [read] A key that is locked, or of which permits are in use, reads as the boolean true. NOT_FOUND, BUFFER,
 * IS_A_LIST. */
HOLDFAST_API int holdfast_get(holdfast_dict *dict, const char *key, size_t key_length, holdfast_value *value);

/* [read] The same, but also gives what has expired or was flushed and is still there; *stale is then nonzero. */
HOLDFAST_API int holdfast_get_stale(holdfast_dict *dict, const char *key, size_t key_length, holdfast_value *value,
                                    int *stale);

/* [change] Stores under the key: SET always, ADD only if there is no value (EXISTS), REPLACE only if there is one
 * (NOT_FOUND). `type` BOOLEAN and NUMBER use `number`, STRING and TABLE use data and length, NIL deletes (as in
 * ngx.shared; SET and SAFE_SET only). What had been under the key ends, be it a list or a lock that is held. Where
 * there is no room, entries that have expired go first, then live ones that were used least; `forcible` (may be null)
 * is set nonzero when live entries were removed. Locks that are held stay. Also: NO_MEMORY, TOO_LARGE,
 * INVALID (op, type). */
HOLDFAST_API int holdfast_store(holdfast_dict *dict, int op, const char *key, size_t key_length, int type,
                                const char *data, size_t length, double number, double exptime, uint32_t flags,
                                int *forcible);

/* [change] Compares and swaps in one step: stores `desired` if the key's value is `expected`. A null pointer or the
 * type NIL stands for "no value"; of the others type, flags (of desired), number, data and size are read. Numbers are
 * compared as numbers, strings and tables byte by byte, flags are not compared.
 * OK, NOT_FOUND (nothing is there), EXISTS (something is, though nothing was expected), DIFFERS; else as store. */
HOLDFAST_API int holdfast_cas(holdfast_dict *dict, const char *key, size_t key_length, const holdfast_value *expected,
                              const holdfast_value *desired, double exptime, int *forcible);

/* [change] OK also when there is no such key, as in ngx.shared. A lock under the key is released. */
HOLDFAST_API int holdfast_delete(holdfast_dict *dict, const char *key, size_t key_length);

/* [change] Adds `by` to a number and gives the sum. Where there is no value: NOT_FOUND, or, with has_init, stores
 * init + by with init_ttl (an exptime); forcible as in store. NOT_A_NUMBER, NO_MEMORY, TOO_LARGE. */
HOLDFAST_API int holdfast_incr(holdfast_dict *dict, const char *key, size_t key_length, double by, int has_init,
                               double init, double init_ttl, double *sum, int *forcible);

/* [read] Seconds left, in whole milliseconds; 0 for an entry that never expires, negative for a value that has expired
 * and is still there. NOT_FOUND. */
HOLDFAST_API int holdfast_ttl(holdfast_dict *dict, const char *key, size_t key_length, double *seconds);
/* [change] New exptime of an existing entry. NOT_FOUND. */
HOLDFAST_API int holdfast_expire(holdfast_dict *dict, const char *key, size_t key_length, double exptime);
/* [change] Every entry there is now is gone at one instant, locks included. */
HOLDFAST_API int holdfast_flush_all(holdfast_dict *dict);

/* [change] Removes at most `max` entries (0: all) that have expired or were flushed. *count says how many, also on
 * TIMEOUT, when some may be left. Frees what dead processes held, too, and finds and repairs damage. Takes time for each
 * entry there is. */
HOLDFAST_API int holdfast_flush_expired(holdfast_dict *dict, uint32_t max, uint32_t *count);

/* --- lists: a key's value may be a list of numbers and strings --- */

/* [change] Adds an element (`end`: a holdfast_end; `type` NUMBER or STRING); the list is made where there is no value.
 * *count is the number of elements then. Removes no live entry to make room. NOT_A_LIST, NO_MEMORY, TOO_LARGE, INVALID
 * (end, type). */
HOLDFAST_API int holdfast_push(holdfast_dict *dict, const char *key, size_t key_length, int end, int type,
                               const char *data, size_t length, double number, uint32_t *count);
/* [change] Takes an element out; the key goes with the last one. NOT_FOUND, NOT_A_LIST, BUFFER (as get; nothing was
 * taken out), INVALID (end). */
HOLDFAST_API int holdfast_pop(holdfast_dict *dict, const char *key, size_t key_length, int end, holdfast_value *value);
/* [read] Number of elements; 0 where there is no value. NOT_A_LIST. */
HOLDFAST_API int holdfast_llen(holdfast_dict *dict, const char *key, size_t key_length, uint32_t *count);

/* --- the whole dictionary --- */

/* [read] At most `max` keys (0: all) in no order, packed as a uint32_t length and the bytes, one after the other
 * without padding, into keys->data; keys->size is what they take. BUFFER if keys->capacity is too small, with the size
 * that would have done; there may be more keys the next time. NO_MEMORY (of the process). */
HOLDFAST_API int holdfast_keys(holdfast_dict *dict, uint32_t max, holdfast_value *keys, uint32_t *count);
/* [read] Some more keys, packed as above: about `count` (at least 1) of those that begin with `prefix`, or fewer, or
 * none. *cursor is 0 to begin with, changes with each call that is OK, and is 0 again at the end. Every key that is
 * there from the first call to the last is given exactly once; others may be or not. Never waits for more than one
 * chain of keys. BUFFER (with the cursor as it was), NO_MEMORY (of the process), INVALID (count). */
HOLDFAST_API int holdfast_scan(holdfast_dict *dict, uint64_t *cursor, uint32_t count, const char *prefix,
                               size_t prefix_length, holdfast_value *keys, uint32_t *found);

typedef struct holdfast_stats {
  uint64_t entries;     /* those that expired and whose memory was not needed yet included        */
  uint64_t bytes_used;  /* by entries, lists and waiters                                          */
  uint64_t bytes_free;
  uint64_t hits;        /* get, get_stale: something was found                                    */
  uint64_t misses;
  uint64_t evictions;   /* live entries removed to make room                                      */
  uint64_t expirations; /* entries removed after they had expired or were flushed                 */
  uint64_t repairs;     /* shards put in order after a process died in the middle of a change,    */
                        /* or damage was found                                                   */
  uint64_t mutex_waits; /* times that a change found another at work in its shard                 */
  uint64_t lock_waits;  /* waits that queued: for a lock, or for permits                          */
  uint64_t lock_wakes;  /* waiters woken by those who gave something back                         */
  uint64_t lock_reserved_ms; /* for so long, all together, locks were granted to waiters that had */
                             /* yet to come for them                                              */
  uint64_t lives_unknown; /* times that it could not be told whether a process lives                 */
  uint64_t words_mended;  /* overwritten words that were put right outside of the shards             */
} holdfast_stats;

/* [read] Counts since the dictionary was made; the last two are those of all dictionaries of the runtime directory. */
HOLDFAST_API int holdfast_dict_stats(holdfast_dict *dict, holdfast_stats *stats);
/* [read] Bytes of the segment; 0 when the dictionary was removed. */
HOLDFAST_API uint64_t holdfast_capacity(holdfast_dict *dict);
/* [read] Bytes that no entry occupies; 0 when the dictionary was removed. */
HOLDFAST_API uint64_t holdfast_free_space(holdfast_dict *dict);

/* --- locks ------------------------------------------------------------------------------------------- */

/* A lock is named by a dictionary and a key. It is not reentrant: who holds it, thread or coroutine, is LOCKED like
 * anybody else. The lease proves that it is held; all 0 proves nothing. */
typedef struct holdfast_lease {
  uint64_t owner;    /* token of the process; 0: nothing is held                                       */
  uint64_t sequence; /* fencing token: grows with every grant in this dictionary, below 2^53           */
} holdfast_lease;

/* [attempt] Takes the lock if it is free, has expired, or its holder's process is dead. `agent` tells which coroutine
 * of this process is then its holder (see lock_adopt), 0 for none. With `fair` not 0 it is not taken before others
 * that wait for it. OK fills the lease, all else clears it but INVALID. LOCKED (also by an ordinary value), NO_MEMORY,
 * TOO_LARGE. */
HOLDFAST_API int holdfast_lock_try(holdfast_dict *dict, const char *key, size_t key_length, double exptime,
                                   uint32_t agent, int fair, holdfast_lease *lease);
/* [change] Gives the lock back and wakes one waiter. NOT_OWNER when the lease does not hold it any more (expired and
 * taken, deleted, flushed) or is of another process, as in a forked child. OK, NOT_OWNER and REMOVED clear the lease;
 * with any other code it holds on, and the call may be made again. */
HOLDFAST_API int holdfast_unlock(holdfast_dict *dict, const char *key, size_t key_length, holdfast_lease *lease);
/* [change] New exptime from now. NOT_OWNER when another has it, or a value is in its place; NOT_FOUND when it is lost
 * and nobody has it. */
HOLDFAST_API int holdfast_lock_renew(holdfast_dict *dict, const char *key, size_t key_length,
                                     const holdfast_lease *lease, double exptime);
/* [change] Tells which coroutine of this process holds the lease from now on: `agent`, which is to make the call itself
 * (see holdfast_agents); 0: none, as when it is not certain which one will give it back. NOT_OWNER. */
HOLDFAST_API int holdfast_lock_adopt(holdfast_dict *dict, const char *key, size_t key_length,
                                     const holdfast_lease *lease, uint32_t agent);
/* [read] Seconds until the lease expires; 0 if it never does. NOT_OWNER. */
HOLDFAST_API int holdfast_lock_remaining(holdfast_dict *dict, const char *key, size_t key_length,
                                         const holdfast_lease *lease, double *seconds);

/* [change] Says why the lease is held, in at most HOLDFAST_WHY_MAX bytes, for holdfast_lock_holder; 0 bytes take it
 * back. It is forgotten with the lease. NOT_OWNER, NO_MEMORY (then it says what it did before), INVALID (length). */
HOLDFAST_API int holdfast_lock_explain(holdfast_dict *dict, const char *key, size_t key_length,
                                       const holdfast_lease *lease, const char *why, size_t length);

typedef struct holdfast_holder {
  uint64_t owner;    /* token of the process                                                             */
  uint64_t sequence; /* fencing token of the grant                                                       */
  double held;       /* seconds since the grant                                                          */
  double remaining;  /* seconds until it expires; 0 if it never does                                     */
  uint32_t pid;      /* in the process's own pid namespace; 0 if it is dead and another has its place    */
  uint32_t worker;   /* number of a worker of `holdfast run`, 0xFFFFFFFF if it is none                   */
  uint32_t waiters;  /* how many wait, those in lock_watch included                                      */
  uint32_t alive;    /* 0: the process is dead, and the next who wants the lock gets it; 1: it lives; 2: */
                     /* that cannot be told                                                              */
  uint32_t permits;  /* how many permits; 1 of a lock, HOLDFAST_ALL_PERMITS of a rwlock: to write        */
  char program[16];  /* name of the program, ended by a zero byte                                        */
  char why[128];     /* what holdfast_lock_explain said, ended by a zero byte                            */
} holdfast_holder;

/* [change] Who holds the lock, at one instant; it changes nothing, and without a holder, *holder is all 0.
 * Where several hold permits, the one who has held them longest. NOT_FOUND (nobody does). */
HOLDFAST_API int holdfast_lock_holder(holdfast_dict *dict, const char *key, size_t key_length,
                                      holdfast_holder *holder);

enum { HOLDFAST_HOLDERS_MAX = 4096 /* holders that one call tells of */ };

/* [change] All who hold what is under the key, be it a lock or permits, at one instant: *count is how many they are,
 * *waiters how many wait. Writes at most `max` of them, and at most HOLDFAST_HOLDERS_MAX: those who have held it longest,
 * in this order. With `max` 0, holders may be null. Without a holder *count is 0. NO_MEMORY (of the process). */
HOLDFAST_API int holdfast_holders(holdfast_dict *dict, const char *key, size_t key_length, holdfast_holder *holders,
                                  uint32_t max, uint32_t *count, uint32_t *waiters);

/* --- waiting for a lock ------------------------------------------------------------------------------ */

/* A parker is where one event loop, thread or Lua state sleeps; a waiter is one of its coroutines that waits for a
 * lock. A wait is: waiter_open; then lock_wait until it says something else than LOCKED or TIMEOUT, between the calls
 * sleeping until parker_sleep names the waiter or wait->pause seconds have passed; lock_leave if it gives up;
 * waiter_close, or another wait. A waiter waits for one key at a time. A wake-up is a hint: the next lock_wait
 * decides. */
typedef struct holdfast_parker holdfast_parker;

/* [set-up] NULL on failure, with holdfast_error(). */
HOLDFAST_API holdfast_parker *holdfast_parker_new(void);
/* Closes its waiters, its descriptor and what it listens on. Null is allowed. */
HOLDFAST_API void holdfast_parker_free(holdfast_parker *parker);
/* A waiter's number, never 0; 0 when there is no room, with holdfast_error(). Not to be used after a fork, in the
 * child. */
HOLDFAST_API uint32_t holdfast_waiter_open(holdfast_parker *parker);
/* A waiter that waits has to leave the queue first (lock_leave): a wake-up that finds nobody is one that somebody else
 * has to wait longer for. A number that is no waiter is ignored. */
HOLDFAST_API void holdfast_waiter_close(holdfast_parker *parker, uint32_t waiter);

/* A range of 2^20 agents that nobody else in this process uses, for one Lua state: an agent is what this gives plus a
 * number. The number 0 stands for the whole Lua state, where code outside of coroutines runs; as a holder, for any of its
 * coroutines, which one is not certain. 0: none are left; then nobody is told. Deadlocks are searched for between agents:
 * one that waits does nothing else meanwhile, and what it holds is given back by itself, or by nobody. Only of what is
 * certain to be so is an agent told to be the holder: it may be told of a deadlock that is none otherwise. */
HOLDFAST_API uint32_t holdfast_agents(void);

typedef struct holdfast_wait {
  holdfast_parker *parker;
  uint32_t waiter;
  uint32_t agent; /* which coroutine waits, 0: not told                                                */
  int32_t fair;   /* not 0: nobody that comes later gets the lock first                                */
  int32_t holds;  /* 0: the agent holds nothing that others wait for; 1: it may; 2: it may, and while  */
                  /* it waits, nothing else of its Lua state runs                                      */
  double timeout; /* seconds after which the caller gives up, 0: not told. Then others pass it, should  */
                  /* its process be stopped                                                            */
  double pause;   /* out: how long to sleep at most before calling again                               */
  uint32_t holder_agent; /* which coroutine holds what is granted, 0: none, see holdfast_lock_adopt     */
} holdfast_wait;

/* [attempt] As lock_try; does not wait itself. If the lock is held, queues the waiter (once) and says in wait->pause
 * how long to sleep at most before calling again; so too on TIMEOUT. The waiters of a dictionary take at most a quarter
 * of its memory; who finds no place looks again from time to time, rarer the more they are.
 * After LOCKED, TIMEOUT and DEADLOCK the waiter may stand in the queue: call again, or lock_leave. Any other code ends
 * the wait. INVALID also for a waiter that is not the parker's, as in a forked child.
 * DEADLOCK: the holder waits, maybe by way of others, for what wait->agent holds, and the caller was the last of them
 * to wait. The others go on when the caller lets go. */
HOLDFAST_API int holdfast_lock_wait(holdfast_dict *dict, const char *key, size_t key_length, double exptime,
                                    holdfast_wait *wait, holdfast_lease *lease);
/* [attempt] Waits for the end of a grant, without taking the lock: OK when the grant that held it when the wait began has
 * ended (released, expired, of a dead process, deleted, flushed), also if somebody else has the lock by then. All who
 * wait so are woken at once, and stand in nobody's way. `grant` is that of the wait: set it to 0 to begin one; while the
 * code is LOCKED it names the fencing token of what is waited for, so call again with what it says. LOCKED queues the
 * waiter as lock_wait does, which tells the rest: pause, codes, lock_leave. `wait` may be null: then it only looks.
 * OK also where nobody holds the key. Where it holds permits, those which were held when the wait began have to end; a
 * value of another kind has to go. For both wait->pause is short, as nobody is woken. */
HOLDFAST_API int holdfast_lock_watch(holdfast_dict *dict, const char *key, size_t key_length, holdfast_wait *wait,
                                     uint64_t *grant);
/* After DEADLOCK, until the waiter is used again: the keys that are waited for in a circle, beginning with the
 * waiter's, packed as by holdfast_keys. Of a long key, the first 56 bytes. BUFFER, NOT_FOUND (there was no deadlock),
 * NO_MEMORY. */
HOLDFAST_API int holdfast_deadlock_keys(holdfast_parker *parker, uint32_t waiter, holdfast_value *keys,
                                        uint32_t *count);
/* [attempt] Takes the waiter out of the queue; if a release has already chosen it, the next waiter is woken instead. OK
 * also where it was in none. On TIMEOUT its place may remain, which is passed over when its turn comes. SYSTEM: it is
 * out, and the wait may have been in vain, as it cannot be told whether a holder lives. (A wait goes on then, as the
 * holder may release; lock_try and permits_try say SYSTEM at once.) */
HOLDFAST_API int holdfast_lock_leave(holdfast_dict *dict, const char *key, size_t key_length,
                                     holdfast_parker *parker, uint32_t waiter);

/* --- permits: rwlocks and semaphores ----------------------------------------------------------------- */

/* Under a key there may be permits, of which several may have some at a time. holdfast_unlock, holdfast_lock_renew,
 * holdfast_lock_adopt, holdfast_lock_remaining, holdfast_lock_explain, holdfast_lock_holder and holdfast_lock_leave work
 * for a lease of permits as for one of a lock. Permits of a process that is dead come back when they are missed. Who waits gets them
 * in the order of arrival: nobody passes a waiter for whom there are not enough. Each attempt that is refused, and each
 * release, takes time for every holder. */
typedef enum holdfast_permits_kind {
  HOLDFAST_RWLOCK = 0,   /* `want` is 1 to read and HOLDFAST_ALL_PERMITS to write; `total` is not looked at */
  HOLDFAST_SEMAPHORE = 1 /* `want` of `total`, which is below HOLDFAST_ALL_PERMITS; the last caller's counts */
} holdfast_permits_kind;

enum { HOLDFAST_ALL_PERMITS = 1073741824 /* 2^30 */ };

/* [attempt] As holdfast_lock_try and holdfast_lock_wait. LOCKED also where the key holds something of another kind.
 * INVALID (kind, want, total). */
HOLDFAST_API int holdfast_permits_try(holdfast_dict *dict, const char *key, size_t key_length, int kind, uint32_t want,
                                      uint32_t total, double exptime, uint32_t agent, int fair,
                                      holdfast_lease *lease);
HOLDFAST_API int holdfast_permits_wait(holdfast_dict *dict, const char *key, size_t key_length, int kind,
                                       uint32_t want, uint32_t total, double exptime, holdfast_wait *wait,
                                       holdfast_lease *lease);
/* [change] Gives back all permits of the lease but `count`, in one step: with 1, who writes becomes one who reads.
 * NOT_OWNER, INVALID (0, or more than the lease has). */
HOLDFAST_API int holdfast_permits_keep(holdfast_dict *dict, const char *key, size_t key_length,
                                       const holdfast_lease *lease, uint32_t count);
/* [change] How many permits are in use by processes that live, and how many wait; 0 and 0 if there are none under the
 * key. LOCKED (the key has a value, or is held as a lock). */
HOLDFAST_API int holdfast_permits_count(holdfast_dict *dict, const char *key, size_t key_length, uint32_t *used,
                                        uint32_t *waiters);

/* Sleeps until a waiter of this parker is woken or `seconds` have passed (0: do not sleep; negative: no limit).
 * Returns how many woken waiters it wrote to `waiters` (at most `max`, at least 1), 0 after the time, -1 with
 * holdfast_error() on failure (a bad argument, no memory). Notices dead holders on behalf of the waiters. A signal ends
 * the sleep early, with what there is, be it 0. */
HOLDFAST_API int holdfast_parker_sleep(holdfast_parker *parker, double seconds, uint32_t *waiters, int max);

/* --- waiting in an event loop -------------------------------------------------------------------------
 *
 * A loop that sleeps in poll, select or epoll watches the parker's descriptor. While that is readable, call
 * parker_sleep(parker, 0, waiters, max) until it gives less than `max`: that also makes it unreadable. A helper
 * thread listens to the bell of the process, and looks for dead holders, while a parker that has a descriptor has
 * waiters or a timer, and for a second after that. It has all signals blocked and calls nothing of the host's. Where it
 * cannot be started, or there are no descriptors left, both calls say so, and wait->pause gets short: a loop that
 * waits no longer than that needs neither. */

/* The descriptor, which stays the parker's: never read, write or close it. -1 with holdfast_error() when there is no
 * descriptor or no thread to be had; the next call tries again. Call it before each wait: it costs two system calls
 * that do not sleep, brings back what the host has closed by mistake (the number may be another one then), and in a
 * forked child makes the child's own. */
HOLDFAST_API int holdfast_parker_fd(holdfast_parker *parker);
/* For loops that can wait for a descriptor but for no time: makes it readable, once, after so many seconds. Replaces
 * the time set before; a negative number only unsets it. OK, SYSTEM, NO_MEMORY, INVALID (not a number). */
HOLDFAST_API int holdfast_parker_timer(holdfast_parker *parker, double seconds);

/* For loops that can wait for a connection which they have made, but for no other descriptor: listen, let the loop
 * connect to the path, accept. From then on one byte comes out of the loop's end whenever the parker's descriptor would
 * get readable. Read it, then call parker_sleep(parker, 0, waiters, max) until it gives less than `max`; a byte for
 * which there is nothing to tell is harmless. The loop's end is the loop's to close; after that, and in a forked child,
 * listen again. */

/* Enough for any path of a socket, with its 0 at the end. */
#define HOLDFAST_PATH_MAX 108

/* Makes a unix stream socket (SOCK_STREAM) in the runtime directory, in place of an earlier one and of the connection,
 * and writes its path. OK, SYSTEM (also when the path of the runtime directory is too long), NO_MEMORY, INVALID (no
 * room for the path). */
HOLDFAST_API int holdfast_parker_listen(holdfast_parker *parker, char *path, size_t size);
/* Takes the connection, which this very process must have made; others are closed. Removes the path. OK, NO_MEMORY,
 * SYSTEM: there is none, and it listens still; or there is no thread to be had, and all is closed. */
HOLDFAST_API int holdfast_parker_accept(holdfast_parker *parker);
/* Closes what listens and what is connected, and removes the path. */
HOLDFAST_API void holdfast_parker_disconnect(holdfast_parker *parker);

#ifdef __cplusplus
}
#endif
#endif
