-- How many entries a dictionary takes before it refuses one or gives up another for it.

local _M = {}


-- options.bytes: length of the strings that are stored; 0: numbers.
function _M.run(host, options)
    local text = ("v"):rep(options.bytes)
    for _, side in ipairs(host.sides) do
        local dict = side.dict("bench_fill")
        local count = 0
        repeat
            local value = options.bytes > 0 and text or count
            local ok, _, forcible = dict:set(("k%08d"):format(count), value)
            local full = not ok or forcible
            if not full then
                count = count + 1
            end
        until full
        host.emit("memory", side.name, dict:capacity(), count)
    end
end


return _M
