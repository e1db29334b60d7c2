/* holdfast: cross-process locks and a shared dictionary.
 *
 * The one public header: C and C++ hosts include it, LuaJIT declares the same calls by FFI.
 *
 * Conventions, valid for every call below:
 *
 *  1. Handles are opaque. A holdfast_dict lives as long as the process; it is never freed, and opening
 *     one name twice gives the same handle. A holdfast_parker is freed by its owner.
 *  2. Strings are pointer plus length and may hold any byte. Pointers are never null unless a call says so.
 *  3. Times and durations are seconds in a double. An `exptime` of 0 means "never expires". A dictionary
 *     entry never expires early and at most 5 ms late.
 *  4. Every call returns a holdfast_code unless it says otherwise. Calls that can fail for a reason that a
 *     code cannot tell leave one English sentence in holdfast_error(). It belongs to the calling thread and
 *     is valid until that thread's next call.
 *  5. All calls may be made from any thread and after fork(). None may be made from a signal handler: one
 *     that interrupts a holdfast call in the same thread gets HOLDFAST_BUSY instead of a deadlock.
 *  6. No call throws, aborts, or calls back into the host. What another process wrote into shared memory is
 *     never trusted: damage costs entries, never a crash.
 *  7. A call that changes a dictionary may return HOLDFAST_TIMEOUT when the process that holds the internal
 *     mutex is alive but stopped (SIGSTOP, a debugger): after 1 second, lock_try, lock_wait and lock_leave after 0.05.
 *     Nothing was changed then. Reads do not wait for it.
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

/* Grows with every incompatible change of this header. The Lua files refuse a library of another number. */
#define HOLDFAST_ABI 2

typedef enum holdfast_code {
  HOLDFAST_OK = 0,
  HOLDFAST_NOT_FOUND = 1,     /* no such key; attach, remove: no such dictionary                */
  HOLDFAST_EXISTS = 2,        /* add: the key has a value                                       */
  HOLDFAST_NO_MEMORY = 3,     /* the dictionary, /dev/shm or the process has no room            */
  HOLDFAST_TIMEOUT = 4,       /* the deadline passed                                            */
  HOLDFAST_NOT_A_NUMBER = 5,  /* incr: the value is something else                              */
  HOLDFAST_LOCKED = 6,        /* the lock is held by another                                    */
  HOLDFAST_NOT_OWNER = 7,     /* unlock, renew: the lease is no longer the caller's             */
  HOLDFAST_TOO_LARGE = 8,     /* key or value can never fit; holdfast_error() names the limit   */
  HOLDFAST_BUFFER = 9,        /* get: value->capacity is too small; value->size says what it is */
  HOLDFAST_INVALID = 10,      /* an argument is not acceptable; see holdfast_error()            */
  HOLDFAST_SYSTEM = 11,       /* the operating system said no; see holdfast_error()             */
  HOLDFAST_MISMATCH = 12,     /* the dictionary exists with another size or mutex               */
  HOLDFAST_CORRUPT = 13,      /* the file is not a segment of this version                      */
  HOLDFAST_PERMISSION = 14,   /* owner or mode of a directory or file is not acceptable         */
  HOLDFAST_BUSY = 15,         /* called from inside another call of this thread                 */
  HOLDFAST_REMOVED = 16,      /* the dictionary was removed; any call on its handle may say so  */
  HOLDFAST_NOT_A_LIST = 17,   /* push, pop, llen: the value is something else                   */
  HOLDFAST_IS_A_LIST = 18,    /* get: the value is a list                                       */
  HOLDFAST_DIFFERS = 19       /* cas: the value is another                                      */
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
  HOLDFAST_NAME_MAX = 64,      /* bytes of a dictionary's name, of [A-Za-z0-9._-], not starting with '.' */
  HOLDFAST_KEY_MAX = 65535,    /* bytes of a key; 0 is refused                                           */
  HOLDFAST_SIZE_MIN = 12288    /* bytes of the smallest dictionary                                       */
};

/* --- the library and the world ----------------------------------------------------------------------- */

/* HOLDFAST_ABI as the library was built. */
HOLDFAST_API uint32_t holdfast_abi(void);
/* "0.1.0" */
HOLDFAST_API const char *holdfast_version(void);
/* The sentence of the last call of this thread that failed; "" if there was none. */
HOLDFAST_API const char *holdfast_error(void);
/* "not found", "exists", "no memory", "timeout", ...; "unknown code" for anything else. */
HOLDFAST_API const char *holdfast_code_text(int code);
/* CLOCK_MONOTONIC in seconds. */
HOLDFAST_API double holdfast_now(void);
/* Path of the runtime directory: $HOLDFAST_DIR, else /dev/shm/holdfast-<euid>. Enters the world.
 * NULL on failure, with holdfast_error(). */
HOLDFAST_API const char *holdfast_directory(void);
/* Parses "12345", "100k", "1m", "8g" (factors of 1024, either case).
 * HOLDFAST_INVALID for anything else, zero, or more than 2^40 bytes (1024g). */
HOLDFAST_API int holdfast_parse_size(const char *text, size_t length, uint64_t *bytes);

/* --- dictionaries ------------------------------------------------------------------------------------ */

typedef struct holdfast_dict holdfast_dict;

typedef struct holdfast_options {
  uint64_t size;   /* bytes of the segment, at least HOLDFAST_SIZE_MIN; rounded up to whole pages        */
  int32_t mutex;   /* holdfast_mutex                                                                     */
  int32_t persist; /* nonzero: outlives the last process of the world (until removal or reboot)          */
  uint32_t mode;   /* permission bits of the file; 0 means 0600                                          */
} holdfast_options;

/* Opens the dictionary, creating it if it does not exist. An existing one must have the same size and mutex
 * (HOLDFAST_MISMATCH names both). Also: INVALID, NO_MEMORY (says how much is free), PERMISSION, CORRUPT, SYSTEM. */
HOLDFAST_API int holdfast_open(const char *name, size_t length, const holdfast_options *options,
                               holdfast_dict **dict);
/* Opens a dictionary that this process has open, that exists in the world, or that is declared in
 * $HOLDFAST_DICTS ("name=size,name=size"), in this order. Else HOLDFAST_NOT_FOUND. */
HOLDFAST_API int holdfast_attach(const char *name, size_t length, holdfast_dict **dict);
/* Removes the dictionary from the world. Handles of it, in any process, find the next dictionary of that name,
 * or fail with HOLDFAST_REMOVED. */
HOLDFAST_API int holdfast_remove(const char *name, size_t length);

typedef struct holdfast_value {
  int32_t type;    /* out: holdfast_type                                                    */
  uint32_t flags;  /* out: user flags                                                       */
  double number;   /* out: the number; 0 or 1 for a boolean                                 */
  char *data;      /* in: the caller's buffer; out: unchanged, holds the string             */
  size_t capacity; /* in: bytes of the buffer                                               */
  size_t size;     /* out: bytes of the string, also when it did not fit (HOLDFAST_BUFFER)  */
} holdfast_value;

/* OK, NOT_FOUND, BUFFER, IS_A_LIST, INVALID (key). Takes no lock. A key that is locked by holdfast_lock_* reads as
 * the boolean true. */
HOLDFAST_API int holdfast_get(holdfast_dict *dict, const char *key, size_t key_length, holdfast_value *value);

/* The same, but also gives what has expired or was flushed and is still there; *stale is then nonzero. */
HOLDFAST_API int holdfast_get_stale(holdfast_dict *dict, const char *key, size_t key_length, holdfast_value *value,
                                    int *stale);

/* Stores under the key: SET always, ADD only if there is no value (EXISTS), REPLACE only if there is one
 * (NOT_FOUND). `type` BOOLEAN and NUMBER use `number`, STRING and TABLE use data and length, NIL deletes (as in
 * ngx.shared; SET and SAFE_SET only). Where there is no room, entries that have expired go first, then live ones that
 * were used least; `forcible` (may be null) is set nonzero when live entries were removed. Locks that are held stay.
 * Also: NO_MEMORY, TOO_LARGE, TIMEOUT, INVALID. */
HOLDFAST_API int holdfast_store(holdfast_dict *dict, int op, const char *key, size_t key_length, int type,
                                const char *data, size_t length, double number, double exptime, uint32_t flags,
                                int *forcible);

/* Compares and swaps in one step: stores `desired` if the key's value is `expected`. A null pointer or the type NIL
 * stands for "no value"; of the others type, flags (of desired), number, data and size are read. Numbers are compared
 * as numbers, strings and tables byte by byte, flags are not compared.
 * OK, NOT_FOUND (nothing is there), EXISTS (something is, though nothing was expected), DIFFERS; else as store. */
HOLDFAST_API int holdfast_cas(holdfast_dict *dict, const char *key, size_t key_length, const holdfast_value *expected,
                              const holdfast_value *desired, double exptime, int *forcible);

/* OK also when there is no such key, as in ngx.shared. A lock under the key is released. */
HOLDFAST_API int holdfast_delete(holdfast_dict *dict, const char *key, size_t key_length);

/* Adds `by` to a number and gives the sum. Where there is no value: NOT_FOUND, or, with has_init, stores
 * init + by with init_ttl (0: never expires). NOT_A_NUMBER, NO_MEMORY, TIMEOUT, INVALID. */
HOLDFAST_API int holdfast_incr(holdfast_dict *dict, const char *key, size_t key_length, double by, int has_init,
                               double init, double init_ttl, double *sum, int *forcible);

/* Seconds left; 0 for an entry that never expires. OK, NOT_FOUND, INVALID. */
HOLDFAST_API int holdfast_ttl(holdfast_dict *dict, const char *key, size_t key_length, double *seconds);
/* New exptime of an existing entry (0: never). OK, NOT_FOUND, TIMEOUT, INVALID. */
HOLDFAST_API int holdfast_expire(holdfast_dict *dict, const char *key, size_t key_length, double exptime);
/* Every entry there is now is gone at one instant, locks included. */
HOLDFAST_API int holdfast_flush_all(holdfast_dict *dict);

/* Removes at most `max` entries (0: all) that have expired or were flushed, and says how many. */
HOLDFAST_API int holdfast_flush_expired(holdfast_dict *dict, uint32_t max, uint32_t *count);

/* --- lists: a key's value may be a list of numbers and strings --- */

/* Adds an element (`end`: a holdfast_end; `type` NUMBER or STRING); the list is made where there is no value.
 * *length is then the list's. Removes no live entry to make room. OK, NOT_A_LIST, NO_MEMORY, TOO_LARGE, TIMEOUT,
 * INVALID. */
HOLDFAST_API int holdfast_push(holdfast_dict *dict, const char *key, size_t key_length, int end, int type,
                               const char *data, size_t length, double number, uint32_t *count);
/* Takes an element out; the key goes with the last one. OK, NOT_FOUND, NOT_A_LIST, BUFFER (as get; nothing was taken
 * out), TIMEOUT, INVALID. */
HOLDFAST_API int holdfast_pop(holdfast_dict *dict, const char *key, size_t key_length, int end, holdfast_value *value);
/* Number of elements; 0 where there is no value. OK, NOT_A_LIST, INVALID. Takes no lock. */
HOLDFAST_API int holdfast_llen(holdfast_dict *dict, const char *key, size_t key_length, uint32_t *count);

/* --- the whole dictionary --- */

/* At most `max` keys (0: all) in no order, packed as a uint32_t length and the bytes, one after the other without
 * padding, into keys->data; keys->size is what they take. BUFFER if keys->capacity is too small, with the size that
 * would have done; there may be more keys the next time. */
HOLDFAST_API int holdfast_keys(holdfast_dict *dict, uint32_t max, holdfast_value *keys, uint32_t *count);
/* Some more keys, packed as above: about `count` (at least 1) of those that begin with `prefix`, or fewer, or none.
 * *cursor is 0 to begin with, changes with each call that is OK, and is 0 again at the end. Every key that is there
 * from the first call to the last is given exactly once; others may be or not. Never waits for more than one chain of
 * keys. */
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
  uint64_t repairs;     /* shards put in order after a process died in the middle of a change     */
  uint64_t mutex_waits; /* times that a change found another at work in its shard                 */
} holdfast_stats;

/* Counts since the dictionary was made. Takes no lock. */
HOLDFAST_API int holdfast_dict_stats(holdfast_dict *dict, holdfast_stats *stats);
/* Bytes of the segment; 0 when the dictionary was removed. */
HOLDFAST_API uint64_t holdfast_capacity(holdfast_dict *dict);
/* Bytes that no entry occupies. */
HOLDFAST_API uint64_t holdfast_free_space(holdfast_dict *dict);

/* --- locks ------------------------------------------------------------------------------------------- */

/* What proves that a lock is held. Plain data of the caller; compare with nobody else's. */
typedef struct holdfast_lease {
  uint64_t owner;    /* token of the process; 0: nothing is held                                       */
  uint64_t sequence; /* fencing token: grows with every grant in this dictionary, below 2^53           */
} holdfast_lease;

/* Takes the lock if it is free, has expired, or its holder's process is dead.
 * OK fills the lease. LOCKED, NO_MEMORY, TIMEOUT (internal mutex), INVALID. */
HOLDFAST_API int holdfast_lock_try(holdfast_dict *dict, const char *key, size_t key_length, double exptime,
                                   holdfast_lease *lease);
/* OK, or NOT_OWNER when the lease is no longer the holder (expired and taken, deleted, flushed, or of
 * another process, as in a forked child). Wakes one waiter. The lease is cleared in both cases, not on TIMEOUT. */
HOLDFAST_API int holdfast_unlock(holdfast_dict *dict, const char *key, size_t key_length, holdfast_lease *lease);
/* New exptime from now. OK, NOT_OWNER, TIMEOUT. */
HOLDFAST_API int holdfast_lock_renew(holdfast_dict *dict, const char *key, size_t key_length,
                                     const holdfast_lease *lease, double exptime);
/* Seconds until the lease expires; 0 if it never does. OK, NOT_OWNER. Takes no lock. */
HOLDFAST_API int holdfast_lock_remaining(holdfast_dict *dict, const char *key, size_t key_length,
                                         const holdfast_lease *lease, double *seconds);

/* --- waiting for a lock ------------------------------------------------------------------------------ */

/* A parker is where one event loop (one Lua state) sleeps; a waiter is one of its coroutines that waits for a
 * lock. A wait is: waiter_open; then lock_wait until it says something else than LOCKED, between the calls
 * sleeping until parker_sleep names the waiter or *pause seconds have passed; lock_leave if it gives up;
 * waiter_close. A wake-up is a hint: the next lock_wait decides. A forked child has none of its parent's
 * parkers' waiters; it opens its own. */
typedef struct holdfast_parker holdfast_parker;

/* NULL when the world cannot be entered, with holdfast_error(). */
HOLDFAST_API holdfast_parker *holdfast_parker_new(void);
HOLDFAST_API void holdfast_parker_free(holdfast_parker *parker); /* null is allowed; closes its waiters */
/* A waiter's number, never 0; 0 when there is no room (NO_MEMORY). */
HOLDFAST_API uint32_t holdfast_waiter_open(holdfast_parker *parker);
HOLDFAST_API void holdfast_waiter_close(holdfast_parker *parker, uint32_t waiter);

/* As lock_try; if the lock is held, queues the waiter (once) and says in *pause how long to sleep at most
 * before calling again; so too on TIMEOUT. The waiters of a dictionary take at most a quarter of its memory;
 * who finds no place looks again from time to time, rarer the more they are. */
HOLDFAST_API int holdfast_lock_wait(holdfast_dict *dict, const char *key, size_t key_length, double exptime,
                                    holdfast_parker *parker, uint32_t waiter, holdfast_lease *lease, double *pause);
/* Takes the waiter out of the queue; if a release has already chosen it, the next waiter is woken instead. */
HOLDFAST_API int holdfast_lock_leave(holdfast_dict *dict, const char *key, size_t key_length,
                                     holdfast_parker *parker, uint32_t waiter);

/* Sleeps until a waiter of this parker is woken or `seconds` have passed (0: do not sleep; negative: no limit).
 * Returns how many woken waiters it wrote to `waiters` (at most `max`), 0 after the time, -1 with
 * holdfast_error() on failure. Notices dead holders on behalf of the waiters. A signal ends the sleep early. */
HOLDFAST_API int holdfast_parker_sleep(holdfast_parker *parker, double seconds, uint32_t *waiters, int max);

#ifdef __cplusplus
}
#endif
#endif
