-- A grant outlives the lock object until the collector has released what the object still held. Making one, with its
-- finaliser, costs ten times as much as making the object: objects have a grant only while they hold a lock, and pass
-- it on after that. key_id: the number of the key in the memo; 0 when nothing is held, nor asked for. task_id: who is
-- named its holder (task_ids.lua).

local core = require "resty.holdfast.core"
local ffi = require "ffi"
local refs = require "resty.holdfast.lock.refs"
local task_ids = require "resty.holdfast.tasks.task_ids"

local C = core.C
local base = task_ids.base
local ffi_metatype, ffi_new = ffi.metatype, ffi.new
local memo, ref_obj, unref_obj = refs.memo, refs.ref_obj, refs.unref_obj

local NOBODY = task_ids.NOBODY

local _M = {}


local function count(task_id, change)
    if task_id == base then
        task_ids.unnamed = task_ids.unnamed + change
    elseif task_id ~= NOBODY then
        task_ids.named = task_ids.named + change
    end
end


-- The library compares the lease with the holder's: a lock that has another owner by now, and one that this process
-- has from its parent, stay as they are. A lock that cannot be released now lapses.
local function collect(grant)
    local key_id = grant.key_id
    if key_id > 0 then
        local key = memo[key_id]
        C.holdfast_unlock(grant.dict, key, #key, grant.lease)
        grant.key_id = 0
        unref_obj(key_id)
        local task_id = grant.task_id
        grant.task_id = NOBODY
        count(task_id, -1)
    end
end


local grant_type = ffi_metatype(
    "struct { int32_t key_id; uint32_t task_id; holdfast_dict *dict; holdfast_lease lease; }", { __gc = collect })

-- More than a program takes and gives back between two collections are not worth their memory.
local MOST_SPARE = 1024
local spare, spare_count = {}, 0


-- For what is about to be asked for: an error at any point after that, even of a stack that overflows, leaves it to
-- the collector, which does nothing if there is nothing: the library has cleared the lease then.
function _M.take(handle, key)
    local grant = spare[spare_count]
    if grant then
        spare[spare_count] = nil
        spare_count = spare_count - 1
    else
        grant = ffi_new(grant_type)
    end
    grant.dict = handle
    grant.key_id = ref_obj(key)
    return grant
end


-- The library has filled the lease, and named that holder. Where the stack is too short for a field of a grant, here or
-- in empty(), nothing has been counted yet.
function _M.hold(grant, task_id)
    grant.task_id = task_id
    if task_id == base then
        task_ids.unnamed = task_ids.unnamed + 1
    elseif task_id ~= NOBODY then
        task_ids.named = task_ids.named + 1
    end
end


-- The library has named another one.
function _M.pass(grant, task_id)
    local before = grant.task_id
    count(task_id, 1)
    grant.task_id = task_id
    count(before, -1)
end


-- What was asked for was not given. What the collector has had before is not used again: it has no finaliser any more.
local function give_back(grant)
    local key_id = grant.key_id
    if key_id > 0 then
        grant.key_id = 0
        unref_obj(key_id)
        if spare_count < MOST_SPARE then
            spare_count = spare_count + 1
            spare[spare_count] = grant
        end
    end
end
_M.give_back = give_back


-- Nothing is held any more.
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
