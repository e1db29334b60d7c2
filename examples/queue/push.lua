-- Puts emails into the queue for some seconds, and prints the number of emails.
--
--   luajit push.lua SECONDS

local queue = require "resty.holdfast.queue"
local scheduler = require "resty.holdfast.scheduler"

-- While 100 emails are ready, push() waits.
local mails = assert(queue.open("mails", { size = "1m", persist = true, max = 100 }))

local ends, count = scheduler.now() + tonumber(arg[1]), 0
while scheduler.now() < ends do
    count = count + 1
    assert(mails:push({ to = "customer" .. count .. "@example.org" }, { timeout = 60 }))
end
print(count)
