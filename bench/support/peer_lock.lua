-- A lock on ngx.shared that imitates lua-resty-lock 0.09, for machines without lua-resty-lock. The code was written for
-- this benchmark. It has the same interface, makes the same two calls to the dictionary and waits in the same steps. A
-- lock consists of the same objects: a table, a cdata with a finaliser, and a key and a dictionary that the finaliser
-- finds by their numbers.

local ffi = require "ffi"

local ffi_new = ffi.new
local max = math.max
local min = math.min
local ngx = ngx  -- luacheck: ignore 113
local setmetatable = setmetatable
local shared = ngx.shared
local sleep = ngx.sleep

local _M = { _VERSION = "in the manner of 0.09" }
local mt = { __index = _M }

-- Objects by number. kept[0] begins the list of reusable numbers; 0 or nil ends the list.
local kept = {}


local function keep(object)
    local number = kept[0]
    if number and number ~= 0 then
        kept[0] = kept[number]
    else
        number = #kept + 1
    end
    kept[number] = object
    return number
end


local function forget(number)
    kept[number] = kept[0]
    kept[0] = number
end


local function collect(state)
    if state.key > 0 then
        local key = kept[state.key]
        forget(state.key)
        state.key = 0
        kept[state.dict]:delete(key)
    end
    forget(state.dict)
end


local state_type = ffi.metatype("struct { int key; int dict; }", { __gc = collect })


function _M.new(_, dict_name, opts)
    local dict = shared[dict_name]
    if not dict then
        return nil, "dictionary not found"
    end
    local exptime, timeout, step, ratio, max_step = 30, 5, 0.001, 2, 0.5
    if opts then
        exptime = opts.exptime or exptime
        timeout = min(opts.timeout or timeout, exptime)
        step = min(opts.step or step, timeout)
        ratio = opts.ratio or ratio
        max_step = opts.max_step or max_step
    end
    local state = ffi_new(state_type)
    state.dict = keep(dict)
    return setmetatable({
        state = state,
        dict = dict,
        exptime = exptime,
        timeout = timeout,
        step = step,
        ratio = ratio,
        max_step = max_step,
    }, mt)
end


local function wait_for(self, key)
    local dict, exptime, timeout, step = self.dict, self.exptime, self.timeout, self.step
    local elapsed = 0
    while elapsed < timeout do
        sleep(step)
        elapsed = elapsed + step
        local ok, err = dict:add(key, true, exptime)
        if ok then
            self.state.key = keep(key)
            return elapsed
        end
        if err ~= "exists" then
            return nil, err
        end
        step = min(max(0.001, step * self.ratio), timeout - elapsed, self.max_step)
    end
    return nil, "timeout"
end


function _M.lock(self, key)
    if not key then
        return nil, "nil key"
    end
    local state = self.state
    if state.key > 0 then
        return nil, "locked"
    end
    local ok, err = self.dict:add(key, true, self.exptime)
    if ok then
        state.key = keep(key)
        return 0
    end
    if err ~= "exists" then
        return nil, err
    end
    return wait_for(self, key)
end


function _M.unlock(self)
    local state = self.state
    if state.key == 0 then
        return nil, "unlocked"
    end
    local key = kept[state.key]
    forget(state.key)
    state.key = 0
    local ok, err = self.dict:delete(key)
    if not ok then
        return nil, err
    end
    return 1
end


return _M
