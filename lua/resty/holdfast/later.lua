-- Compiles modules at their first use, because compiling all of them takes longer than the rest of the start.
--
-- The files of these modules are read when this file is loaded. Later, a file might have been replaced by another
-- version, or the process might have no free descriptor. If a file cannot be read now, require() reads it at its first
-- use. This also happens if this file does not know its folder, because it was stripped.

local is_nginx = require("resty.holdfast.program").is_nginx

local collectgarbage, error, ipairs, loaded, loadstring = collectgarbage, error, ipairs, package.loaded, loadstring
local next, open, pcall, preload, require, type = next, io.open, pcall, package.preload, require, type
local getinfo, sethook = debug and debug.getinfo, debug and debug.sethook
local gethook = debug and debug.gethook or function () end

local MODULES = {
    "dictionary.admin", "dictionary.checks", "dictionary.tables", "dictionary.values", "dictionary.versions", "host",
    "host.none", "lock.all", "lock.contended", "lock.lock_info", "lock.options", "lock.renewal", "lock.with",
    "scheduler", "tasks.join", "tasks.queues", "tasks.traceback", "wait.parker", "wait.wait", "worker",
}
local HOSTS = is_nginx and { "host.nginx", "host.nginx_jobs", "host.nginx_threads" }
              or { "host.copas", "host.copas1", "host.cqueues", "host.luv", "host.neovim", "host.uv" }
local PREFIX = "resty.holdfast."
-- The mark in package.loaded of a module that is being loaded, as this one is now. In some builds, it is a number.
local MARK = loaded["resty.holdfast.later"]

local _M = {}


-- Makes require() compile this text of the module.
local function keep_text(module, path, text)
    preload[module] = function (...)
        local chunk, err = loadstring(text, "@" .. path)
        if not chunk then
            error(err, 0)
        end
        local result = chunk(...)
        preload[module] = nil  -- frees the text
        return result
    end
end


local function read_files(names)
    local folder = getinfo and getinfo(1, "S").source:match("^@(.*)later%.lua$")
    if not folder then
        return
    end
    for _, name in ipairs(names) do
        local path = folder .. name:gsub("%.", "/") .. ".lua"
        local file = open(path, "rb")
        local text = file and file:read("*a")
        if file then
            file:close()
        end
        if text then
            keep_text(PREFIX .. name, path, text)
        end
    end
end

read_files(MODULES)
read_files(HOSTS)


-- Removes the marks that require() leaves in package.loaded after a failure. With them, require() would refuse to try
-- again. Does not use pairs(): see lock/options.lua.
local function remove_marks()
    local name, value = next(loaded)
    while name ~= nil do
        if value == MARK and type(name) == "string" and name:sub(1, #PREFIX) == PREFIX then
            loaded[name] = nil
        end
        name, value = next(loaded, name)
    end
end


-- Returns the module. While it is loaded, the collector and hooks are off: a finaliser might need a module that is not
-- complete, and the error of a hook might prevent the removal of the marks.
function _M.load(module)
    local found = loaded[module]
    if found ~= nil and found ~= MARK then
        return found
    end
    local collects = collectgarbage("isrunning")
    local hook, events, count = gethook()
    local hooked = type(hook) == "function"
    if hooked then
        sethook()
    end
    if collects then
        collectgarbage("stop")
    end
    local ok, result = pcall(require, module)
    if not ok then
        remove_marks()
    end
    if collects then
        collectgarbage("restart")
    end
    if hooked then
        sethook(hook, events, count)
    end
    if not ok then
        error(result, 0)
    end
    return result
end


-- Returns a function that loads the module at its first call, and then calls a function of the module: the field with
-- this name, or the result of field(module).
function _M.fn(module, field)
    local fn
    return function (...)
        if not fn then
            local result = _M.load(module)
            fn = type(field) == "string" and result[field] or field(result)
        end
        return fn(...)
    end
end


return _M
