-- In a process of nginx the times of values count from the loop's own time, as those of ngx.shared do and those of its
-- timers. Elsewhere from the system's.

local C = require("resty.holdfast.core").C
local ffi = require "ffi"

local pcall = pcall


-- Not there where there is no nginx; and of another clock before nginx 1.13.10, which the library says.
pcall(function ()
    C.holdfast_follow_clock(ffi.C.holdfast_nginx_msec)
end)
