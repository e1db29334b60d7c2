-- A grant contains the lease of a lock object, and has a finaliser. If an object is dropped while it holds a lock, its
-- grant lives until the garbage collector calls the finaliser, which releases the lock. Creating a grant takes ten
-- times as long as creating the object. So an object has a grant only while it holds a lock, and the pool reuses
-- grants.
--
-- key_id is the number of the key in the memo, or 0 if no lock is held or requested. task_id is the recorded holder
-- (tasks/task_ids.lua).
--
-- A grant in the field `bound` of a lock object holds nothing, but knows its key, and the place of the key's lock in
-- memory (holdfast_bound). The object keeps it there between two locks of the same key.

local core = require "resty.holdfast.core"
local ffi = require "ffi"
local task_ids = require "resty.holdfast.tasks.task_ids"

local C = core.C
local base = task_ids.base
local ffi_metatype, ffi_new, istype = ffi.metatype, ffi.new, ffi.istype

local NOBODY = task_ids.NOBODY

-- The memo contains Lua values, indexed by number. A finaliser gets only its cdata, which can store a number but no Lua
-- value. Free numbers form a list that begins at memo[FREE_LIST_REF] and ends with 0 or nil.
local FREE_LIST_REF = 0
local memo = {}

local _M = { memo = memo }


-- Returns the number of a value, or -1 for nil.
local function ref_obj(obj)
    if obj == nil then
        return -1
    end
    local ref = memo[FREE_LIST_REF]
    if ref and ref ~= 0 then
        memo[FREE_LIST_REF] = memo[ref]
    else
        ref = #memo + 1
    end
    memo[ref] = obj
    return ref
end
_M.ref_obj = ref_obj


local function unref_obj(ref)
    if ref >= 0 then
        memo[ref] = memo[FREE_LIST_REF]
        memo[FREE_LIST_REF] = ref
    end
end
_M.unref_obj = unref_obj


local function count(task_id, change)
    if task_id == base then
        task_ids.unnamed = task_ids.unnamed + change
    elseif task_id ~= NOBODY then
        task_ids.named = task_ids.named + change
    end
end


-- Releases a grant. This is its finaliser. The library compares the lease with the holder's lease, so it releases no
-- lock of another holder or of a parent process.
local function collect(grant)
    local key_id = grant.key_id
    if key_id > 0 then
        if grant.lease.owner ~= 0 then
            local key = memo[key_id]
            C.holdfast_unlock_for_certain(grant.dict, key, #key, grant.lease)
        end
        grant.key_id = 0
        unref_obj(key_id)
        local task_id = grant.task_id
        grant.task_id = NOBODY
        count(task_id, -1)
    end
end


local FIELDS = "struct { int32_t key_id; uint32_t task_id; holdfast_dict *dict; %s; }"
local grant_type = ffi_metatype(FIELDS:format "holdfast_lease lease", { __gc = collect })
-- A grant with room for a place. Other grants have none, because every waiting coroutine has a grant.
local bound_type = ffi_metatype(FIELDS:format "union { holdfast_lease lease; holdfast_bound bound; }",
                                { __gc = collect })

-- The maximum number of grants in the pool. A pool with more grants than a program uses between two collections would
-- waste memory. The benchmark "new + lock + unlock" depends on this limit.
local MOST_SPARE = 1024
-- The count is a field of the table, because after an assignment to a variable of this file, compiled code reloads the
-- file's other variables. The nil makes LuaJIT keep the grants in the table's array part.
local spare = { nil, count = 0 }
local spare_bound = { nil, count = 0 }


-- Returns a grant for an attempt. If an error occurs at any later point, even a stack overflow, the collector releases
-- the lease, unless the library has cleared it.
function _M.take(handle, key)
    local last = spare.count
    local grant = spare[last]
    if grant then
        spare[last] = nil
        spare.count = last - 1
    else
        grant = ffi_new(grant_type)
    end
    grant.dict = handle
    grant.key_id = ref_obj(key)
    return grant
end


-- Does the same as take() for a lock whose place is to be remembered.
function _M.take_bound(handle, key)
    local last = spare_bound.count
    local grant = spare_bound[last]
    if grant then
        spare_bound[last] = nil
        spare_bound.count = last - 1
    else
        grant = ffi_new(bound_type)
    end
    grant.dict = handle
    grant.bound.place[0] = 0
    grant.key_id = ref_obj(key)
    return grant
end


-- Returns whether the grant knows the place of its lock.
function _M.is_bound(grant)
    return istype(bound_type, grant) and grant.bound.place[0] ~= 0
end


-- Counts a grant that the library has filled, and its recorded holder. If the stack overflows here or in empty(), it
-- does so before anything is counted.
function _M.hold(grant, task_id)
    grant.task_id = task_id
    if task_id == base then
        task_ids.unnamed = task_ids.unnamed + 1
    elseif task_id ~= NOBODY then
        task_ids.named = task_ids.named + 1
    end
end


-- Updates the counts after the library has recorded a new holder.
function _M.pass(grant, task_id)
    local before = grant.task_id
    count(task_id, 1)
    grant.task_id = task_id
    count(before, -1)
end


-- Returns a grant that holds no lock to the pool. A grant that the collector has finalised is not reused, because its
-- finaliser will not run again.
local function give_back(grant)
    local key_id = grant.key_id
    if key_id > 0 then
        grant.key_id = 0
        unref_obj(key_id)
        local pool = istype(bound_type, grant) and spare_bound or spare
        local last = pool.count
        if last < MOST_SPARE then
            pool.count = last + 1
            pool[last + 1] = grant
        end
    end
end
_M.give_back = give_back


-- Counts the release of a grant.
local function release(grant)
    local task_id = grant.task_id
    grant.task_id = NOBODY
    if task_id == base then
        task_ids.unnamed = task_ids.unnamed - 1
    elseif task_id ~= NOBODY then
        task_ids.named = task_ids.named - 1
    end
end
_M.release = release


-- Returns a grant to the pool after its release.
function _M.empty(grant)
    release(grant)
    give_back(grant)
end


return _M
