-- Serves articles from a cache. If several requests, in any worker, need the same missing article, the lock lets only
-- one of them query the backend. The steps come from lua-resty-lock's manual.

local backend = require "backend"
local resty_lock = require "resty.lock"

local cache = ngx.shared.cache

-- The expiry time of the lock in seconds, which is longer than any call to the backend takes.
local EXPTIME = 10

local _M = {}


local function fail(status, what, err)
    ngx.log(ngx.ERR, what, ": ", err)
    return ngx.exit(status)
end


-- Queries the backend, and stores the answer. If the article does not exist, stores false.
local function load(name)
    local text, err = backend.fetch(name)
    if err then
        return nil, err
    end
    text = text or false
    local ok, reason = cache:set(name, text)
    if not ok then
        ngx.log(ngx.WARN, "not cached: ", reason)
    end
    return text
end


local function answer(text)
    if not text then
        return ngx.exit(ngx.HTTP_NOT_FOUND)
    end
    ngx.print(text)
end


function _M.show(name)
    local text = cache:get(name)
    if text ~= nil then
        return answer(text)
    end

    local lock, err = resty_lock:new("my_locks", { exptime = EXPTIME })
    if not lock then
        return fail(500, "no lock", err)
    end
    local elapsed
    elapsed, err = lock:lock(name)
    if not elapsed then
        return fail(503, "lock", err)
    end

    -- Another request may have stored the article while this request waited.
    text = cache:get(name)
    if text == nil then
        text, err = load(name)
    end

    local ok, reason = lock:unlock()
    if not ok then
        ngx.log(ngx.WARN, "unlock: ", reason)
    end
    if err then
        return fail(502, "backend", err)
    end
    answer(text)
end


function _M.show_unlocked(name)
    local text, err = cache:get(name)
    if text == nil then
        text, err = load(name)
    end
    if text == nil then
        return fail(502, "backend", err)
    end
    answer(text)
end


return _M
