-- Queries Redis, the backend that has the articles. This module implements Redis's protocol itself, because one command
-- needs little code. A larger site would use lua-resty-redis.

-- The number of seconds by which each call is delayed. Without this delay, Redis on the same machine would answer so
-- fast that nobody would have to wait.
local FAR_AWAY = 0.02

local SOCKET = "unix:" .. ngx.config.prefix() .. "redis.sock"
local TIMEOUT_MS = 5000
local IDLE_MS = 10000
local IDLE_CONNECTIONS = 50

local _M = {}


-- Returns the value of a key, nil if there is none, or nil and the reason on failure.
local function get(connection, key)
    local ok, err = connection:send("GET " .. key .. "\r\n")
    if not ok then
        return nil, err
    end
    local line
    line, err = connection:receive()
    if not line then
        return nil, err
    end
    local length = tonumber(line:match("^%$(-?%d+)$"))
    if not length then
        return nil, line
    end
    if length < 0 then
        return nil
    end
    local value
    value, err = connection:receive(length + 2)
    return value and value:sub(1, length), err
end


-- Returns the text of an article, nil if there is none, or nil and the reason on failure.
function _M.fetch(name)
    local connection = ngx.socket.tcp()
    connection:settimeout(TIMEOUT_MS)
    local ok, err = connection:connect(SOCKET)
    if not ok then
        return nil, "cannot connect to Redis: " .. err
    end
    ngx.sleep(FAR_AWAY)
    local text
    text, err = get(connection, "article:" .. name)
    if err then
        connection:close()
        return nil, "Redis: " .. err
    end
    connection:setkeepalive(IDLE_MS, IDLE_CONNECTIONS)
    return text
end


return _M
