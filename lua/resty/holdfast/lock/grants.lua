-- A grant outlives the lock object until the collector has released what the object still held. Making one, with its
-- finaliser, costs ten times as much as making the object: objects have a grant only while they hold a lock, and pass
-- it on after that. key_id: the number of the key in the memo; 0 when nothing is held.

local agents = require "resty.holdfast.agents"
local core = require "resty.holdfast.core"
local ffi = require "ffi"
local memos = require "resty.holdfast.lock.memo"

local C = core.C
local ffi_metatype = ffi.metatype
local ffi_new = ffi.new
local memo = memos.memo
local ref_obj = memos.ref_obj
local unref_obj = memos.unref_obj

local _M = {}


-- The library compares the lease with the holder's: a lock that has another owner by now, and one that this process
-- has from its parent, stay as they are. A lock that cannot be released now lapses.
local function collect(grant)
    local key_id = grant.key_id
    if key_id > 0 then
        local key = memo[key_id]
        grant.key_id = 0
        unref_obj(key_id)
        agents.held = agents.held - 1
        C.holdfast_unlock(grant.dict, key, #key, grant.lease)
    end
end


local grant_type = ffi_metatype("struct { int32_t key_id; holdfast_dict *dict; holdfast_lease lease; }",
                                { __gc = collect })

local spare, spare_count = {}, 0


-- The caller gives it back, or fills it for who holds the lock.
function _M.take()
    local grant = spare[spare_count]
    if not grant then
        return ffi_new(grant_type)
    end
    spare[spare_count] = nil
    spare_count = spare_count - 1
    return grant
end


function _M.give_back(grant)
    spare_count = spare_count + 1
    spare[spare_count] = grant
end


-- From now on the collector releases what the lease stands for, unless `empty` comes first.
function _M.fill(grant, handle, key)
    grant.key_id = ref_obj(key)
    grant.dict = handle
    agents.held = agents.held + 1
end


-- Nothing is held any more.
function _M.empty(grant)
    local key_id = grant.key_id
    grant.key_id = 0
    unref_obj(key_id)
    agents.held = agents.held - 1
    spare_count = spare_count + 1
    spare[spare_count] = grant
end


return _M
