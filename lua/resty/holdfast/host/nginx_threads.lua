-- Inspects the coroutines of nginx's light threads. This needs LuaJIT's C functions, because nginx reuses these
-- coroutines.

local ffi = require "ffi"

local co_running, ffi_cast = coroutine.running, ffi.cast
local getinfo, getlocal, getregistry, ipairs, pairs = debug.getinfo, debug.getlocal, debug.getregistry, ipairs, pairs
local pcall, rawequal, require, tonumber, tostring, type = pcall, rawequal, require, tonumber, tostring, type

-- The C functions, each in a separate declaration, because LuaJIT may lack some. lua_getexdata, in OpenResty's LuaJIT,
-- returns the request of a coroutine.
local DECLARATIONS = {
    "int lua_isyieldable(void *state);",
    "int lua_status(void *state);",
    "void *lua_getexdata(void *state);",
}

local SUSPENDED = 1

local address_type = ffi.typeof "uintptr_t"

local _M = {}

for _, declaration in ipairs(DECLARATIONS) do
    pcall(ffi.cdef, declaration)
end


-- Makes a function that calls LuaJIT's C function `name` for a coroutine. If LuaJIT lacks the C function, the new
-- function returns `otherwise`.
local function ask(name, otherwise)
    local known = pcall(function () return ffi.C[name] end)
    return function (co)
        local address = known and co and tonumber(tostring(co):match("0x%x+"))
        if not address then
            return otherwise
        end
        return ffi.C[name](ffi_cast("void *", ffi_cast(address_type, address)))
    end
end

local is_yieldable = ask("lua_isyieldable", 1)
local status = ask("lua_status", SUSPENDED)
local request = ask("lua_getexdata", nil)


-- Returns whether a yield of the caller reaches nginx. nginx hides coroutine.isyieldable.
function _M.can_yield()
    return is_yieldable(co_running()) ~= 0
end


-- A module of OpenResty that returns nginx's context for the running coroutine. LuaJIT can compile the call.
local has_context, context_of = pcall(require, "thread.exdata2")


-- Identifies the caller for task_ids.lua. nginx may reuse a coroutine, or its address, for another request. The
-- request's table distinguishes these uses.
function _M.identify()
    local context
    if has_context then
        context = context_of()
        context = context ~= nil and tonumber(ffi_cast(address_type, context)) or nil
    else
        context = co_running()
    end
    if context then
        return context, ngx.ctx
    end
end


-- The list in Lua's registry that keeps nginx's light threads alive until they end or are killed.
local kept


-- Returns the position of the coroutine in a list.
local function position_in(list, co)
    for position, value in pairs(list) do
        if value == co then
            return position
        end
    end
end


-- Returns the light thread's position in the kept list, or nil for a coroutine that runs inside a light thread.
local function position_of(co)
    if kept then
        return position_in(kept, co)
    end
    for key, list in pairs(getregistry()) do
        local position = type(key) == "userdata" and type(list) == "table" and position_in(list, co)
        if position then
            kept = list
            return position
        end
    end
end


-- Returns the argument `use` for is_alive and is_gone. `co` is the running coroutine.
function _M.use_of(co)
    return { request = request(co), position = position_of(co), context = ngx.ctx }
end


-- Returns whether a coroutine, which is not the running coroutine, will be resumed for the same use.
function _M.is_alive(co, use)
    if status(co) ~= SUSPENDED or request(co) ~= use.request then
        return false
    end
    return not use.position or kept[use.position] == co
end


-- Returns whether a coroutine will never run again for the same use. The coroutine may be the running coroutine, which
-- may now serve a different request. If a coroutine has resumed the running coroutine, it has stack frames but no
-- status.
function _M.is_gone(co, use)
    if co == co_running() then
        return use.context ~= ngx.ctx
    end
    if status(co) ~= SUSPENDED and getinfo(co, 0) and request(co) == use.request then
        return false
    end
    return not _M.is_alive(co, use)
end


-- Returns whether a function of the coroutine has the value in a local variable. nginx reuses coroutines and the memory
-- of requests, so the same coroutine may run a different request at the same address.
function _M.has_local(co, value)
    local level = 0
    while getinfo(co, level, "f") do
        local index = 1
        local name, found = getlocal(co, level, index)
        while name do
            if rawequal(found, value) then
                return true
            end
            index = index + 1
            name, found = getlocal(co, level, index)
        end
        level = level + 1
    end
    return false
end


return _M
