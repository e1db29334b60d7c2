-- Sends emails from a queue. Start any number of senders.
--
--   luajit sender.lua LOG

local queue = require "resty.holdfast.queue"
local scheduler = require "resty.holdfast.scheduler"

-- Stands in for a mail server: takes 20 ms, and then writes a line to LOG.
local function send(mail, attempts)
    scheduler.sleep(0.02)
    local log, err = io.open(arg[1], "a")
    if not log then
        return nil, err
    end
    log:write(mail.to, " ", attempts, "\n")
    return log:close()
end

local mails = assert(queue.open("mails", { size = "1m", persist = true }))
while true do
    local job, err = mails:take()
    if job then
        if send(job.value, job.attempts) then
            assert(job:done())
        else
            assert(job:retry(60))       -- try again in a minute
        end
    elseif err ~= "timeout" then        -- there was no email for five seconds
        error(err)
    end
end
