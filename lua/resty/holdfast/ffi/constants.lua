-- The constants of holdfast.h.

return {
    -- HOLDFAST_ABI of the header that cdef.lua is written for.
    ABI = 6,

    -- holdfast_code
    OK = 0, NOT_FOUND = 1, EXISTS = 2, NO_MEMORY = 3, TIMEOUT = 4, NOT_A_NUMBER = 5, LOCKED = 6, NOT_OWNER = 7,
    TOO_LARGE = 8, BUFFER = 9, INVALID = 10, SYSTEM = 11, MISMATCH = 12, CORRUPT = 13, PERMISSION = 14, BUSY = 15,
    REMOVED = 16, NOT_A_LIST = 17, IS_A_LIST = 18, DIFFERS = 19, DEADLOCK = 20, ELSEWHERE = 21, UNSUPPORTED = 22,
    UNAVAILABLE = 23,

    -- holdfast_type
    NIL = 0, BOOLEAN = 1, NUMBER = 3, STRING = 4, TABLE = 5,

    -- holdfast_mutex
    MUTEX_FUTEX = 0, MUTEX_SPIN = 1, MUTEX_FILE = 2,

    -- holdfast_persist
    TEMPORARY = -1, KEPT = 0, PERSISTENT = 1,

    -- holdfast_store_op
    SET = 0, ADD = 1, REPLACE = 2, SAFE_SET = 3, SAFE_ADD = 4,

    -- holdfast_end
    LEFT = 0, RIGHT = 1,

    -- holdfast_permits_kind
    RWLOCK = 0, SEMAPHORE = 1, ALL_PERMITS = 2 ^ 30,

    -- holdfast_held
    HELD_LOCK = 0, HELD_RWLOCK = 1, HELD_SEMAPHORE = 2,

    -- holdfast_how
    HOW_FAIR = 1, HOW_FIRST = 2,

    -- holdfast_time
    TIME_WAITED = 0, TIME_HELD = 1,

    -- holdfast_holds
    HOLDS_NOTHING = 0,
    HOLDS_SOMETHING = 1,
    HOLDS_EVERYTHING = 2,

    -- holdfast_question
    ASK_VERIFY = 0, ASK_HOLDER = 1, ASK_BREAK = 2, ASK_STATUS = 3,

    -- limits
    NAME_MAX = 250, KEY_MAX = 65535, SIZE_MIN = 12288, WHY_MAX = 127, HOLDERS_MAX = 4096, PATH_MAX = 108,
    ANSWER_MAX = 4096, BUCKETS = 720, CONTENDED_MAX = 64, CONTENDED_KEY_MAX = 72, PROCESSES_MAX = 1024,
}
