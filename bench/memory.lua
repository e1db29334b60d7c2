-- How many entries a dictionary takes before it refuses one or gives up another for it.

local _M = {}


function _M.run(host)
    for _, side in ipairs(host.sides) do
        local dict = side.fill()
        local count = 0
        repeat
            local ok, _, forcible = dict:set(("k%08d"):format(count), count)
            local full = not ok or forcible
            if not full then
                count = count + 1
            end
        until full
        host.emit("memory", side.name, dict:capacity(), count)
    end
end


return _M
