-- The operations that the benchmarks time side by side, as lines of Lua that are the same for all sides. Each case has
-- a target: the largest acceptable share of the other side's time. bench/support/program.lua turns the cases into
-- programs.
--
--   name     the case's name in the lines of results
--   what     the case's name in the tables
--   lock     true if the case tests lock modules; otherwise, it tests dictionaries
--   before   lines that run once
--   prepare  a line that runs once for each key
--   object   lines that create the step's objects: once if the case runs alone, once per call site in a mix
--   step     the timed operation; KEY is the key, and i is a number that differs in each step
--   dict     the dictionary to use; mixed_dict: the dictionary to use in a mix, if it is a different one
--   keys     the number of keys, used in a random order (default: 1 alone, 500 in a mix)
--   steps    the number of steps in a round, alone (default: 100,000); rounds: the number of rounds (default: 9)
--   mix      the mix that the case belongs to: "hot" (few keys; the default) or "many"; false: alone only
--   each     the number of steps of each call site between two checks of the clock, in a mix (default: 25)
--   per      the number of operations in a step: { alone, in a mix }
--   target   the largest acceptable share of the other side's time: alone, and in a mix
--   both     true if `make bench` also runs the case; otherwise, only `make bench-peers` (dictionaries) or
--            `make bench-locks` (locks) runs it

local HOT, HUNDRED_K, MILLION, STRINGS = "bench_hot", "bench_100k", "bench_1m", "bench_strings"
local SET, GET, INCR = "assert(dict:set(KEY, i))", "assert(dict:get(KEY))", "assert(dict:incr(KEY, 1))"

return {
    { name = "lock_unlock", what = "lock + unlock, same object", lock = true, both = true, target = 0.6,
      object = "local lock = resty_lock:new(LOCKS)",
      step = "assert(lock:lock(KEY))\nassert(lock:unlock())" },
    { name = "new_lock_unlock", what = "new + lock + unlock", lock = true, both = true, target = 0.12,
      step = "local lock = resty_lock:new(LOCKS)\nassert(lock:lock(KEY))\nassert(lock:unlock())" },
    { name = "refused", what = "lock of a held key, refused", lock = true, both = true, target = 0.7,
      before = "local held = {}",
      prepare = "held[#held + 1] = resty_lock:new(LOCKS); assert(held[#held]:lock(KEY))",
      object = "local lock = resty_lock:new(LOCKS, { timeout = 0 })",
      step = "assert(not lock:lock(KEY))" },

    { name = "get_hot", what = "get, one number", dict = HOT, target = 0.5, both = true, prepare = SET, step = GET },
    { name = "set_hot", what = "set, one number", dict = HOT, target = 0.6, both = true, step = SET },
    { name = "set_exptime", what = "set with exptime, one number", dict = HOT, target = 1, both = true,
      step = "assert(dict:set(KEY, i, 60))" },
    { name = "incr_hot", what = "incr, one number", dict = HOT, target = 1, both = true,
      prepare = SET, step = INCR },
    { name = "add_delete", what = "add + delete, one number", dict = HOT, target = 0.7, both = true,
      step = "assert(dict:add(KEY, i))\nassert(dict:delete(KEY))" },
    { name = "get_string_hot", what = "get, one string of 100 bytes", dict = HOT, target = 0.8,
      before = "local value = (\"x\"):rep(100)", prepare = "assert(dict:set(KEY, value))", step = GET },
    { name = "set_string_hot", what = "set, one string of 100 bytes", dict = HOT, target = 1,
      object = "local value = (\"x\"):rep(100)", step = "assert(dict:set(KEY, value))" },
    { name = "get_1k_hot", what = "get, one string of 1 KB", dict = STRINGS, target = 1,
      before = "local value = (\"x\"):rep(1024)", prepare = "assert(dict:set(KEY, value))", step = GET },
    { name = "set_1k_hot", what = "set, one string of 1 KB", dict = STRINGS, target = 1, both = true,
      object = "local value = (\"x\"):rep(1024)", step = "assert(dict:set(KEY, value))" },

    { name = "get_100k", what = "get, 100k numbers", dict = HUNDRED_K, mix = "many", keys = 100000, target = 0.35,
      both = true, prepare = SET, step = GET },
    { name = "set_100k", what = "set, 100k numbers", dict = HUNDRED_K, mix = "many", keys = 100000, target = 0.35,
      both = true, prepare = SET, step = SET },
    { name = "incr_100k", what = "incr, 100k numbers", dict = HUNDRED_K, mix = "many", keys = 100000, target = 0.35,
      prepare = SET, step = INCR },
    { name = "delete_add_100k", what = "delete + add, 100k numbers", dict = HUNDRED_K, mix = "many", keys = 100000,
      target = 0.35, prepare = SET, step = "assert(dict:delete(KEY))\nassert(dict:add(KEY, i))" },
    { name = "get_keys", what = "get_keys, per key (100k alone, 1k mixed)", target = 0.45,
      dict = "bench_keys", mix = "many", mixed_dict = "bench_few", each = 1,
      before = "for i = 1, PER do assert(dict:set((\"q%08d\"):format(i * 7919 % PER), i)) end",
      step = "assert(#dict:get_keys(0) == PER)", per = { 100000, 1000 }, steps = 1 },
    { name = "set_1k_10k", what = "set, 10k strings of 1 KB", dict = STRINGS, mix = false, keys = 10000, target = 1,
      before = "local value = (\"x\"):rep(1024)", prepare = "assert(dict:set(KEY, value))",
      step = "assert(dict:set(KEY, value))" },
    { name = "get_1m", what = "get, 1M numbers", dict = MILLION, mix = false, keys = 1000000, target = 0.35,
      steps = 1000000, rounds = 3, prepare = SET, step = GET },
    { name = "set_1m", what = "set, 1M numbers", dict = MILLION, mix = false, keys = 1000000, target = 0.35,
      steps = 1000000, rounds = 3, prepare = SET, step = SET },
}
