-- The protocol of queues, which decides which worker has which job.
--
-- Each job has a number N, which no other job gets. All keys that belong to the job contain N, and their values are
-- never moved to other keys. The job's *claim* is one number, owner * GRANTS + grants, and decides everything. Each
-- transition is one commit:
--
--   push     add the claim READY, or ASIDE for a delay or a priority, after storing the value and the due time
--   take     READY, or a claim that may be taken over -> this worker, grants + 1
--   done     this worker -> no claim; the job's other keys are deleted afterwards
--   retry    this worker -> ASIDE; the due time is stored first
--   detach   this worker -> DETACHED; the due time is stored first
--   bury     this worker, a dead worker, or DETACHED -> DEAD, after max_attempts grants
--   void     add the claim VOID, because the producer of N does not add its claim
--   nothing  add the claim NOTHING, because the caller's own push failed, or to wake a taker
--
-- Invariants:
--
-- 1. A number below `next` has, or had, a claim other than READY, and no claim at or above `next` was ever deleted. So
--    the claim of `next` is the first READY claim, or is missing. `next` grows by compare-and-swap, after its claim was
--    found to exist and not to be READY. If a job that was ASIDE ends before `next` has passed it, its claim becomes
--    NOTHING.
-- 2. A number up to `tail` belongs to one producer. If the claim of N is missing and N > tail, the queue is empty. If N
--    <= tail, its producer is between two steps, or dead. After 10 ms a taker voids N. The producer's add then fails,
--    and the producer takes another N. The claim VOID of a dead producer stays, because nobody knows that the producer
--    is dead. A producer that fails, and whose N is the last number and has no claim, gives N to the next producer.
-- 3. A claim may be taken over if its due time has come, or if its owner is a dead worker. A due time counts only
--    together with the number of grants for which it was stored, so an old due time has no effect.
-- 4. `earliest` is at most the due time of any claim. To add a due time, store it, then write `earliest` (even if it is
--    already low enough), then commit. A scan raises `earliest` only if the version of `earliest` is the same as before
--    the scan.
-- 5. A worker is a Lua state that has the lock of its number, until its process ends. A dead worker's lock stays listed
--    until a scan has found no claim of that worker. So no death is missed, even if nobody waits at that time. If
--    another program removes the lock, a later scan of all claims finds that their owner does not exist.
-- 6. If a number below `next` has no claim, its value and due time are garbage: a worker died in the middle of `done`.
--
-- So a process may die at any point. If it dies before the commit of a push, the push has not happened. If it dies
-- after it has claimed a job and before `next` grows, the next taker advances `next`. A scan finds everything else that
-- was left behind. Claims change in place or are deleted, so a transition does not need memory. The dictionary NAME
-- contains the values, NAME.claims the claims, and NAME.workers the locks. NAME.claims has room for all claims of a
-- full NAME, so a full queue can be emptied.

local core = require "resty.holdfast.core"
local ffi = require "ffi"

local C, enter, grow, leave, reason = core.C, core.enter, core.grow, core.leave, core.reason
local ffi_cast, ffi_copy, ffi_new, ffi_sizeof, ffi_str = ffi.cast, ffi.copy, ffi.new, ffi.sizeof, ffi.string
local floor, max, min, next, pairs = math.floor, math.max, math.min, next, pairs
local sort, tonumber, type = table.sort, tonumber, type

local BUFFER, DIFFERS, EXISTS, LOCKED, NOT_FOUND = core.BUFFER, core.DIFFERS, core.EXISTS, core.LOCKED, core.NOT_FOUND
local NOT_A_NUMBER, NOT_OWNER, OK, REMOVED = core.NOT_A_NUMBER, core.NOT_OWNER, core.OK, core.REMOVED
local NIL, NUMBER, SAFE_ADD, SAFE_SET = core.NIL, core.NUMBER, core.SAFE_ADD, core.SAFE_SET

local GRANTS = 2 ^ 20  -- leaves room for 2 ^ 33 owners; each Lua state that takes jobs is a new owner
local NEVER = 2 ^ 53
-- How long a producer may take between two steps, and how long a busy taker waits before it looks for dead workers and
-- due times again, in seconds.
local PATIENCE, LOOK_EVERY = 0.01, 0.005
-- The number of seconds by which each key that a scan has read delays the next scan. The duration of the scan would be
-- the wrong measure: the busier the machine, the longer the jobs of dead workers would wait.
local LOOK_PER_KEY = 2e-6
-- The interval, in seconds, at which a Lua state examines all claims even if it has noticed no death. It thus finds the
-- claims of workers whose locks another program has removed, for example with `holdfast doctor --repair`. Each key that
-- the last scan has read lengthens the interval, so that scans take less than 1 % of the time.
local FULL_EVERY, FULL_PER_KEY = 1, 2e-4
-- The maximum sleep of a waiting taker, in seconds. A producer that is stopped between two steps delays others for this
-- time.
local LONGEST_SLEEP = 0.4
-- The owners that are not workers. The numbers of workers are higher. A claim whose owner is DETACHED or higher is
-- taken.
local READY, ASIDE, DEAD, VOID, NOTHING, DETACHED, LAST_STATE = 0, 1, 2, 3, 4, 5, 15

-- A key consists of its kind and its number.
local VALUE, CLAIM, DUE, UNIQUE, WORKER = 0x6a, 0x63, 0x64, 0x75, 0x77  -- the letters j c d u w
local EARLIEST, NEXT, TAIL, WORKERS = 0x65, 0x6e, 0x74, 0x69            -- the letters e n t i
local KEY_SIZE = 9
local key_type = ffi.typeof("struct { char pad[7]; char kind; double number; }[1]")
local box = ffi_new(key_type)
local key = ffi_cast("const char *", box) + 7

-- Arguments and results of the current call. No other Lua code runs before they are read.
local expected, desired, found = ffi_new("holdfast_value"), ffi_new("holdfast_value"), ffi_new("holdfast_value")
local holder, number = ffi_new("holdfast_holder"), ffi_new("double[1]")
local version = ffi_new("holdfast_version_of_key[1]")
expected.type = NUMBER

local _M = { ASIDE = ASIDE, DEAD = DEAD, DETACHED = DETACHED, GRANTS = GRANTS, KEY_SIZE = KEY_SIZE,
             LAST_STATE = LAST_STATE, NEXT = NEXT, NOTHING = NOTHING, TAIL = TAIL, VOID = VOID,
             CLAIM = CLAIM, DUE = DUE, UNIQUE = UNIQUE, VALUE = VALUE }


-- Returns the key in scratch memory, for one call.
local function at(kind, n)
    box[0].kind, box[0].number = kind, n or 0
    return key
end
_M.at = at


-- The functions below that take `kind` and `n` work on numbers in the dictionary of claims.

-- Returns whether another program has stored a number to which 1 cannot be added. A loop over such a number would not
-- end.
local function is_bad(value)
    return not (value > -NEVER and value < NEVER)
end


-- Returns the number and its flags, nil if there is no number, or nil and the code after a failure.
local function get(self, kind, n)
    local code, value = C.holdfast_get(self.claims, at(kind, n), KEY_SIZE, found), found.number
    if code == OK and found.type == NUMBER and (not is_bad(value) or kind == EARLIEST and value == NEVER) then
        return value, found.flags
    elseif code == OK or code == BUFFER then
        code = NOT_A_NUMBER
    end
    return nil, code ~= NOT_FOUND and code or nil
end
_M.get = get


local function store(self, op, kind, n, value, flags)
    return C.holdfast_store(self.claims, op, at(kind, n), KEY_SIZE, NUMBER, nil, 0, value, 0, flags or 0, nil)
end


function _M.add(self, kind, n, value)
    return store(self, SAFE_ADD, kind, n, value)
end


-- Replaces `old` with `new`, or deletes the key if `new` is nil. Returns the code.
local function swap(self, kind, n, old, new)
    expected.number = old
    desired.type, desired.number = new and NUMBER or NIL, new or 0
    return C.holdfast_cas(self.claims, at(kind, n), KEY_SIZE, expected, desired, 0, nil)
end
_M.swap = swap


-- Creates the counters of a new or flushed queue. They begin at the current time, so that no number is used again.
local function begin(self)
    local first = floor(C.holdfast_now() * 1e7) + 1
    store(self, SAFE_ADD, EARLIEST, 0, NEVER)
    store(self, SAFE_ADD, WORKERS, 0, LAST_STATE)
    local code = store(self, SAFE_ADD, NEXT, 0, first)
    if code == OK or code == EXISTS then
        first = get(self, NEXT) or first
        code = store(self, SAFE_ADD, TAIL, 0, first - 1)
    end
    return code == EXISTS and OK or code
end


-- Adds `by` to a counter. Returns the sum, or nil and the code.
local function incr(self, kind, by)
    local code = C.holdfast_incr(self.claims, at(kind), KEY_SIZE, by, 0, 0, 0, number, nil)
    if code == NOT_FOUND then
        code = begin(self)
        if code == OK then
            return incr(self, kind, by)
        end
    end
    if code == OK and kind ~= EARLIEST and is_bad(number[0]) then
        code = NOT_A_NUMBER
    end
    return code == OK and number[0] or nil, code
end


-- Returns a number for a push, if fewer than `room` jobs are ready. Returns nil if the queue is full, or nil and the
-- code after a failure.
local function number_below(self, room)
    local code
    repeat
        local first, tail = get(self, NEXT), get(self, TAIL)
        if not first or not tail then
            return incr(self, TAIL, 1)
        elseif tail - first + 1 >= room then
            return nil
        end
        code = swap(self, TAIL, 0, tail, tail + 1)
        if code == OK then
            return tail + 1
        end
    until code ~= DIFFERS and code ~= NOT_FOUND
    return nil, code
end


-- Returns a number for a push. A limit of `room` ready jobs is optional. Like every function used by calls that do not
-- wait, it has no loop, so that LuaJIT compiles the whole call.
function _M.new_number(self, room)
    if room then
        return number_below(self, room)
    end
    return incr(self, TAIL, 1)
end


-- If `n` is the last number and has no claim, takes it back, so that the next push gets it. Returns whether it did so.
function _M.take_back(self, n)
    if get(self, CLAIM, n) ~= nil or swap(self, TAIL, 0, n, n - 1) ~= OK then
        return false
    end
    incr(self, NEXT, 0)  -- changes its version, for pushes that wait for room
    return true
end


-- Makes `earliest` at most `due`, and changes its version (invariant 4). Returns the code.
local function lower_earliest(self, due)
    local earliest = get(self, EARLIEST)
    if not earliest or earliest <= due then
        local sum, code = incr(self, EARLIEST, 0)
        if sum and sum > due and sum <= NEVER then  -- a scan has raised it in the meantime
            return lower_earliest(self, due)
        end
        return code
    end
    local code = swap(self, EARLIEST, 0, earliest, due)
    if code == DIFFERS then
        return lower_earliest(self, due)
    end
    return code
end


-- Stores the time from which the claim with this number of grants may be taken over. Returns the code.
function _M.set_due(self, n, grants, due)
    local code = store(self, SAFE_SET, DUE, n, due, grants)
    if code == OK then
        return lower_earliest(self, due)
    end
    return code
end


-- --- workers ---

-- Returns whether this Lua state is still the worker that it was; a forked child is not.
local function is_worker(self)
    local lease = self.lease
    if not lease then
        return false
    end
    local code = C.holdfast_lock_remaining(self.workers, at(WORKER, self.worker), KEY_SIZE, lease, number)
    return code ~= NOT_OWNER and code ~= REMOVED
end
_M.is_worker = is_worker


-- Makes this Lua state a worker with a new number.
local function become_worker(self)
    local code
    self.candidates, self.look_at = {}, 0
    repeat
        local id
        id, code = incr(self, WORKERS, 1)
        if id and not (id > LAST_STATE and id < NEVER / GRANTS and id % 1 == 0) then
            id, code = nil, NOT_A_NUMBER
        end
        if not id then
            return nil, reason(code)
        end
        local lease = ffi_new("holdfast_lease")  -- without a finaliser, so it ends with the process (invariant 5)
        code = C.holdfast_lock_try(self.workers, at(WORKER, id), KEY_SIZE, 0, 0, 0, lease)
        if code == OK then
            self.worker, self.lease = id, lease
            return id
        end
    until code ~= LOCKED
    return nil, reason(code)
end


-- Returns this worker's number, or nil and the reason.
function _M.join(self)
    if is_worker(self) then
        return self.worker
    end
    return become_worker(self)
end


-- --- scans ---

-- Calls fn(kind, number, self, arg) for each key of the dictionary that begins with the byte `kind`; 0 means all keys.
-- Omits numbers above `last`, unless they have a due time. Returns whether it could read all keys.
local function each(handle, scan, kind, last, fn, self, arg)
    local cursor, copy = ffi_new("uint64_t[1]"), ffi_new(key_type)
    local length = kind == 0 and 0 or 1
    repeat
        local frame = enter()
        local code = scan(handle, cursor, 256, at(kind), length, frame.value, frame.count)
        while code == BUFFER do
            grow(frame)
            code = scan(handle, cursor, 256, at(kind), length, frame.value, frame.count)
        end
        self.scanned = self.scanned + frame.count[0]
        local packed = frame.value.data
        for _ = 1, code == OK and frame.count[0] or 0 do
            local size = ffi_cast("const int32_t *", packed)[0]
            if size == KEY_SIZE then
                ffi_copy(ffi_cast("char *", copy) + 7, packed + 4, KEY_SIZE)
                local found_kind, n = copy[0].kind, copy[0].number
                if n <= last or found_kind == DUE then
                    fn(found_kind, n, self, arg)
                end
            end
            packed = packed + 4 + size
        end
        leave()
        if code ~= OK then
            return false
        end
    until cursor[0] == 0
    return true
end
_M.each = each


-- Returns whether the worker is alive, or may be alive. A scan asks once for each worker.
local function is_alive(self, owner, known)
    if known[owner] == nil then
        local code = C.holdfast_lock_holder(self.workers, at(WORKER, owner), KEY_SIZE, holder)
        known[owner] = code ~= NOT_FOUND and (code ~= OK or holder.alive ~= 0)
    end
    return known[owner]
end


-- Returns the worker's pid, or nil if the worker is dead or unknown. Makes only calls that observers can also make.
function _M.pid_of(self, owner)
    local holders, waiters = ffi_new("uint32_t[1]"), ffi_new("uint32_t[1]")
    local code = self.workers and C.holdfast_look(self.workers, at(WORKER, owner), KEY_SIZE, holder, 1, holders, nil,
                                                  ffi_sizeof("holdfast_waiter"), 0, waiters)
    local is_there = code == OK and holders[0] > 0 and C.holdfast_process_lives(holder.owner) ~= NOT_FOUND
    return is_there and holder.pid or nil
end


-- Returns the time from which the claim may be taken over. The due time of a dead job, which its last worker stored,
-- means nothing.
local function due_of(self, n, claim)
    local due, grants = get(self, DUE, n)
    return due and grants == claim % GRANTS and floor(claim / GRANTS) ~= DEAD and due or NEVER
end
_M.due_of = due_of


-- Deletes what is stored for a number without a job, but not a unique key that now belongs to another job.
local function clear(self, kind, n)
    if kind == UNIQUE then
        local unique = self.dict:get(ffi_str(at(UNIQUE, n), KEY_SIZE))
        if type(unique) == "string" then
            expected.number, desired.type = n, NIL
            C.holdfast_cas(self.jobs, unique, #unique, expected, desired, 0, nil)
        end
    end
    C.holdfast_delete(kind == DUE and self.claims or self.jobs, at(kind, n), KEY_SIZE)
end
_M.clear = clear


-- Examines one key that a scan has read, and the claim of its number.
local function examine(kind, n, self, scan)
    local claim, failed = get(self, CLAIM, n)
    if not claim and failed then
        scan.earliest = 0
    elseif not claim or claim == VOID * GRANTS then
        -- Other kinds may be unique keys of this size.
        if (kind == VALUE or kind == UNIQUE or kind == DUE) and (claim or n < scan.first) then
            clear(self, kind, n)
        elseif kind == DUE then  -- the due time of a push that has not committed
            scan.earliest = min(scan.earliest, get(self, DUE, n) or NEVER)
        end
    elseif claim == NOTHING * GRANTS then
        if n < scan.first then
            swap(self, CLAIM, n, claim)
        end
    elseif kind == DUE or kind == CLAIM then
        local owner, due = floor(claim / GRANTS), due_of(self, n, claim)
        if kind == DUE then
            scan.earliest = min(scan.earliest, due)
        end
        if scan.all and owner > LAST_STATE and not is_alive(self, owner, scan.known) then
            scan.owners[owner], due = true, min(due, 0)
        end
        if due <= scan.now then
            scan.list[#scan.list + 1] = { number = n, claim = claim, due = due }
        end
    end
end


local function later_first(a, b)
    return a.due > b.due or a.due == b.due and a.number > b.number
end


-- Finds the claims that may be taken over. With `all`, also finds the claims of dead workers, and deletes garbage.
-- Returns the set of dead workers that own a claim, or false if it could not read everything. A worker that was dead
-- before the call has claimed no number above `next`, except numbers with a due time.
local function find_claims(self, now, all)
    local scan = { now = now, all = all, earliest = NEVER, known = { [self.worker] = true }, owners = {}, list = {} }
    C.holdfast_key_version(self.claims, at(EARLIEST), KEY_SIZE, version)
    scan.first = get(self, NEXT) or 0
    local complete = each(self.claims, C.holdfast_scan, all and 0 or DUE, scan.first, examine, self, scan)
                     and (not all or each(self.jobs, C.holdfast_scan, 0, scan.first, examine, self, scan))
    sort(scan.list, later_first)
    self.candidates = scan.list
    if complete then
        C.holdfast_store_unless_changed(self.claims, at(EARLIEST), KEY_SIZE, version, NUMBER, nil, 0, scan.earliest, 0,
                                        0, nil)
    end
    return complete and scan.owners
end


local function note_dead(_, id, self, dead)
    if id ~= self.worker and not is_alive(self, id, {}) then
        dead[id] = true
    end
end


-- Looks for dead workers and for due times.
local function look(self, now)
    local dead = {}
    self.scanned = 0
    each(self.workers, C.holdfast_scan_locks, WORKER, NEVER, note_dead, self, dead)
    if next(dead) or now >= (self.full_at or 0) then
        local owners = find_claims(self, now, true)
        self.full_at = owners and now + FULL_EVERY + self.scanned * FULL_PER_KEY or self.full_at
        for id in pairs(owners and dead or {}) do
            if not owners[id] then
                C.holdfast_delete(self.workers, at(WORKER, id), KEY_SIZE)
            end
        end
    elseif (get(self, EARLIEST) or 0) <= now then
        find_claims(self, now, false)
    end
    self.look_at = now + max(LOOK_EVERY, self.scanned * LOOK_PER_KEY)
end


-- --- takes ---

-- Returns whether a job with this number of grants becomes a dead job instead of being granted again.
local function is_spent(grants, limit)
    return grants % limit == 0 or grants == GRANTS - 1
end
_M.is_spent = is_spent


-- Takes a job that another owner had. Returns its number and the new claim. `limit`: the number of grants after which a
-- job whose worker died becomes a dead job.
local function take_over(self, now, limit)
    local list = self.candidates
    for i = #list, 1, -1 do
        local found_claim = list[i]
        list[i] = nil
        local n, claim = found_claim.number, found_claim.claim
        local grants = claim % GRANTS
        local has_more_time = found_claim.due > 0 and due_of(self, n, claim) > now
        if not has_more_time and claim >= DETACHED * GRANTS and is_spent(grants, limit) then
            swap(self, CLAIM, n, claim, DEAD * GRANTS + grants)
        elseif not has_more_time then
            local mine = self.worker * GRANTS + grants + 1
            if swap(self, CLAIM, n, claim, mine) == OK then
                return n, mine
            end
        end
    end
end


-- Returns whether takers can go past the number `n`, which has no claim. Voids the number if its producer does not add
-- the claim in time.
local function pass(self, n)
    local tail = get(self, TAIL)
    if not tail or n > tail then
        self.gap = nil
        return false
    elseif get(self, NEXT) ~= n then
        return true  -- the job was finished in the meantime
    end
    local now = C.holdfast_now()
    if self.gap ~= n then
        self.gap, self.gap_since = n, now
    elseif now - self.gap_since >= PATIENCE then
        local code = store(self, SAFE_ADD, CLAIM, n, VOID * GRANTS)
        return code == OK or code == EXISTS
    end
    return false
end


-- Takes the job at `next`. Returns its number and claim. Otherwise returns nil, the code and the number.
local function try_first(self)
    local n, failed = get(self, NEXT)
    if not n then
        return nil, failed or begin(self)
    end
    local mine = self.worker * GRANTS + 1
    local code = swap(self, CLAIM, n, READY, mine)
    if code == OK then
        swap(self, NEXT, 0, n, n + 1)
        return n, mine
    end
    return nil, code, n
end


-- Takes the first ready job after one attempt has failed. Returns its number and claim. Otherwise returns nil, the code
-- after a failure, and the number whose claim is missing.
local function find_first(self, code, n)
    while true do
        if code == DIFFERS then
            swap(self, NEXT, 0, n, n + 1)
            if get(self, CLAIM, n) == NOTHING * GRANTS then
                swap(self, CLAIM, n, NOTHING * GRANTS)
            end
        elseif code == NOT_FOUND then
            if not pass(self, n) then
                return nil, nil, n
            end
        elseif code ~= OK then
            return nil, code
        end
        local got, answer, tried = try_first(self)
        if got then
            return got, answer
        end
        code, n = answer, tried
    end
end


local function take_first(self)
    local n, answer, tried = try_first(self)
    if n then
        return n, answer
    end
    return find_first(self, answer, tried)
end


-- Takes a job that another owner had or, if there is none, the first ready job. With `first`, prefers the first ready
-- job. Returns the results of take_first(), and true if another owner had the job. REQUIRES: join().
function _M.take(self, limit, first)
    local n, claim, missing
    if first then
        n, claim, missing = take_first(self)
        if n or claim then
            return n, claim
        end
    end
    local now = C.holdfast_now()
    if now >= self.look_at then
        look(self, now)
    end
    if #self.candidates > 0 then
        n, claim = take_over(self, now, limit)
        if n then
            return n, claim, true
        end
    end
    if first then
        return nil, nil, missing
    end
    return take_first(self)
end


-- Returns the version of a number, or nil and the reason.
function _M.version(self, kind, n)
    local code = C.holdfast_key_version(self.claims, at(kind, n), KEY_SIZE, version)
    return code == OK and tonumber(version[0].number) or nil, reason(code)
end


-- Returns how long a taker may sleep if it found no job, and no claim for the number.
function _M.pause(self, n)
    local until_look = max(get(self, EARLIEST) or 0, self.look_at) - C.holdfast_now()
    return max(0, min(until_look, self.gap == n and PATIENCE or LONGEST_SLEEP))
end


return _M
