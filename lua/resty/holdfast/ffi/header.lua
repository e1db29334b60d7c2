-- The declarations and constants of holdfast.h. scripts/make-cdef generates this file; change the header, then run it.

return {
    declarations = [[
uint32_t holdfast_abi(void);
const char *holdfast_version(void);
const char *holdfast_error(void);
const char *holdfast_strerror(int code);
const char *holdfast_code_text(int code);
double holdfast_now(void);
int holdfast_follow_clock(const volatile uintptr_t *milliseconds);
const char *holdfast_directory(void);
int holdfast_guard_sigbus(void);
int holdfast_name_program(const char *name, size_t length);
int holdfast_show_as(int pid);
int holdfast_hold_over_exec(int *fd);
int holdfast_hold_with_keeper(int fds[2]);
int holdfast_end_hold(int fd);
int holdfast_keep_for(int parent);
int holdfast_parse_size(const char *text, size_t length, uint64_t *bytes);
typedef struct holdfast_dict holdfast_dict;
typedef struct holdfast_options {
  uint64_t size;
  int32_t mutex;
  int32_t persist;
  uint32_t mode;
  const char *cluster;
  uint64_t largest;
} holdfast_options;
int holdfast_open(const char *name, size_t length, const holdfast_options *options, holdfast_dict **dict);
int holdfast_attach(const char *name, size_t length, holdfast_dict **dict);
int holdfast_remove(const char *name, size_t length);
int holdfast_use_over_exec(holdfast_dict *dict, int fds[2]);
typedef struct holdfast_value {
  int32_t type;
  uint32_t flags;
  double number;
  char *data;
  size_t capacity;
  size_t size;
} holdfast_value;
int holdfast_list(holdfast_value *names, uint32_t *count);
int holdfast_get(holdfast_dict *dict, const char *key, size_t key_length, holdfast_value *value);
int holdfast_get_stale(holdfast_dict *dict, const char *key, size_t key_length, holdfast_value *value, int *stale);
int holdfast_store(holdfast_dict *dict, int op, const char *key, size_t key_length, int type, const char *data,
                   size_t length, double number, double exptime, uint32_t flags, int *forcible);
int holdfast_cas(holdfast_dict *dict, const char *key, size_t key_length, const holdfast_value *expected,
                 const holdfast_value *desired, double exptime, int *forcible);
int holdfast_delete(holdfast_dict *dict, const char *key, size_t key_length);
int holdfast_incr(holdfast_dict *dict, const char *key, size_t key_length, double by, int has_init, double init,
                  double init_ttl, double *sum, int *forcible);
int holdfast_ttl(holdfast_dict *dict, const char *key, size_t key_length, double *seconds);
int holdfast_expire(holdfast_dict *dict, const char *key, size_t key_length, double exptime);
int holdfast_flush_all(holdfast_dict *dict);
int holdfast_flush_expired(holdfast_dict *dict, uint32_t max, uint32_t *count);
int holdfast_push(holdfast_dict *dict, const char *key, size_t key_length, int end, int type, const char *data,
                  size_t length, double number, uint32_t *count);
int holdfast_pop(holdfast_dict *dict, const char *key, size_t key_length, int end, holdfast_value *value);
int holdfast_llen(holdfast_dict *dict, const char *key, size_t key_length, uint32_t *count);
int holdfast_open_with_versions(const char *name, size_t length, const holdfast_options *options, holdfast_dict **dict);
typedef struct holdfast_version_of_key {
  int64_t number;
  uint32_t stripe;
  int32_t deaths;
  int64_t end;
} holdfast_version_of_key;
int holdfast_key_version(holdfast_dict *dict, const char *key, size_t key_length, holdfast_version_of_key *version);
int holdfast_get_changed(holdfast_dict *dict, const char *key, size_t key_length, holdfast_version_of_key *version,
                         holdfast_value *value);
int holdfast_is_current(holdfast_dict *dict, int64_t number, uint32_t stripe, int64_t end);
typedef struct holdfast_versions {
  const volatile int64_t *words;
  const volatile int32_t *flushes;
  const volatile int32_t *retired;
  int64_t base;
} holdfast_versions;
holdfast_versions *holdfast_keep_versions(holdfast_dict *dict);
void holdfast_release_versions(holdfast_versions *versions);
int holdfast_store_unless_changed(holdfast_dict *dict, const char *key, size_t key_length,
                                  holdfast_version_of_key *version, int type, const char *data, size_t length,
                                  double number, double exptime, uint32_t flags, int *forcible);
int holdfast_wait_for_change(holdfast_dict *dict, const char *key, size_t key_length, double timeout,
                             holdfast_version_of_key *version);
int holdfast_keys(holdfast_dict *dict, uint32_t max, holdfast_value *keys, uint32_t *count);
int holdfast_scan(holdfast_dict *dict, uint64_t *cursor, uint32_t count, const char *prefix, size_t prefix_length,
                  holdfast_value *keys, uint32_t *found);
int holdfast_scan_locks(holdfast_dict *dict, uint64_t *cursor, uint32_t count, const char *prefix, size_t prefix_length,
                        holdfast_value *keys, uint32_t *found);
typedef struct holdfast_stats {
  uint64_t entries;
  uint64_t bytes_used;
  uint64_t bytes_free;
  uint64_t hits;
  uint64_t misses;
  uint64_t evictions;
  uint64_t expirations;
  uint64_t repairs;
  uint64_t mutex_waits;
  uint64_t lock_waits;
  uint64_t lock_wakes;
  uint64_t lock_reserved_ms;
  uint64_t lives_unknown;
  uint64_t words_mended;
} holdfast_stats;
int holdfast_dict_stats(holdfast_dict *dict, holdfast_stats *stats);
uint64_t holdfast_capacity(holdfast_dict *dict);
uint64_t holdfast_largest_value(holdfast_dict *dict);
uint64_t holdfast_free_space(holdfast_dict *dict);
typedef struct holdfast_lease {
  uint64_t owner;
  uint64_t sequence;
} holdfast_lease;
int holdfast_lock_try(holdfast_dict *dict, const char *key, size_t key_length, double exptime, uint32_t task, int how,
                      holdfast_lease *lease);
int holdfast_lock(holdfast_dict *dict, const char *key, size_t key_length, double timeout, double exptime,
                  holdfast_lease *lease);
int holdfast_unlock(holdfast_dict *dict, const char *key, size_t key_length, holdfast_lease *lease);
int holdfast_unlock_for_certain(holdfast_dict *dict, const char *key, size_t key_length, holdfast_lease *lease);
typedef struct holdfast_bound {
  holdfast_lease lease;
  uint64_t place[5];
} holdfast_bound;
int holdfast_lock_bind(holdfast_dict *dict, const char *key, size_t key_length, double exptime, uint32_t task, int how,
                       holdfast_bound *bound);
int holdfast_lock_again(holdfast_dict *dict, const char *key, size_t key_length, double exptime, uint32_t task,
                        holdfast_bound *bound);
int holdfast_unlock_again(holdfast_dict *dict, const char *key, size_t key_length, holdfast_bound *bound);
int holdfast_lock_break(holdfast_dict *dict, const char *key, size_t key_length, const holdfast_lease *lease);
int holdfast_lock_renew(holdfast_dict *dict, const char *key, size_t key_length, const holdfast_lease *lease,
                        double exptime);
int holdfast_lock_adopt(holdfast_dict *dict, const char *key, size_t key_length, const holdfast_lease *lease,
                        uint32_t task);
int holdfast_lock_remaining(holdfast_dict *dict, const char *key, size_t key_length, const holdfast_lease *lease,
                            double *seconds);
int holdfast_lock_explain(holdfast_dict *dict, const char *key, size_t key_length, const holdfast_lease *lease,
                          const char *why, size_t length);
typedef struct holdfast_holder {
  uint64_t owner;
  uint64_t sequence;
  double held;
  double remaining;
  uint32_t pid;
  uint32_t worker;
  uint32_t waiters;
  uint32_t alive;
  uint32_t permits;
  char program[16];
  char why[128];
  uint32_t kind;
  uint64_t revision;
} holdfast_holder;
int holdfast_lock_holder(holdfast_dict *dict, const char *key, size_t key_length, holdfast_holder *holder);
int holdfast_holders(holdfast_dict *dict, const char *key, size_t key_length, holdfast_holder *holders, uint32_t max,
                     uint32_t *count, uint32_t *waiters);
typedef struct holdfast_histogram {
  size_t struct_size;
  uint64_t count;
  double sum;
  double max;
  uint64_t buckets[720];
} holdfast_histogram;
int holdfast_dict_histogram(holdfast_dict *dict, int held, int time, holdfast_histogram *histogram);
double holdfast_bucket_end(uint32_t bucket);
double holdfast_quantile(const holdfast_histogram *histogram, double quantile);
typedef struct holdfast_contended {
  uint64_t waits;
  uint64_t timeouts;
  uint64_t refused;
  double wait_time;
  uint32_t kind;
  uint32_t key_length;
  char key[72];
} holdfast_contended;
int holdfast_dict_contention(holdfast_dict *dict, holdfast_contended *keys, size_t struct_size, uint32_t max,
                             uint32_t *count);
typedef struct holdfast_cluster {
  char name[64];
  uint32_t agent;
  uint32_t epoch;
  double seconds;
  uint64_t machine;
} holdfast_cluster;
int holdfast_cluster_state(holdfast_dict *dict, holdfast_cluster *state);
int holdfast_ask(holdfast_dict *dict, int question, const char *key, size_t key_length, uint64_t revision, int *fd);
int holdfast_answer(int fd, char *text, size_t *size);
int holdfast_lock_verify(holdfast_dict *dict, const char *key, size_t key_length, const holdfast_lease *lease,
                         double seconds);
typedef struct holdfast_request {
  uint32_t struct_size;
  int32_t kind;
  double timeout;
  double exptime;
  uint32_t want;
  uint32_t total;
  int32_t fair;
  int32_t holds;
  uint32_t task;
  uint32_t holder_task;
  const char *why;
} holdfast_request;
int holdfast_acquire(holdfast_dict *dict, const char *key, size_t key_length, const holdfast_request *request,
                     holdfast_lease *lease);
typedef struct holdfast_parker holdfast_parker;
holdfast_parker *holdfast_parker_new(void);
void holdfast_parker_free(holdfast_parker *parker);
uint32_t holdfast_waiter_open(holdfast_parker *parker);
void holdfast_waiter_close(holdfast_parker *parker, uint32_t waiter);
uint32_t holdfast_task_ids(void);
typedef struct holdfast_wait {
  holdfast_parker *parker;
  uint32_t waiter;
  uint32_t task;
  int32_t fair;
  int32_t holds;
  double timeout;
  double sleep;
  uint32_t holder_task;
  int32_t tries;
} holdfast_wait;
int holdfast_lock_wait(holdfast_dict *dict, const char *key, size_t key_length, double exptime, holdfast_wait *wait,
                       holdfast_lease *lease);
int holdfast_lock_watch(holdfast_dict *dict, const char *key, size_t key_length, holdfast_wait *wait, uint64_t *grant);
int holdfast_change_wait(holdfast_dict *dict, const char *key, size_t key_length, holdfast_wait *wait,
                         holdfast_version_of_key *version);
int holdfast_deadlock_keys(holdfast_parker *parker, uint32_t waiter, holdfast_value *keys, uint32_t *count);
int holdfast_lock_leave(holdfast_dict *dict, const char *key, size_t key_length, holdfast_parker *parker,
                        uint32_t waiter);
int holdfast_permits_try(holdfast_dict *dict, const char *key, size_t key_length, int kind, uint32_t want,
                         uint32_t total, double exptime, uint32_t task, int how, holdfast_lease *lease);
int holdfast_permits_wait(holdfast_dict *dict, const char *key, size_t key_length, int kind, uint32_t want,
                          uint32_t total, double exptime, holdfast_wait *wait, holdfast_lease *lease);
int holdfast_permits_keep(holdfast_dict *dict, const char *key, size_t key_length, const holdfast_lease *lease,
                          uint32_t count);
int holdfast_permits_upgrade(holdfast_dict *dict, const char *key, size_t key_length, int how, holdfast_wait *wait,
                             const holdfast_lease *lease);
int holdfast_upgrade(holdfast_dict *dict, const char *key, size_t key_length, double timeout, uint32_t task,
                     const holdfast_lease *lease);
int holdfast_permits_count(holdfast_dict *dict, const char *key, size_t key_length, uint32_t *used, uint32_t *waiters);
int holdfast_parker_sleep(holdfast_parker *parker, double seconds, uint32_t *waiters, int max);
int holdfast_parker_fd(holdfast_parker *parker);
int holdfast_parker_timer(holdfast_parker *parker, double seconds);
int holdfast_parker_listen(holdfast_parker *parker, char *path, size_t size);
int holdfast_parker_accept(holdfast_parker *parker);
void holdfast_parker_disconnect(holdfast_parker *parker);
int holdfast_observe(void);
typedef struct holdfast_process {
  uint64_t owner;
  double entered;
  uint64_t pid_namespace;
  uint32_t pid;
  uint32_t worker;
  char program[16];
  char host[40];
} holdfast_process;
int holdfast_processes(holdfast_process *processes, size_t struct_size, uint32_t max, uint32_t *count);
int holdfast_process_lives(uint64_t owner);
typedef struct holdfast_waiter {
  uint64_t owner;
  double waited;
  uint32_t want;
  uint32_t watches;
} holdfast_waiter;
int holdfast_look(holdfast_dict *dict, const char *key, size_t key_length, holdfast_holder *holders,
                  uint32_t max_holders, uint32_t *holder_count, holdfast_waiter *waiters, size_t waiter_size,
                  uint32_t max_waiters, uint32_t *waiter_count);
typedef struct holdfast_health {
  uint32_t used;
  uint32_t damaged;
  uint32_t uncertain;
  uint32_t held;
  uint32_t held_by_dead;
  uint32_t held_by_idle;
  uint64_t holder;
} holdfast_health;
int holdfast_check(holdfast_dict *dict, holdfast_health *health, size_t struct_size);
]],

    constants = {
        ABI = 6,
        PATH_MAX = 108,
        OK = 0,
        NOT_FOUND = 1,
        EXISTS = 2,
        NO_MEMORY = 3,
        TIMEOUT = 4,
        NOT_A_NUMBER = 5,
        LOCKED = 6,
        NOT_OWNER = 7,
        TOO_LARGE = 8,
        BUFFER = 9,
        INVALID = 10,
        SYSTEM = 11,
        MISMATCH = 12,
        CORRUPT = 13,
        PERMISSION = 14,
        BUSY = 15,
        REMOVED = 16,
        NOT_A_LIST = 17,
        IS_A_LIST = 18,
        DIFFERS = 19,
        DEADLOCK = 20,
        ELSEWHERE = 21,
        UNSUPPORTED = 22,
        UNAVAILABLE = 23,
        UNCHANGED = 24,
        NIL = 0,
        BOOLEAN = 1,
        NUMBER = 3,
        STRING = 4,
        TABLE = 5,
        MUTEX_FUTEX = 0,
        MUTEX_SPIN = 1,
        MUTEX_FILE = 2,
        TEMPORARY = -1,
        KEPT = 0,
        PERSISTENT = 1,
        SET = 0,
        ADD = 1,
        REPLACE = 2,
        SAFE_SET = 3,
        SAFE_ADD = 4,
        LEFT = 0,
        RIGHT = 1,
        NAME_MAX = 250,
        KEY_MAX = 65535,
        SIZE_MIN = 12288,
        WHY_MAX = 127,
        HOW_FAIR = 1,
        HOW_FIRST = 2,
        HOW_ANY_OWNER = 4,
        HELD_LOCK = 0,
        HELD_RWLOCK = 1,
        HELD_SEMAPHORE = 2,
        HOLDERS_MAX = 4096,
        TIME_WAITED = 0,
        TIME_HELD = 1,
        BUCKETS = 720,
        CONTENDED_MAX = 64,
        CONTENDED_KEY_MAX = 72,
        ASK_VERIFY = 0,
        ASK_HOLDER = 1,
        ASK_BREAK = 2,
        ASK_STATUS = 3,
        ANSWER_MAX = 4096,
        HOLDS_NOTHING = 0,
        HOLDS_SOMETHING = 1,
        HOLDS_EVERYTHING = 2,
        HOLDS_ITSELF = 4,
        RWLOCK = 0,
        SEMAPHORE = 1,
        ALL_PERMITS = 1073741824,
        PROCESSES_MAX = 1024,
    },
}
