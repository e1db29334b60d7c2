-- Lines in the host's log: of likely mistakes that worked with lua-resty-lock, each text once per Lua state, and what a
-- program wants to be told.

local ngx = rawget(_G, "ngx")
local vim = rawget(_G, "vim")
local pcall, type = pcall, type

local _M = {}

-- Programs that compose their texts must not fill the memory.
local MOST = 100
local told, count = {}, 0


local function write(text)
    if type(ngx) == "table" and ngx.log and ngx.WARN then
        ngx.log(ngx.WARN, text)
    elseif type(vim) == "table" and vim.schedule and vim.notify then
        vim.schedule(function () vim.notify(text, vim.log.levels.WARN) end)
    else
        io.stderr:write(text, "\n")
    end
end


-- Raises nothing: the program may have closed its standard error.
function _M.tell(text)
    pcall(write, "holdfast: " .. text)
end


function _M.once(text)
    if not told[text] and count < MOST then
        told[text] = true
        count = count + 1
        _M.tell(text)
    end
end


return _M
