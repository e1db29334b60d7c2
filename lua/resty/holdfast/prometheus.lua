-- Provides metrics of the dictionaries and locks in the runtime directory. Manual: docs/resty.holdfast.prometheus.md.

local cache_counts = require "resty.holdfast.cache.counts"
local core = require "resty.holdfast.core"
local find_gate = require("resty.holdfast.dictionary.gate").find
local lock_info = require "resty.holdfast.lock.lock_info"
local queue_counts = require "resty.holdfast.queue.counts"
local shdict = require "resty.shdict"

local describe = core.describe
local concat, error, floor, ipairs, pairs, pcall, sort, tostring, type =
    table.concat, error, math.floor, ipairs, pairs, pcall, table.sort, tostring, type
local min, INFINITY = math.min, math.huge

local _M = { _VERSION = core.version }

local TEXT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
local OPENMETRICS_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"

local KEYS_MAX = 64

-- The limits for counting the locks of one dictionary and of all dictionaries, in seconds of processor time. Other
-- tasks of the process wait during this time.
local TIME_LIMIT, TIME_LIMIT_FOR_ALL = 0.002, 0.005

-- If a queue has more claims, its jobs are not counted by state, because this would take longer than 2 ms.
local CLAIMS_READ = 1000

-- The upper bounds of the buckets, in seconds. The library's histograms have many more buckets than a scraper needs.
local BOUNDS = { 1e-6, 1e-5, 1e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300,
                 3600 }

-- Each row has a name, a type and a help text. It may also name a field of dict:stats(), and have a factor. The rows
-- are in the order of the output. The build of `holdfast serve` reads the bounds above and the first three fields of
-- each row, which must be on one line (tools/src/serve/families.cmake).
local FAMILIES = {
    { "holdfast_dictionary_capacity_bytes", "gauge", "Size of the dictionary." },
    { "holdfast_dictionary_used_bytes", "gauge", "Memory in use by values, lists and waiters.", "bytes_used" },
    { "holdfast_dictionary_free_bytes", "gauge", "Free memory.", "bytes_free" },
    { "holdfast_dictionary_entries", "gauge", "Keys, including expired ones whose memory is still in use.", "entries" },
    { "holdfast_dictionary_hits_total", "counter", "Reads that found something.", "hits" },
    { "holdfast_dictionary_misses_total", "counter", "Reads that found nothing.", "misses" },
    { "holdfast_dictionary_evictions_total", "counter", "Values evicted before they expired.", "evictions" },
    { "holdfast_dictionary_expirations_total", "counter", "Values removed after they expired.",
      "expirations" },
    { "holdfast_dictionary_repairs_total", "counter", "Shards repaired after a process died or memory was damaged.",
      "repairs" },
    { "holdfast_dictionary_mutex_waits_total", "counter", "Changes that had to wait for another change in their shard.",
      "mutex_waits" },
    { "holdfast_lock_waits_total", "counter", "Waits for locks and permits.", "lock_waits" },
    { "holdfast_lock_wakes_total", "counter", "Waiters woken by a release.", "lock_wakes" },
    { "holdfast_lock_reserved_seconds_total", "counter", "Time that free locks were reserved for a waiter.",
      "lock_reserved_ms", 1e-3 },
    { "holdfast_lock_wait_seconds", "histogram", "Time spent waiting for locks and permits." },
    { "holdfast_lock_hold_seconds", "histogram", "Time that locks and permits were held." },
    { "holdfast_locks_held", "gauge", "Keys with locks or permits that are currently held." },
    { "holdfast_lock_waiters", "gauge", "Current waiters for locks and permits." },
    { "holdfast_lock_longest_wait_seconds", "gauge", "Longest current wait for a lock or permits." },
    { "holdfast_lock_longest_hold_seconds", "gauge", "Longest current hold, for locks with waiters and for others." },
    { "holdfast_key_waits_total", "counter", "Waits for the keys with the most contention." },
    { "holdfast_key_wait_seconds_total", "counter", "Time waited for the keys with the most contention." },
    { "holdfast_cache_hits_total", "counter", "Values returned by caches, by level." },
    { "holdfast_cache_loads_total", "counter", "Calls to loaders." },
    { "holdfast_cache_load_errors_total", "counter", "Calls to loaders that failed." },
    { "holdfast_cache_refreshes_total", "counter", "Loads for values that were stale or soon would be." },
    { "holdfast_cache_waits_total", "counter", "Waits for the load of another caller." },
    { "holdfast_cache_timeouts_total", "counter", "Such waits that ended without an answer." },
    { "holdfast_cache_not_stored_total", "counter", "Loaded values that did not fit into the dictionary." },
    { "holdfast_queue_waiting", "gauge", "Jobs that no worker has seen yet." },
    { "holdfast_queue_oldest_seconds", "gauge", "Age of the oldest of these jobs." },
    { "holdfast_queue_jobs", "gauge", "Jobs, by state." },
    { "holdfast_dictionaries_unreadable", "gauge", "Dictionaries that programs cannot open (see holdfast doctor)." },
    { "holdfast_lives_unknown_total", "counter", "Failed checks of whether a process is alive." },
    { "holdfast_words_mended_total", "counter", "Overwritten words that were repaired." },
}

local ESCAPES = { ["\\"] = "\\\\", ['"'] = '\\"', ["\n"] = "\\n" }


-- Returns the text of a label. Keys and names may contain any bytes, but labels must be UTF-8, so '%' and bytes outside
-- ASCII become %XX.
local function label_value(text)
    return (text:gsub("[%z\1-\9\11-\31%%\127-\255]", function (byte)
        return ("%%%02X"):format(byte:byte())
    end):gsub('[\\"\n]', ESCAPES))
end


local function number(value)
    if value == INFINITY then
        return "+Inf"
    end
    return value == floor(value) and value < 2 ^ 53 and ("%d"):format(value) or ("%.9g"):format(value)
end


-- Adds a sample. labels: { name, value, name, value... }. Adds up numbers with equal labels, because Prometheus refuses
-- a text in which two samples have the same labels. Two long keys may have equal labels after they are truncated.
local function add(families, name, labels, value)
    local parts = {}
    for i = 1, #labels, 2 do
        parts[#parts + 1] = labels[i] .. '="' .. label_value(labels[i + 1]) .. '"'
    end
    local samples = families[name] or {}
    families[name] = samples
    local text = concat(parts, ",")
    local sample = samples[text]
    if sample then
        sample.value = sample.value + value
        return
    end
    sample = { parts = text, value = value }
    samples[text] = sample
    samples[#samples + 1] = sample
end


local function add_counts(families, labels, stats)
    for _, family in ipairs(FAMILIES) do
        local count = family[4] and stats[family[4]]
        if count then
            add(families, family[1], labels, count * (family[5] or 1))
        end
    end
end


-- Returns the counts up to each bound. If a bucket of the library contains a bound, its values count towards the next
-- bound.
local function fold(histogram)
    local folded, at, sum = {}, 1, 0
    for i, bound in ipairs(BOUNDS) do
        while histogram.buckets[at] and histogram.buckets[at].le <= bound do
            sum = sum + histogram.buckets[at].count
            at = at + 1
        end
        folded[i] = sum
    end
    return folded
end


local function add_histograms(families, name, dict)
    local histograms = dict:histograms() or {}
    for kind, of_kind in pairs(histograms) do
        for time, family in pairs { waited = "holdfast_lock_wait_seconds", held = "holdfast_lock_hold_seconds" } do
            if of_kind[time].count > 0 then
                add(families, family, { "dictionary", name, "kind", kind },
                    { counts = fold(of_kind[time]), count = of_kind[time].count, sum = of_kind[time].sum })
            end
        end
    end
end


-- Adds the numbers of held locks and of waiters, and the longest hold and wait. Adds nothing if some locks cannot be
-- read, because a process is stopped in the middle of a change or there are too many locks: no count is better than a
-- wrong one. Returns true if the other dictionaries left too little time.
local function add_locks(families, name, dict, deadline)
    local left = deadline - lock_info.computed()
    local found, err = lock_info.count_all(dict[1], min(TIME_LIMIT, left))
    if not found then
        return err == "timeout" and left < TIME_LIMIT
    end
    for kind, count in pairs(found.held) do
        add(families, "holdfast_locks_held", { "dictionary", name, "kind", kind }, count)
    end
    add(families, "holdfast_lock_waiters", { "dictionary", name }, found.waiters)
    add(families, "holdfast_lock_longest_wait_seconds", { "dictionary", name }, found.longest_wait)
    for waiters, hold in pairs(found.longest_hold) do
        add(families, "holdfast_lock_longest_hold_seconds", { "dictionary", name, "waiters", waiters }, hold)
    end
end


local function add_keys(families, name, dict, count)
    for _, one in ipairs(count > 0 and dict:contention(count) or {}) do
        local labels = { "dictionary", name, "kind", one.kind, "key", one.key }
        add(families, "holdfast_key_waits_total", labels, one.waits)
        add(families, "holdfast_key_wait_seconds_total", labels, one.wait_time)
    end
end


-- Adds the counts that caches have published in their dictionary.
local function add_cache(families, name, handle)
    for level, count in pairs { ["1"] = "l1_hits", ["2"] = "l2_hits", stale = "stale" } do
        local sum = cache_counts.sum(handle, count)
        if sum then
            add(families, "holdfast_cache_hits_total", { "dictionary", name, "level", level }, sum)
        end
    end
    for _, count in ipairs { "loads", "load_errors", "refreshes", "waits", "timeouts", "not_stored" } do
        local sum = cache_counts.sum(handle, count)
        if sum then
            add(families, "holdfast_cache_" .. count .. "_total", { "dictionary", name }, sum)
        end
    end
end


-- Adds the number of jobs in the queue to which this dictionary of claims belongs. Reads all claims only if there are
-- few.
local function add_queue(families, name, entries)
    local store = queue_counts.find(name)
    if not store then
        return
    end
    local labels = { "dictionary", store.name }
    add(families, "holdfast_queue_waiting", labels, queue_counts.waiting(store))
    add(families, "holdfast_queue_oldest_seconds", labels, queue_counts.oldest(store))
    if entries <= CLAIMS_READ then
        local counts = queue_counts.all(store)
        for _, state in ipairs { "ready", "delayed", "taken", "dead" } do
            add(families, "holdfast_queue_jobs", { "dictionary", store.name, "state", state }, counts[state])
        end
    end
end


local function add_gate(families, name, handle)
    local gate = find_gate(handle)
    if gate then
        families.of_gate = gate.FAMILIES
        gate.measure(handle, function (family, label, of_label, value)
            add(families, family, { "dictionary", name, label, of_label }, value)
        end)
    end
end


-- The first dictionary whose locks the previous call could not count in time. The next call begins with this
-- dictionary, so that every dictionary is counted from time to time.
local left_out

local function from_the_one_left_out(names)
    local first = 1
    for i, name in ipairs(names) do
        if name == left_out then
            first = i
        end
    end
    local turned = {}
    for i = 0, #names - 1 do
        turned[i + 1] = names[(first - 1 + i) % #names + 1]
    end
    return turned
end


local function collect(settings)
    local names, err = shdict.list()
    if not names then
        return nil, err
    end
    names = from_the_one_left_out(names)
    left_out = nil
    local families = {}
    local unreadable = 0
    local world
    local deadline = lock_info.computed() + TIME_LIMIT_FOR_ALL
    for _, name in ipairs(names) do
        local dict, why = shdict.find(name)
        local stats = dict and dict:stats()
        if not dict and why ~= "dictionary not found" then
            unreadable = unreadable + 1
        end
        if stats then  -- nil if the dictionary was removed or cannot be opened
            local labels = { "dictionary", name }
            add(families, "holdfast_dictionary_capacity_bytes", labels, dict:capacity())
            add_counts(families, labels, stats)
            add_histograms(families, name, dict)
            if settings.locks and add_locks(families, name, dict, deadline) then
                left_out = left_out or name
            end
            add_keys(families, name, dict, settings.keys)
            add_cache(families, name, dict[1])
            add_queue(families, name, stats.entries)
            add_gate(families, name, dict[1])
            world = stats
        end
    end
    add(families, "holdfast_dictionaries_unreadable", {}, unreadable)
    if world then  -- the counts of the whole runtime directory, the same in each dictionary
        add(families, "holdfast_lives_unknown_total", {}, world.lives_unknown)
        add(families, "holdfast_words_mended_total", {}, world.words_mended)
    end
    return families
end


local function with_labels(name, parts, more)
    parts = more and (parts ~= "" and parts .. "," .. more or more) or parts
    return parts ~= "" and name .. "{" .. parts .. "}" or name
end


local function write_histogram(lines, name, sample)
    for i, count in ipairs(sample.value.counts) do
        local bound = 'le="' .. ("%.9g"):format(BOUNDS[i]) .. '"'
        lines[#lines + 1] = with_labels(name .. "_bucket", sample.parts, bound) .. " " .. number(count)
    end
    lines[#lines + 1] = with_labels(name .. "_bucket", sample.parts, 'le="+Inf"') .. " " .. number(sample.value.count)
    lines[#lines + 1] = with_labels(name .. "_sum", sample.parts) .. " " .. number(sample.value.sum)
    lines[#lines + 1] = with_labels(name .. "_count", sample.parts) .. " " .. number(sample.value.count)
end


local function write_family(lines, family, samples, openmetrics)
    local name, kind, help = family[1], family[2], family[3]
    -- OpenMetrics names the family of a counter without "_total".
    local title = openmetrics and name:gsub("_total$", "") or name
    lines[#lines + 1] = "# HELP " .. title .. " " .. help
    lines[#lines + 1] = "# TYPE " .. title .. " " .. kind
    sort(samples, function (a, b) return a.parts < b.parts end)
    for _, sample in ipairs(samples) do
        if kind == "histogram" then
            write_histogram(lines, name, sample)
        else
            lines[#lines + 1] = with_labels(name, sample.parts) .. " " .. number(sample.value)
        end
    end
end


local function write(families, openmetrics)
    local lines = {}
    for _, known in ipairs { FAMILIES, families.of_gate } do
        for _, family in ipairs(known) do
            local samples = families[family[1]]
            if samples then
                write_family(lines, family, samples, openmetrics)
            end
        end
    end
    lines[#lines + 1] = openmetrics and "# EOF" or nil
    return concat(lines, "\n") .. "\n"
end


local OPTIONS = { openmetrics = true, locks = true, keys = true }

local function read_options(opts, level)
    if opts ~= nil and type(opts) ~= "table" then
        error("bad options: expected a table, got " .. describe(opts), level)
    end
    local settings = { openmetrics = false, locks = true, keys = 0 }
    for name, value in pairs(opts or {}) do
        if not OPTIONS[name] then
            error("unknown option " .. describe(name) .. ": expected keys, locks or openmetrics", level)
        end
        settings[name] = value
    end
    local keys = settings.keys
    if type(keys) ~= "number" or keys ~= floor(keys) or keys < 0 or keys > KEYS_MAX then
        error('bad option "keys": expected a whole number from 0 to ' .. KEYS_MAX .. ", got " .. describe(keys), level)
    end
    return settings
end


-- Returns the metrics as text, and their content type. If the runtime directory cannot be read, returns nil and a
-- message. opts: openmetrics (default false: the text format of Prometheus), locks (default true: count held locks and
-- waiters), and keys (default 0, at most 64: how many keys with the most contention to add for each dictionary). Raises
-- an error for a bad option. Does not yield.
function _M.metrics(opts)
    local settings = read_options(opts, 3)
    local families, err = collect(settings)
    if not families then
        return nil, err
    end
    return write(families, settings.openmetrics), settings.openmetrics and OPENMETRICS_TYPE or TEXT_TYPE
end


-- Answers a request in nginx with the metrics, in the format that the request's Accept header names. On failure,
-- answers with the status 500 and a message. opts: as for metrics(). Raises an error outside of nginx.
function _M.serve(opts)
    local settings = read_options(opts, 3)
    local ok, ngx = pcall(function () return _G.ngx.say and _G.ngx end)
    if not ok or not ngx then
        error("serve() works only in an nginx request; elsewhere, use metrics()", 2)
    end
    settings.openmetrics = settings.openmetrics
        or tostring(ngx.req.get_headers()["accept"] or ""):find("application/openmetrics-text", 1, true) ~= nil
    local families, err = collect(settings)
    if not families then
        ngx.status = 500
        ngx.header.content_type = "text/plain"
        return ngx.say(err)
    end
    ngx.header.content_type = settings.openmetrics and OPENMETRICS_TYPE or TEXT_TYPE
    ngx.print(write(families, settings.openmetrics))
end


return _M
