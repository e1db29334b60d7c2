-- The host of code that runs in a task of resty.holdfast.scheduler: only the task waits.

local scheduler = require "resty.holdfast.scheduler"

return {
    name = "scheduler",
    is_yieldable = scheduler.is_yieldable,
    now = scheduler.now,
    sleep = scheduler.sleep,
    wait = scheduler.wait,
}
