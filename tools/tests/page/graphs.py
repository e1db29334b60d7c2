"""Programs whose wait graphs tools/tests/page/run checks, and expressions that it evaluates in the page."""

LOCKS = """
local lock = require "resty.lock"
local scheduler = require "resty.holdfast.scheduler"
assert(require("resty.shdict").open("jobs", { size = "256k" }))
local worker = tonumber(os.getenv "HOLDFAST_WORKER")
local kept = {}
local function take(key)
    kept[#kept + 1] = assert(lock:new("jobs", { exptime = 100000, timeout = 100000 }))
    assert(kept[#kept]:lock(key))
end
"""

# Each worker except the first waits for the previous worker's lock.
CHAIN = LOCKS + """
take("step " .. worker)
scheduler.sleep(1)
if worker > 0 then take("step " .. worker - 1) end
scheduler.run()
while true do scheduler.sleep(1) end
"""

# 20 tasks of one process take turns with three locks. None waits for ever.
TASKS = LOCKS + """
for i = 1, 20 do
    scheduler.spawn(function ()
        while true do
            local one = lock:new("jobs", { exptime = 100000, timeout = 100000 })
            assert(one:lock("key " .. i % 3))
            local other = i % 3 < 2 and lock:new("jobs", { exptime = 100000, timeout = 100000 })
            if other then assert(other:lock("key 2")) end
            scheduler.sleep(5)
            if other then other:unlock() end
            one:unlock()
        end
    end)
end
scheduler.run()
"""

# Two commands, as in two lines of a crontab.
COMMANDS = ["sleep 1; exec '{0}' lock jobs mail -- true", "sleep 1; exec '{0}' lock jobs reports -- true"]

# Each worker holds two keys, and its tasks wait for both keys of every other worker.
TANGLE = LOCKS + """
take("a " .. worker)
take("b " .. worker)
scheduler.sleep(1)
for other = 0, 3 do
    if other ~= worker then
        scheduler.spawn(take, "a " .. other)
        scheduler.spawn(take, "b " .. other)
    end
end
scheduler.run()
"""

# Finds points of edges that are inside a box or outside the picture.
ASTRAY = """(() => {
  const svg = document.querySelector('#graph svg'), view = svg.viewBox.baseVal, found = [];
  const boxes = [...svg.querySelectorAll('g rect')].map(one => one.getBBox());
  for (const edge of svg.querySelectorAll('path.edge')) {
    const length = edge.getTotalLength();
    for (let at = 0; at <= length; at += 2) {
      const p = edge.getPointAtLength(at);
      if (p.x < view.x || p.y < view.y || p.x > view.x + view.width || p.y > view.y + view.height)
        found.push(['outside', p.x, p.y]);
      for (const box of boxes)
        if (p.x > box.x + 0.5 && p.x < box.x + box.width - 0.5 && p.y > box.y && p.y < box.y + box.height)
          found.push(['in a box', p.x, p.y]);
    }
  }
  return JSON.stringify(found.slice(0, 3));
})()"""

LABELS = """JSON.stringify([...document.querySelectorAll('#graph g')].map(
  one => [one.querySelector('text').textContent, one.getBoundingClientRect().left,
          one.getBoundingClientRect().right]))"""

# Finds boxes of the three columns on the left that are not visible without scrolling.
OUTSIDE = """(() => {
  const boxes = [...document.querySelectorAll('#graph g')].map(one => [one, one.getBoundingClientRect()]);
  const columns = [...new Set(boxes.map(([, box]) => Math.round(box.left)))].sort((one, other) => one - other);
  const found = boxes.filter(([, box]) => columns.indexOf(Math.round(box.left)) < 3 && box.right > innerWidth);
  return JSON.stringify(columns.length < 3 ? columns : found.map(([one]) => one.textContent));
})()"""

RED = "document.querySelectorAll('#graph .edge.certain').length"
YELLOW = "document.querySelectorAll('#graph .edge.possible').length"
NOTE = "document.getElementById('graph-note').textContent"
HOLDER_OF_FIRST = \
    "[...document.querySelectorAll('#held-rows tr')].find(one => one.textContent.startsWith('step 0')).textContent"
HOT = "document.getElementById('hot-rows').textContent"
WAITERS = "[...document.querySelectorAll('#tiles div')].find(one => one.textContent.startsWith('Waiters')).textContent"
