-- Deadlines in order: a binary heap of tables. Each is in one heap at most and holds its place there, so that taking it
-- out before its time does not search. Equal deadlines come in the order in which they were added.

local floor = math.floor
local setmetatable = setmetatable

local _M = {}
_M.__index = _M


function _M.new()
    return setmetatable({ count = 0, added = 0 }, _M)
end


local function before(a, b)
    local a_deadline, b_deadline = a.deadline, b.deadline
    return a_deadline < b_deadline or (a_deadline == b_deadline and a.timer_order < b.timer_order)
end


local function put(heap, place, item)
    heap[place] = item
    item.timer_place = place
end


local function rise(heap, place, item)
    while place > 1 do
        local above = floor(place / 2)
        if not before(item, heap[above]) then
            break
        end
        put(heap, place, heap[above])
        place = above
    end
    put(heap, place, item)
end


local function sink(heap, place, item)
    local count = heap.count
    while true do
        local below = 2 * place
        if below > count then
            break
        end
        if below < count and before(heap[below + 1], heap[below]) then
            below = below + 1
        end
        if not before(heap[below], item) then
            break
        end
        put(heap, place, heap[below])
        place = below
    end
    put(heap, place, item)
end


-- Adds an item that is in no heap.
function _M.add(heap, item, deadline)
    item.deadline = deadline
    item.timer_order = heap.added
    heap.added = heap.added + 1
    heap.count = heap.count + 1
    rise(heap, heap.count, item)
end


-- Takes the item out if it is in.
function _M.remove(heap, item)
    local place = item.timer_place
    if not place then
        return
    end
    item.timer_place = nil
    local count = heap.count
    local last = heap[count]
    heap[count] = nil
    heap.count = count - 1
    if last == item then
        return
    end
    if before(last, item) then
        rise(heap, place, last)
    else
        sink(heap, place, last)
    end
end


-- The item with the earliest deadline, or nil.
function _M.first(heap)
    return heap[1]
end


return _M
