-- Provides the environment and the log of the program that this Lua state belongs to, and says whether it is nginx.

local ffi = require "ffi"

local C, ffi_str = ffi.C, ffi.string
local ipairs, pairs, pcall, rawget, require, tostring, type = ipairs, pairs, pcall, rawget, require, tostring, type

local ngx = rawget(_G, "ngx")
local vim = rawget(_G, "vim")

-- The maximum number of texts that are remembered, so that a program with ever-changing texts does not fill the memory.
local MOST_WARNINGS = 100
local warned, warnings = {}, 0

local _M = {}

-- The name is specific to holdfast, so it does not conflict with other declarations. If this file is loaded again, the
-- name is already declared.
pcall(ffi.cdef, 'char *holdfast_getenv(const char *name) __asm__("secure_getenv");')


-- Returns the value of an environment variable, or nil. In a process with more rights than its caller (set-uid,
-- set-gid, file capabilities), always returns nil. There, os.getenv would let the caller choose the library.
function _M.getenv(name)
    local value = C.holdfast_getenv(name)
    return value ~= nil and ffi_str(value) or nil
end


local function write(text)
    if type(ngx) == "table" and ngx.log and ngx.WARN then
        ngx.log(ngx.WARN, text)
    elseif type(vim) == "table" and vim.schedule and vim.notify then
        vim.schedule(function () vim.notify(text, vim.log.levels.WARN) end)
    else
        io.stderr:write(text, "\n")
    end
end


-- Writes a line to the program's log. Never raises an error, even if the program has closed its standard error.
function _M.warn(text)
    pcall(write, "holdfast: " .. text)
end


-- Writes each text only once per Lua state. Use it for code that is probably a mistake, but works with lua-resty-lock.
function _M.warn_once(text)
    if not warned[text] and warnings < MOST_WARNINGS then
        warned[text] = true
        warnings = warnings + 1
        _M.warn(text)
    end
end


-- The functions that a light thread needs for waiting. Lua code in nginx's thread pool has none of them, so a wait
-- there blocks the thread.
local NEEDED = {
    socket = { "tcp" }, thread = { "spawn" }, timer = { "at" }, worker = { "exiting" },
}


local function has_functions()
    if type(ngx.sleep) ~= "function" or type(ngx.get_phase) ~= "function" or type(ngx.log) ~= "function" then
        return false
    end
    for part, names in pairs(NEEDED) do
        for _, name in ipairs(names) do
            if type(ngx[part]) ~= "table" or type(ngx[part][name]) ~= "function" then
                return false
            end
        end
    end
    return true
end


-- Returns whether this is nginx, and not a program with a stand-in named `ngx`, such as a unit test or a command-line
-- tool. With a stand-in, locks work as in a plain script. A stand-in may raise an error for a missing field.
local function is_nginx()
    local ok, has = pcall(has_functions)
    if type(ngx) ~= "table" or not ok or not has then
        return false
    end
    local err
    ok, err = pcall(require, "ngx.semaphore")
    if not ok then
        _M.warn_once("this ngx has no semaphores, so a wait for a lock blocks the process: "
                     .. tostring(err):match("^[^\n]*"))
        return false
    end
    return true
end


_M.is_nginx = is_nginx()

return _M
