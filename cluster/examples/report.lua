-- Reads the records of the workers, shows which worker had which lock when, and finds errors: two workers with the same
-- lock at the same time, a grant whose fencing token is not above the last one, a write that the store accepted too
-- late.
--
--   luajit cluster/examples/report.lua JOURNAL CERTIFICATE     exits with 0 if there are no errors

local COLUMNS = 72

local held, killed, events, refused = { certificate = {}, job = {} }, {}, {}, 0
local first, last, machines = math.huge, 0, 0
-- The locks that workers hold now, by pid and key.
local open = {}

for line in io.lines(arg[1]) do
    local what, key, machine, worker, pid, time, token = line:match(
        "^(%a+) (%S+) (%d+) (%d+) (%d+) ([%d.]+) (%d+)$")
    time = tonumber(time)
    if what == "begin" then
        local one = { machine = tonumber(machine), worker = worker, pid = pid, from = time, token = tonumber(token) }
        open[pid .. key] = one
        table.insert(held[key], one)
        first, machines = math.min(first, time), math.max(machines, one.machine)
    elseif what == "end" then
        local one = open[pid .. key]
        one.to = time
        last = math.max(last, time)
    elseif what == "killed" then
        killed[pid] = time
    elseif what == "refused" then
        refused = refused + 1
    elseif not what then
        local at, text = line:match("^event ([%d.]+) (.*)")
        table.insert(events, { at = tonumber(at), text = text })
    end
end


local function column(time)
    return math.floor((time - first) / (last - first) * COLUMNS * 0.9999) + 1
end


-- Prints a line for each machine. Each column shows the worker that had the lock for the longest time.
local function draw(list)
    local rows = {}
    for machine = 1, machines do
        rows[machine] = {}
        for i = 1, COLUMNS do
            rows[machine][i] = { longest = 0, worker = "." }
        end
    end
    local width = (last - first) / COLUMNS
    for _, one in ipairs(list) do
        for i = column(one.from), math.min(column(one.to), COLUMNS) do
            local from = first + (i - 1) * width
            local part = math.min(one.to, from + width) - math.max(one.from, from)
            local cell = rows[one.machine][i]
            if part > cell.longest then
                cell.longest, cell.worker = part, one.worker
            end
        end
    end
    for machine, row in ipairs(rows) do
        local text = {}
        for i, cell in ipairs(row) do
            text[i] = cell.worker
        end
        print(("  machine %d  %s"):format(machine, table.concat(text)))
    end
end


-- Checks the grants in chronological order.
local function judge(list)
    table.sort(list, function (a, b) return a.from < b.from end)
    local found = { between = 0, inside = 0, overlaps = 0, disorder = 0 }
    local latest
    for _, one in ipairs(list) do
        one.to = one.to or math.max(one.from, killed[one.pid] or 0)
        if latest then
            local how = one.machine == latest.machine and "inside" or "between"
            found[how] = found[how] + 1
            found.overlaps = found.overlaps + (one.from < latest.to and 1 or 0)
            found.disorder = found.disorder + (one.token <= latest.token and 1 or 0)
        end
        latest = (not latest or one.to > latest.to) and one or latest
    end
    return found
end


-- Returns the number of writes, and how many of them came after a write with a higher token.
local function judge_store(path)
    local writes, stale, highest = 0, 0, 0
    for line in io.lines(path) do
        local token = tonumber(line:match("^%d+"))
        writes, stale, highest = writes + 1, stale + (token < highest and 1 or 0), math.max(highest, token)
    end
    return writes, stale
end


local total = { between = 0, inside = 0, overlaps = 0, disorder = 0 }
print(("Which worker of each machine had the lock: 0, 1 or 2; a dot: none. One column is %.2f s.")
      :format((last - first) / COLUMNS))
for _, key in ipairs { "certificate", "job" } do
    local found = judge(held[key])
    for name, value in pairs(found) do
        total[name] = total[name] + value
    end
    print(("\n%s: %d grants, passed on %d times between machines and %d times inside one"):format(key, #held[key],
        found.between, found.inside))
    draw(held[key])
end

local marks = {}
for i = 1, COLUMNS do
    marks[i] = " "
end
for i, event in ipairs(events) do
    marks[math.max(1, math.min(column(event.at), COLUMNS))] = string.char(96 + i)
end
print("             " .. table.concat(marks))
for i, event in ipairs(events) do
    print(("  %s %5.1f s  %s"):format(string.char(96 + i), event.at - first, event.text))
end

local writes, stale = judge_store(arg[2])
print(([[

passed to another machine    %d
passed on inside a machine   %d
overlaps                     %d
tokens that did not grow     %d
accepted writes              %d
late writes, refused         %d
late writes, accepted        %d]]):format(total.between, total.inside, total.overlaps, total.disorder, writes, refused,
    stale))
local good = total.overlaps + total.disorder + stale == 0 and total.between > 0 and total.inside > 0 and writes > 0
print(good and "\nNo two workers had the same lock at the same time, and no late write was accepted."
      or "\nThe demonstration has failed: see the counts above.")
os.exit(good and 0 or 1)
