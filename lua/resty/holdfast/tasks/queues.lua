-- Deadlines in order: a binary heap of tables. A table is in one heap at most and knows its place there, so removing it
-- needs no search. Equal deadlines keep the order of being added.
--
-- The hook of a time limit may raise an error between any two steps. By the order of the steps it may leave an item
-- twice in the heap, or one behind its end, but loses none; remove and take_first cope with that.

local floor, setmetatable = math.floor, setmetatable

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
    local above = floor(place / 2)
    while place > 1 and before(item, heap[above]) do
        put(heap, place, heap[above])
        place, above = above, floor(above / 2)
    end
    put(heap, place, item)
end


local function sink(heap, place, item, count)
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


local function clear(heap, place)
    local count = heap.count
    if place > count then
        heap[place] = nil
        return
    end
    if place < count then
        local last = heap[count]
        if before(last, heap[place]) then
            rise(heap, place, last)
        else
            sink(heap, place, last, count - 1)
        end
    end
    heap.count = count - 1
    heap[count] = nil
end


-- Takes the item out, if it is in.
local function remove(heap, item)
    local place = item.timer_place
    if not place then
        return
    end
    item.timer_place = nil
    if heap[place] == item then
        clear(heap, place)
    end
end
_M.remove = remove


-- Adds an item; if it is in this heap, its deadline changes.
function _M.add(heap, item, deadline)
    if item.timer_place then
        remove(heap, item)
    end
    item.deadline = deadline
    item.timer_order = heap.added
    heap.added = heap.added + 1
    local place = heap.count + 1
    put(heap, place, item)
    heap.count = place
    rise(heap, place, item)
end


-- Takes out the item with the earliest deadline, whatever place it has noted.
function _M.take_first(heap)
    local item = heap[1]
    item.timer_place = nil
    clear(heap, 1)
    return item
end


-- The item with the earliest deadline, or nil.
function _M.first(heap)
    return heap[1]
end


return _M
