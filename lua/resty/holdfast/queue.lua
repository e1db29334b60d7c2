-- Queues of jobs, shared by processes. If a worker dies, another worker gets its job. Manual:
-- docs/resty.holdfast.queue.md. queue/claims.lua describes the protocol.
--
-- push and take may yield, as lock() of resty.lock does; other methods do not. On failure they return nil and a string:
-- "timeout", "full", "exists", "no memory", "not owner", "dictionary not found", or a message. A wrong receiver and
-- wrong arguments raise an error at the line of the call.

local claims = require "resty.holdfast.queue.claims"
local checks = require "resty.holdfast.dictionary.checks"
local contended = require "resty.holdfast.lock.contended"
local core = require "resty.holdfast.core"
local counts = require "resty.holdfast.queue.counts"
local ffi_str = require("ffi").string
local lease_pool = require "resty.holdfast.lock.lease_pool"
local attach = require("resty.holdfast.dictionary.registry").attach
local options = require "resty.holdfast.lock.options"
local shdict = require "resty.shdict"
local tables = require "resty.holdfast.dictionary.tables"

local C, describe, reason, sentence = core.C, core.describe, core.reason, core.sentence
local add, at, clear, get, swap = claims.add, claims.at, claims.clear, claims.get, claims.swap
local error, floor, getmetatable, ipairs, min = error, math.floor, getmetatable, ipairs, math.min
local next, setmetatable, sort, tostring, type = next, setmetatable, table.sort, tostring, type
local wait_for_change = contended.wait_for_change

local ASIDE, DEAD, GRANTS, NOTHING, VOID = claims.ASIDE, claims.DEAD, claims.GRANTS, claims.NOTHING, claims.VOID
local DETACHED = claims.DETACHED
local CLAIM, DUE, UNIQUE, VALUE = claims.CLAIM, claims.DUE, claims.UNIQUE, claims.VALUE
local KEY_SIZE, NEXT = claims.KEY_SIZE, claims.NEXT
local BUFFER, DIFFERS, EXISTS, NOT_FOUND, OK = core.BUFFER, core.DIFFERS, core.EXISTS, core.NOT_FOUND, core.OK
local SAFE_ADD, TOO_LARGE = core.SAFE_ADD, core.TOO_LARGE

local TIMEOUT = 5
-- The key of a lock that one of the waiting takers holds. Only this taker watches the queue. If its process is stopped,
-- another taker gets the lock after TURN_EXPTIME seconds.
local TURN = "turn"
local TURN_EXPTIME = 1
-- The smallest claim of a taken job, and the smallest claim that belongs to a worker.
local FIRST_TAKEN, FIRST_WORKER = DETACHED * GRANTS, (claims.LAST_STATE + 1) * GRANTS

local _M = { _VERSION = core.version }
local mt, job_mt = { __index = _M }, { __index = {} }
local Job = job_mt.__index

-- The state of each queue that this Lua state has opened, by name. All objects with this name share it.
local stores = {}


-- --- options ---

local function whole(given) return type(given) == "number" and given >= 1 and given % 1 == 0 end
local function anything() return true end
local function boolean(given) return type(given) == "boolean" end

local POSITIVE, WHOLE = "a number greater than 0", "a whole number, 1 or more"
local OPEN = {
    size = { anything }, persist = { anything }, mode = { anything }, largest = { anything },
    block = { boolean, "a boolean" }, max = { whole, WHOLE }, max_attempts = { whole, WHOLE },
    lease = { function (given) return core.is_duration(given) and given > 0 end, POSITIVE },
}
local PUSH = {
    delay = { core.is_duration, "a number, 0 or more" }, timeout = { core.is_time, "a number, 0 or more" },
    key = { function (given) return type(given) == "string" and #given > 0 and #given < core.KEY_MAX end,
            "a string of 1 to 65534 bytes" },
    priority = { function (given) return given == 0 or whole(given) and given <= 1000 end,
                 "a whole number from 0 to 1000" },
}
local NONE = {}


-- Checks the options of a method, for the method's caller.
local function check_options(opts, method, known)
    if opts == nil then
        return NONE
    elseif type(opts) ~= "table" then
        error("bad options to " .. method .. ": expected a table, got " .. type(opts), 3)
    end
    local name, given = next(opts)
    while name ~= nil do
        local rule = known[name]
        if not rule then
            error('unknown option "' .. tostring(name) .. '" to ' .. method, 3)
        elseif not rule[1](given) then
            error('bad option "' .. name .. '" to ' .. method .. ": expected " .. rule[2] .. ", got "
                  .. describe(given), 3)
        end
        name, given = next(opts, name)
    end
    return opts
end


local function check_receiver(self, method, expected)
    if getmetatable(self) ~= (expected or mt) then
        error("bad receiver of " .. method .. ": expected a " .. (expected and "job" or "queue") .. ", got "
              .. describe(self) .. "; call it with a colon", 3)
    end
end


-- Opens the dictionaries of a queue with the function `open`: shdict.open, or attach if they must exist. Returns the
-- queue's state, or nil and a message.
local function open_store(open, name, opts)
    local dict, own, locks, err
    local persist = opts.persist == nil or opts.persist  -- so that no call of open() loses a queue's jobs
    dict, err = open(name, { size = opts.size, persist = persist, mode = opts.mode, largest = opts.largest })
    local keys
    if dict then
        keys, err = dict:get_keys(1)
    end
    if keys and keys[1] and not attach(name .. ".claims") then
        return nil, "dictionary " .. core.quote(name) .. " contains other data: give the queue another name"
    elseif keys then
        -- This size has room for two claims per value, even with the smallest values.
        own, err = open(name .. ".claims", { size = 2 * dict:capacity(), persist = persist, mode = opts.mode,
                                             versions = true })
    end
    if own then
        locks, err = shdict.open(name .. ".workers", { size = "256k", persist = false, mode = opts.mode })
    end
    if own and not locks and open == attach then
        locks = attach(name .. ".workers") or {}  -- for a process that only observes, and therefore creates nothing
    end
    if not locks then
        return nil, err
    end
    dict.tables = not tables.missing
    local store = stores[name] or { candidates = {}, look_at = 0, scanned = 0 }
    store.dict, store.jobs, store.claims, store.workers = dict, dict[1], own[1], locks[1]
    stores[name] = store
    return store
end


local function make(store, opts)
    local settings = setmetatable({ block = opts.block or false }, { __index = options.DEFAULT_SETTINGS })
    return setmetatable({
        store = store, max = opts.max, max_attempts = opts.max_attempts or 5, lease = opts.lease,
        way = { settings = settings, ratio = 2, max_step = 0.5, step = 0.001 },
    }, mt)
end


-- Opens a queue, and creates it if it does not exist. opts: size, mode, largest as in shdict.open; persist (default
-- true); max (the maximum number of ready jobs; default no limit), max_attempts (default 5), lease (seconds; default
-- none), block (default false, as in resty.lock).
-- Returns the queue, or nil and a message. Does not yield.
function _M.open(name, opts)
    if type(name) ~= "string" then
        error("bad name to open: expected a string, got " .. type(name), 2)
    end
    opts = check_options(opts, "open", OPEN)
    local store, err = open_store(shdict.open, name, opts)
    return store and make(store, opts), err
end


-- Opens an existing queue for the command `holdfast queue` and for observers, which can only look at it. Returns the
-- queue, or nil and a message.
function _M.find(name, opts)
    opts = check_options(opts, "find", OPEN)
    local store, err = open_store(attach, name, opts)
    return store and make(store, opts), err
end


-- --- push ---

-- Leaves a number without a job. If it is the last number, the next push gets it: a full dictionary may have no room
-- for another claim. Otherwise, a waiting taker wakes up and skips the number.
local function give_up(store, n)
    for _, kind in ipairs { UNIQUE, VALUE, DUE } do
        clear(store, kind, n)
    end
    if not claims.take_back(store, n) and add(store, CLAIM, n, NOTHING * GRANTS) == EXISTS then
        swap(store, CLAIM, n, VOID * GRANTS, NOTHING * GRANTS)
    end
end


-- Returns whether a job has the unique key, the number that the key belongs to, the claim of that number, and the
-- reason for a failure.
local find_unique
function find_unique(store, unique)
    local n, err = store.dict:get(unique)
    if n == nil then
        return false, nil, nil, err
    elseif type(n) ~= "number" or n ~= n then
        return false, nil, nil, reason(core.NOT_A_NUMBER)
    end
    local claim, code = get(store, CLAIM, n)
    if claim and store.dict:get(unique) ~= n then
        return find_unique(store, unique)  -- the number was taken back, and another job may have got it
    elseif claim then
        return claim ~= NOTHING * GRANTS and claim ~= VOID * GRANTS, n, claim
    end
    return false, n, nil, code and reason(code)
end


-- Makes the unique key belong to number `n`. Returns true, or nil and the reason.
local function reserve(store, unique, n)
    while true do
        local exists, other, claim, failed = find_unique(store, unique)
        local done, err
        if exists or failed then
            return nil, failed or "exists"
        elseif not other then
            done, err = store.dict:safe_add(unique, n)
        elseif claim or other < (get(store, NEXT) or 0) and not get(store, CLAIM, other)
               or add(store, CLAIM, other, VOID * GRANTS) == OK then
            done, err = store.dict:cas(unique, other, n)  -- the other push has failed, or will fail
        end
        if done then
            return true
        elseif err and err ~= "exists" and err ~= "value differs" and err ~= "not found" then
            return nil, err
        end
    end
end


-- Stores a job under its number. Returns true, or nil, the reason and a message. If a taker has voided the number,
-- there is no reason.
local function store_job(store, n, opts, kind, data, length, number)
    local unique, now = opts.key and "k" .. opts.key, C.holdfast_now()
    if unique then
        -- The number's own entry comes first: without it, clear() would not delete the key.
        local done, err = store.dict:safe_set(ffi_str(at(UNIQUE, n), KEY_SIZE), unique)
        if done then
            done, err = reserve(store, unique, n)
        end
        if not done then
            return nil, err
        end
    end
    -- The flags contain the time of the push in tenths of a second, and whether the job has a unique key.
    local flags = floor(now * 10) % 2 ^ 31 * 2 + (unique and 1 or 0)
    local code = C.holdfast_store(store.jobs, SAFE_ADD, at(VALUE, n), KEY_SIZE, kind, data, length, number, 0, flags,
                                  nil)
    if code ~= OK then
        return nil, reason(code), code == TOO_LARGE and sentence(code) or nil
    end
    local claim, due = 0, 0
    if opts.delay and opts.delay > 0 then
        due = now + opts.delay
    elseif opts.priority then
        due = -opts.priority
    end
    if due ~= 0 then
        claim, code = ASIDE * GRANTS, claims.set_due(store, n, 0, due)
    end
    if code == OK then
        code = add(store, CLAIM, n, claim)
    end
    return code == OK or nil, code ~= EXISTS and reason(code) or nil
end


-- Waits until the queue is not full. Returns a number for a push, or nil and the reason.
local function wait_for_number(self, timeout)
    local store, deadline = self.store, C.holdfast_now() + timeout
    while true do
        local version = claims.version(store, NEXT, 0)
        local n, code = claims.new_number(store, self.max)
        local left = deadline - C.holdfast_now()
        if n or code then
            return n, code and reason(code)
        elseif left <= 0 or not version then
            return nil, "full"
        end
        local changed, err = wait_for_change(store.claims, ffi_str(at(NEXT), KEY_SIZE), version, left, false, self.way)
        if not changed and err ~= "timeout" then
            return nil, err
        end
    end
end


-- Adds a job: a string, number, boolean or table. opts: delay (seconds), priority (0 to 1000; the highest comes first),
-- key (at most one job has this key), timeout (default 5; how long to wait while `max` jobs are ready). Returns the
-- job's number, or nil and "full", "exists", "no memory" (and a message if the job can never fit) or another error.
function _M.push(self, value, opts)
    check_receiver(self, "push")
    opts = check_options(opts, "push", PUSH)
    local store = self.store
    if value == nil then
        checks.bad_argument("job", "a string, number, boolean or table", value)
    end
    local kind, data, length, number = tables.form_of(store.dict, value)
    if not kind then
        return nil, data
    end
    if opts.key and find_unique(store, "k" .. opts.key) then
        return nil, "exists"
    end
    local n = claims.new_number(store, self.max)
    if not n then
        local err
        n, err = wait_for_number(self, opts.timeout or TIMEOUT)
        if not n then
            return nil, err
        end
    end
    local done, err, message = store_job(store, n, opts, kind, data, length, number)
    if done then
        return n
    end
    give_up(store, n)
    if err then
        return nil, err, message
    end
    return _M.push(self, value, opts)  -- the number was voided
end


-- --- take ---

-- Repeats a read whose value did not fit into the buffer.
local function read_long(store, n, value)
    local code
    repeat
        core.grow(core.current())
        code = C.holdfast_get(store.jobs, at(VALUE, n), KEY_SIZE, value)
    until code ~= BUFFER
    return code
end


-- Returns the value and the flags of a job, nil and nil if there is no job, or nil and the reason.
local function read(store, n)
    local value = core.enter_value()
    local code = C.holdfast_get(store.jobs, at(VALUE, n), KEY_SIZE, value)
    if code == BUFFER then
        code = read_long(store, n, value)
    end
    local flags, result, err = value.flags, nil, nil
    if code == OK then
        result, err = tables.read_value(store.dict, value)
    elseif code ~= NOT_FOUND then
        err = reason(code)
    end
    core.leave()
    return result, err or flags
end


-- Makes the object of a job with this claim. Returns nil if the job's value was flushed, or nil, the reason and the
-- object if the value cannot be read.
local function new_job(self, n, claim, was_owned)
    local store = self.store
    local value, flags = read(store, n)
    local job = setmetatable({
        value = value, attempts = claim % GRANTS, number = n, claim = claim, queue = self, has_due = was_owned,
        is_unique = type(flags) == "number" and flags % 2 == 1,
    }, job_mt)
    if value ~= nil then
        if self.lease and claim >= FIRST_WORKER then
            job:touch()
        end
        return job
    elseif type(flags) == "number" then
        job:done()
        return nil
    end
    return nil, flags, job
end


-- Tries to take a job. Returns the job, or nil, nil and the number whose claim is missing, or nil and the reason for a
-- failure.
local try
function try(self, first)
    local store = self.store
    local id, failed = claims.join(store)
    if not id then
        return nil, failed
    end
    local n, claim, third = claims.take(store, self.max_attempts, first)
    if not n then
        return nil, claim and reason(claim), third
    end
    local job, err, unreadable = new_job(self, n, claim, third)
    if unreadable then
        unreadable:retry(1)
    end
    if job or err then
        return job, err
    end
    return try(self, first)
end


local function keep_turn(_, request, grant)
    lease_pool.hold(grant, request.holder)
    return grant
end


-- Watches the queue until there is a job. Returns the results of take().
local function watch(self, turn, deadline)
    local store, watched = self.store, 0
    while true do
        local version = claims.version(store, CLAIM, watched)
        local job, err, n = try(self, true)
        local left = deadline - C.holdfast_now()
        if job or err then
            return job, err
        elseif left <= 0 then
            return nil, "timeout"
        elseif n == watched and version then
            C.holdfast_lock_renew(store.workers, TURN, #TURN, turn.lease, TURN_EXPTIME)
            local changed
            changed, err = wait_for_change(store.claims, ffi_str(at(CLAIM, n), KEY_SIZE), version,
                                           min(left, claims.pause(store, n)), true, self.way)
            if not changed and err ~= "timeout" then
                return nil, err
            elseif not changed or changed == version then
                store.look_at = 0  -- looks for dead workers now, because a process may have died
            end
        end
        watched = n
    end
end


-- Takes the next job, and waits up to `timeout` seconds (default 5) for one. Returns the job, or nil and "timeout" or
-- another error.
function _M.take(self, timeout)
    check_receiver(self, "take")
    timeout = timeout or TIMEOUT
    core.check_time(timeout, "timeout", "take", 2)
    local job, err = try(self)
    if job or err then
        return job, err
    elseif timeout <= 0 then
        return nil, "timeout"
    end
    local deadline = C.holdfast_now() + timeout
    local grant = lease_pool.take(self.store.workers, TURN)
    local request = contended.new_request(self.way, grant, TURN_EXPTIME, timeout, self.way.step)
    grant, err = contended.wait(self.way, request, grant, keep_turn)
    if not grant then
        return nil, err
    end
    job, err = watch(self, grant, deadline)
    C.holdfast_unlock_for_certain(grant.dict, TURN, #TURN, grant.lease)
    lease_pool.empty(grant)
    return job, err
end


-- --- jobs ---

-- Returns whether this Lua state may change the job. A job that belongs to no worker may be changed by any state.
local function may_change(self)
    local store, owner = self.queue.store, floor(self.claim / GRANTS)
    return self.claim < FIRST_WORKER or store.worker == owner and claims.is_worker(store)
end


-- Replaces the job's claim. Returns true, or nil and the reason.
local function change(self, claim)
    local code = swap(self.queue.store, CLAIM, self.number, self.claim, claim)
    if code == OK then
        return true
    end
    return nil, (code == DIFFERS or code == NOT_FOUND) and "not owner" or reason(code)
end


-- Ends the job. Returns true, or nil and "not owner" (the job was ended, or was given to another worker) or another
-- error.
function Job.done(self)
    check_receiver(self, "done", job_mt)
    if not may_change(self) then
        return nil, "not owner"
    end
    local store, n = self.queue.store, self.number
    local is_early = self.has_due and n >= (get(store, NEXT) or 0)
    local ended, err = change(self, is_early and NOTHING * GRANTS or nil)
    if not ended then
        return nil, err
    end
    clear(store, VALUE, n)
    if self.is_unique then
        clear(store, UNIQUE, n)
    end
    if self.has_due then
        clear(store, DUE, n)
    end
    return true
end


-- Gives the job back, to be taken again after `delay` seconds (default 0). If the job was taken max_attempts times,
-- makes it a dead job instead, and also returns "dead". Returns true, or nil and an error of done(), or "no memory".
function Job.retry(self, delay)
    check_receiver(self, "retry", job_mt)
    delay = delay or 0
    core.check_time(delay, "delay", "retry", 2)
    local store, n = self.queue.store, self.number
    local grants, is_taken = self.claim % GRANTS, self.claim >= FIRST_TAKEN
    if not may_change(self) or get(store, CLAIM, n) ~= self.claim then
        return nil, "not owner"
    elseif is_taken and claims.is_spent(grants, self.queue.max_attempts) or grants == GRANTS - 1 then
        local buried, err = change(self, DEAD * GRANTS + grants)
        return buried, buried and "dead" or err
    end
    local due = C.holdfast_now() + delay
    local code = claims.set_due(store, n, grants, due)
    if code ~= OK then
        return nil, reason(code)
    end
    if change(self, ASIDE * GRANTS + grants)  -- fails if another worker has taken the job, which was due
       and delay == 0 and not store.candidates[1] then
        store.candidates[1] = { number = n, claim = ASIDE * GRANTS + grants, due = due }
    end
    local nothing = claims.new_number(store)
    if nothing then
        add(store, CLAIM, nothing, NOTHING * GRANTS)
    end
    return true
end


-- Makes the lease end `seconds` from now (default: the queue's lease). Returns true, or nil and an error of done(), or
-- "no memory".
function Job.touch(self, seconds)
    check_receiver(self, "touch", job_mt)
    local store, n = self.queue.store, self.number
    seconds = seconds or self.queue.lease
    if seconds then
        core.check_time(seconds, "seconds", "touch", 2)
    end
    if not may_change(self) or get(store, CLAIM, n) ~= self.claim then
        return nil, "not owner"
    elseif seconds then
        self.has_due = true
        local code = claims.set_due(store, n, self.claim % GRANTS, C.holdfast_now() + seconds)
        if code ~= OK then
            return nil, reason(code)
        end
    end
    if get(store, CLAIM, n) == self.claim then
        return true
    end
    return nil, "not owner"
end


-- Detaches the job from this Lua state: for `seconds`, every program that knows the job's number and token can change
-- it. Then the job can be taken again. Returns true, or nil and an error of touch().
function Job.detach(self, seconds)
    check_receiver(self, "detach", job_mt)
    core.check_time(seconds, "seconds", "detach", 2)
    local touched, err = self:touch(seconds)
    if not touched then
        return nil, err
    end
    local claim = DETACHED * GRANTS + self.claim % GRANTS
    touched, err = change(self, claim)
    self.claim = touched and claim or self.claim
    return touched, err
end


-- Returns the job's fencing token. Each later taker of the job gets a higher token.
function Job.token(self)
    check_receiver(self, "token", job_mt)
    return self.claim % GRANTS
end


-- --- what is in the queue ---

-- Returns the number of jobs that takers have not seen yet.
function _M.len(self)
    check_receiver(self, "len")
    return counts.waiting(self.store)
end


-- Returns the job with this number if it is ready, delayed or dead or, given the job's token, detached. Otherwise
-- returns nil and "not found", "not owner" (the job is taken, or has another token) or another error.
function _M.job(self, number, token)
    check_receiver(self, "job")
    if not whole(number) then
        checks.bad_argument("number", WHOLE, number)
    end
    local claim, code = get(self.store, CLAIM, number)
    local owner = floor((claim or NOTHING * GRANTS) / GRANTS)
    if owner == VOID or owner == NOTHING then
        return nil, code and reason(code) or "not found"
    elseif claim >= FIRST_WORKER or token ~= claim % GRANTS and (token or claim >= FIRST_TAKEN) then
        return nil, "not owner"
    end
    local job, err, unreadable = new_job(self, number, claim, true)
    return job or unreadable, not job and (err or "not found") or nil
end


-- Returns at most `max_count` (default 100) dead jobs, the oldest first. A job's method done deletes it, and retry puts
-- it back.
function _M.dead(self, max_count)
    check_receiver(self, "dead")
    local numbers, jobs = {}, {}
    claims.each(self.store.claims, C.holdfast_scan, CLAIM, math.huge, function (_, n)
        local claim = get(self.store, CLAIM, n)
        if claim and floor(claim / GRANTS) == DEAD then
            numbers[#numbers + 1] = { n, claim }
        end
    end, self.store)
    sort(numbers, function (a, b) return a[1] < b[1] end)
    for i = 1, min(#numbers, checks.read_max(max_count, 100)) do
        jobs[#jobs + 1] = new_job(self, numbers[i][1], numbers[i][2], true)
    end
    return jobs
end


-- Returns a table of counts: ready, delayed, taken, dead, and oldest, the seconds since the first ready job was pushed;
-- workers: how many jobs each living worker has, by pid.
function _M.stats(self)
    check_receiver(self, "stats")
    return counts.all(self.store)
end


return _M
