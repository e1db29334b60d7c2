-- Works three times under a lock that all processes with this script share. Run the script with `embed` or `holdfast
-- run`:
--
--   embed --dict jobs=100k worker.lua worker.lua

local sleep = sleep or require("resty.holdfast.scheduler").sleep  -- luacheck: read globals sleep
local lock = assert(require("resty.lock"):new("jobs"))

for round = 1, 3 do
    local elapsed = assert(lock:lock("nightly backup"))
    print(("round %d, waited for %.1f s"):format(round, elapsed))
    sleep(0.1)
    assert(lock:unlock())
end
