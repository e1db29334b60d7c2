-- The dictionaries that both sides have, with the same size on both. None of the loops fills one: ngx.shared takes
-- about 130 bytes for a number under a key of 9 bytes, and 2,048 for a string of 1,024.

return {
    bench_locks = "1m",
    bench_crowd = "16m",     -- 10,000 locks
    bench_sync = "100k",     -- where processes wait for each other
    bench_hot = "1m",        -- few keys
    bench_100k = "16m",      -- 100,000 numbers
    bench_keys = "16m",      -- 100,000 others
    bench_1m = "192m",       -- 1,000,000 numbers
    bench_strings = "32m",   -- 10,000 strings of 1 KB
    bench_fill = "64m",      -- to be filled
    bench_ratio_5 = "836k",  -- for hit ratios: 5, 10 and 25 % of 100,000 values of 100 bytes
    bench_ratio_10 = "1664k",
    bench_ratio_25 = "4260k",
    bench_words_5 = "20k",   -- 5, 10 and 25 % of 1,000 values of 200 bytes
    bench_words_10 = "32k",
    bench_words_25 = "72k",
}
