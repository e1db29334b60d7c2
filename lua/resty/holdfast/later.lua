-- Loads modules at their first use in a Lua state that lasts for only one request. With lua_code_cache off, nginx
-- creates such a state for each request, and loading all modules takes longer than most requests.
--
-- Other states load all modules immediately, so that no later call has to read a file. By then, another version may
-- have replaced the file, or the process may have no free descriptor.

local is_nginx = require("resty.holdfast.program").is_nginx

local error, ipairs, loaded, pairs, pcall = error, ipairs, package.loaded, pairs, pcall
local require, type = require, type

-- The phases whose Lua state lasts for more than one request.
local LASTING = { exit_worker = true, init = true, init_worker = true, timer = true }

local _M = {}


-- Returns whether the state may last for only one request. A worker runs init_by_lua only in such a state; for other
-- states, the master runs init_by_lua. Without the code cache, the first modules are always loaded by the handler of a
-- request. With the code cache, this may also happen.
local function is_brief()
    if not is_nginx then
        return false
    end
    local phase = ngx.get_phase()  -- luacheck: ignore 113
    if phase == "init" then
        local known, process = pcall(require, "ngx.process")
        return known and type(process) == "table" and process.type() == "worker"
    end
    return not LASTING[phase]
end

local brief = is_brief()

-- The functions that load the modules that a brief state has not loaded yet.
local pending = {}


-- Returns the module. After a failure, removes the marks that require() leaves in package.loaded, because require()
-- would refuse to try again.
function _M.load(module)
    local ok, result = pcall(require, module)
    if ok then
        return result
    end
    for name, mark in pairs(loaded) do
        if type(mark) == "userdata" and name:find("^resty%.holdfast%.") then
            loaded[name] = nil
        end
    end
    error(result, 0)
end


-- Returns a function of the module, which is the field with this name or the result of field(module). In a brief state,
-- returns a function that loads the module at its first call.
function _M.fn(module, field)
    local function resolve()
        if type(field) == "string" then
            return _M.load(module)[field]
        end
        return field(_M.load(module))
    end
    if not brief then
        return resolve()
    end
    local fn
    pending[#pending + 1] = function () fn = fn or resolve() end
    return function (...)
        if not fn then
            fn = resolve()
        end
        return fn(...)
    end
end


-- Calls fn() now or, in a brief state, when the remaining modules are loaded. Returns whether fn() was called now.
function _M.call(fn)
    if not brief then
        fn()
        return true
    end
    pending[#pending + 1] = fn
    return false
end


-- Loads the remaining modules. A module that cannot be loaded now is loaded at its first use.
local function load_all()
    brief = false
    local rest = pending
    pending = {}
    for _, fn in ipairs(rest) do
        if not pcall(fn) then
            pending[#pending + 1] = fn
        end
    end
end


-- Counts the objects that class.new creates in a brief state, and the calls to the methods in `names`, which take a
-- lock. A second object or a second call suggests that the state lasts for more than one request. Counting only objects
-- would not be enough, because a worker may use one object for all requests.
local seen = {}

-- Replaces class[name] by a function that counts each call as a use. `use`: "made" or "taken".
local function count(class, name, use)
    local method = class[name]
    local function counting(...)
        if seen[use] and #pending > 0 then
            load_all()
        end
        seen[use] = true
        return method(...)
    end
    class[name] = counting
    pending[#pending + 1] = function ()
        if class[name] == counting then
            class[name] = method
        end
    end
end

function _M.count_uses(class, names)
    if not brief then
        return
    end
    count(class, "new", "made")
    for _, name in ipairs(names) do
        count(class, name, "taken")
    end
end


return _M
