-- In nginx, times of values count from the loop's own time, like those of ngx.shared and of timers; elsewhere from the
-- system's.

local C = require("resty.holdfast.core").C
local ffi = require "ffi"

local pcall = pcall


-- Absent outside of nginx; another clock before nginx 1.13.10, which the library reports.
pcall(function ()
    C.holdfast_follow_clock(ffi.C.holdfast_nginx_msec)
end)
