-- A grant contains the lease of a lock object, and has a finaliser. If an object is dropped while it holds a lock, its
-- grant lives until the garbage collector calls the finaliser, which releases the lock. Creating a grant takes ten
-- times as long as creating the object. So an object has a grant only while it holds a lock, and the pool reuses
-- grants.
--
-- key_id is the number of the key in the memo, or 0 if no lock is held or requested. task_id is the recorded holder
-- (tasks/task_ids.lua).

local core = require "resty.holdfast.core"
local ffi = require "ffi"
local task_ids = require "resty.holdfast.tasks.task_ids"

local C = core.C
local base = task_ids.base
local ffi_metatype, ffi_new = ffi.metatype, ffi.new

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
        local key = memo[key_id]
        C.holdfast_unlock_for_certain(grant.dict, key, #key, grant.lease)
        grant.key_id = 0
        unref_obj(key_id)
        local task_id = grant.task_id
        grant.task_id = NOBODY
        count(task_id, -1)
    end
end


local grant_type = ffi_metatype(
    "struct { int32_t key_id; uint32_t task_id; holdfast_dict *dict; holdfast_lease lease; }", { __gc = collect })

-- The maximum number of grants in the pool. A pool with more grants than a program uses between two collections would
-- waste memory. The benchmark "new + lock + unlock" depends on this limit.
local MOST_SPARE = 1024
-- The count is a field of the table, because after an assignment to a variable of this file, compiled code reloads the
-- file's other variables. The nil makes LuaJIT keep the grants in the table's array part.
local spare = { nil, count = 0 }


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


-- Counts a grant that the library has filled, and its recorded holder. If the stack overflows here or in empty(), this
-- happens before the counting.
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
        local last = spare.count
        if last < MOST_SPARE then
            spare.count = last + 1
            spare[last + 1] = grant
        end
    end
end
_M.give_back = give_back


-- Returns a grant to the pool after its release.
function _M.empty(grant)
    local task_id = grant.task_id
    grant.task_id = NOBODY
    if task_id == base then
        task_ids.unnamed = task_ids.unnamed - 1
    elseif task_id ~= NOBODY then
        task_ids.named = task_ids.named - 1
    end
    give_back(grant)
end


return _M
