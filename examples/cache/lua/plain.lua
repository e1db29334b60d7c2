-- Shows articles from ngx.shared. If an article is missing, every request for it queries Redis.

local backend = require "backend"

local articles = ngx.shared.plain

local _M = {}


function _M.show(name)
    local text = articles:get(name)
    if not text then
        local err
        text, err = backend.fetch(name)
        if err then
            ngx.log(ngx.ERR, "article ", name, ": ", err)
            return ngx.exit(ngx.HTTP_BAD_GATEWAY)
        end
        if not text then
            return ngx.exit(ngx.HTTP_NOT_FOUND)
        end
        articles:set(name, text, 3600)
    end
    ngx.print(text)
end


return _M
