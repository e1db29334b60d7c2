-- Counts what is in a queue, for programs that use it and for the metrics. The functions work on the state of
-- queue.lua, or on a state that find() returns.

local claims = require "resty.holdfast.queue.claims"
local core = require "resty.holdfast.core"
local shdict = require "resty.shdict"

local C, at, get = core.C, claims.at, claims.get
local floor, huge, max, min = math.floor, math.huge, math.max, math.min

local BUFFER, OK = core.BUFFER, core.OK
local ASIDE, CLAIM, DEAD, GRANTS, KEY_SIZE = claims.ASIDE, claims.CLAIM, claims.DEAD, claims.GRANTS, claims.KEY_SIZE
local NEXT, NOTHING, TAIL, VALUE = claims.NEXT, claims.NOTHING, claims.TAIL, claims.VALUE

local _M = {}


-- Returns the state of the queue whose dictionary of claims has this name, or nil if there is no such queue. Creates
-- nothing.
function _M.find(name)
    local own = name:match("^(.+)%.claims$")
    local jobs, all = own and shdict.find(own), own and shdict.find(name)
    local store = jobs and all and { name = own, jobs = jobs[1], claims = all[1], scanned = 0 }
    return store and get(store, NEXT) and get(store, TAIL) and store or nil
end


-- Returns the number of jobs that takers have not seen yet.
function _M.waiting(store)
    local first, tail = get(store, NEXT), get(store, TAIL)
    return first and tail and max(tail - first + 1, 0) or 0
end


-- Returns the seconds since job `n` was pushed, or 0 if there is no such job.
function _M.age(store, n)
    local value = core.enter_value()
    local code = C.holdfast_get(store.jobs, at(VALUE, n), KEY_SIZE, value)
    local flags = (code == OK or code == BUFFER) and value.flags
    core.leave()
    return flags and (floor(C.holdfast_now() * 10) - floor(flags / 2)) % 2 ^ 31 / 10 or 0
end


-- Returns the seconds since the push of the oldest job that takers have not seen yet, or 0 if there is no such job.
function _M.oldest(store)
    local n = get(store, NEXT)
    return n and (get(store, CLAIM, n) or GRANTS) < GRANTS and _M.age(store, n) or 0
end


-- Returns a table of counts: ready, delayed, taken, dead, and oldest, the seconds since the first ready job was pushed;
-- workers: how many jobs each living worker has, by pid.
function _M.all(store)
    local now, pids = C.holdfast_now(), {}
    local counts, first = { ready = 0, delayed = 0, taken = 0, dead = 0, oldest = 0, workers = {} }, nil
    claims.each(store.claims, C.holdfast_scan, CLAIM, huge, function (_, n)
        local claim = get(store, CLAIM, n) or NOTHING * GRANTS
        local what = claim >= claims.DETACHED * GRANTS and "taken" or claim < GRANTS and "ready"
        if floor(claim / GRANTS) == ASIDE then
            what = claims.due_of(store, n, claim) > now and "delayed" or "ready"
        elseif floor(claim / GRANTS) == DEAD then
            what = "dead"
        end
        if what then
            counts[what] = counts[what] + 1
        end
        local owner = floor(claim / GRANTS)
        if what == "ready" then
            first = min(first or n, n)
        elseif what == "taken" and owner > claims.LAST_STATE then
            pids[owner] = pids[owner] or claims.pid_of(store, owner) or 0
            counts.workers[pids[owner]] = (counts.workers[pids[owner]] or 0) + 1
        end
    end, store)
    counts.workers[0] = nil  -- the jobs of workers whose pids are unknown
    counts.oldest = first and _M.age(store, first) or 0
    return counts
end


return _M
