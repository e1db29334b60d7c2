-- What is timed side by side, and the largest share of the other's time that is good enough.
--
--   name     of the case in the lines of results
--   what     it is called in the table
--   loop     of bench/parts/loops.lua; the name itself if nothing is said
--   dict     the dictionary it works in
--   keys     how many keys it goes over in a random order; none: always the same key
--   target   at most this share of the other's time
--   locks    in `make bench-locks`
--   both     in `make bench`, too, where the locks are; otherwise in `make bench-peers` only

local HOT, HUNDRED_K, MILLION, STRINGS = "bench_hot", "bench_100k", "bench_1m", "bench_strings"

return {
    { name = "lock_unlock", what = "lock + unlock, same object", target = 0.5, both = true,
      locks = true },
    { name = "new_lock_unlock", what = "new + lock + unlock", target = 0.3, both = true },

    { name = "get_hot", what = "get, one number", dict = HOT, target = 0.8, both = true },
    { name = "get_string_hot", what = "get, one string of 100 bytes", dict = HOT, target = 0.8 },
    { name = "set_hot", what = "set, one number", dict = HOT, target = 1, both = true },
    { name = "incr_hot", what = "incr, one number", dict = HOT, target = 1, both = true },
    { name = "add_delete", what = "add + delete, one number", dict = HOT, target = 1 },
    { name = "get_1k_hot", what = "get, one string of 1 KB", dict = STRINGS, target = 1 },
    { name = "set_1k_hot", what = "set, one string of 1 KB", dict = STRINGS, target = 1 },

    { name = "get_100k", what = "get, 100k numbers", loop = "get", dict = HUNDRED_K, keys = 100000, target = 0.35,
      both = true },
    { name = "set_100k", what = "set, 100k numbers", loop = "set", dict = HUNDRED_K, keys = 100000, target = 0.35,
      both = true },
    { name = "incr_100k", what = "incr, 100k numbers", loop = "incr", dict = HUNDRED_K, keys = 100000, target = 0.35,
      both = true },
    { name = "get_keys", what = "get_keys of 100k, per key", dict = "bench_keys", target = 0.35 },
    { name = "add_delete_100k", what = "delete + add, 100k numbers", loop = "delete_add", dict = HUNDRED_K,
      keys = 100000, target = 0.35 },
    { name = "set_1k_10k", what = "set, 10k strings of 1 KB", loop = "set_1k", dict = STRINGS, keys = 10000,
      target = 1 },
    { name = "get_1m", what = "get, 1M numbers", loop = "get", dict = MILLION, keys = 1000000, target = 0.35 },
    { name = "set_1m", what = "set, 1M numbers", loop = "set", dict = MILLION, keys = 1000000, target = 0.35 },
}
