-- A grant outlives the lock object until the collector has released what the object still held. Making one, with its
-- finaliser, costs ten times as much as making the object: objects have a grant only while they hold a lock, and pass
-- it on after that. key_id: the number of the key in the memo; 0 when nothing is held, nor asked for. agent: who is
-- named its holder (agents.lua).

local agents = require "resty.holdfast.agents"
local core = require "resty.holdfast.core"
local ffi = require "ffi"
local memos = require "resty.holdfast.lock.memo"

local C = core.C
local base = agents.base
local ffi_metatype = ffi.metatype
local ffi_new = ffi.new
local memo = memos.memo
local ref_obj = memos.ref_obj
local unref_obj = memos.unref_obj

local NOBODY = agents.NOBODY

local _M = {}


local function count(agent, change)
    if agent == base then
        agents.unnamed = agents.unnamed + change
    elseif agent ~= NOBODY then
        agents.named = agents.named + change
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
        local agent = grant.agent
        grant.agent = NOBODY
        count(agent, -1)
    end
end


local grant_type = ffi_metatype("struct { int32_t key_id; uint32_t agent; holdfast_dict *dict; holdfast_lease lease; }",
                                { __gc = collect })

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
function _M.hold(grant, agent)
    grant.agent = agent
    if agent == base then
        agents.unnamed = agents.unnamed + 1
    elseif agent ~= NOBODY then
        agents.named = agents.named + 1
    end
end


-- The library has named another one.
function _M.pass(grant, agent)
    local before = grant.agent
    count(agent, 1)
    grant.agent = agent
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
    local agent = grant.agent
    grant.agent = NOBODY
    if agent == base then
        agents.unnamed = agents.unnamed - 1
    elseif agent ~= NOBODY then
        agents.named = agents.named - 1
    end
    give_back(grant)
end


return _M
