-- Shows articles. However many requests need a missing article, in all workers together, only one of them queries
-- Redis.

local backend = require "backend"
local cache = require "resty.holdfast.cache"

-- Times are in seconds. When an article expires, readers get the old text for up to another minute, so nobody waits
-- while it is loaded again.
local articles = assert(cache.new("articles", "my_cache", { ttl = 3600, neg_ttl = 10, stale_ttl = 60 }))

local _M = {}


function _M.show(name)
    local text, err = articles:get(name, nil, backend.fetch, name)
    if err then
        ngx.log(ngx.ERR, "article ", name, ": ", err)
        return ngx.exit(ngx.HTTP_BAD_GATEWAY)
    end
    if not text then
        return ngx.exit(ngx.HTTP_NOT_FOUND)
    end
    ngx.print(text)
end


-- Call this after the article was changed. After the call, no worker shows the old text.
function _M.changed(name)
    assert(articles:delete(name))
    ngx.print("ok")
end


return _M
