-- Tests the timers in resty.holdfast.tasks.queues, which are a heap of deadlines.

local timers = require("resty.holdfast.tasks.queues").timers


-- Returns the names of all items in the order of their deadlines.
local function drain(heap)
    local names = {}
    while heap:first() do
        local item = heap:first()
        heap:remove(item)
        names[#names + 1] = item.name
    end
    return table.concat(names)
end


-- Returns timers with an item for each letter, whose deadline is the letter's number. Also returns the items, indexed
-- by name.
local function filled(letters)
    local heap, items = timers.new(), {}
    for name in letters:gmatch(".") do
        items[name] = { name = name }
        heap:add(items[name], name:byte())
    end
    return heap, items
end


describe("timers", function ()
    it("come in the order of insertion if the deadlines are equal", function ()
        local heap = timers.new()
        for name in ("abcdefgh"):gmatch(".") do
            heap:add({ name = name }, 7)
        end
        assert.equal("abcdefgh", drain(heap))
    end)

    it("are gone when removed", function ()
        local heap, items = filled "abcde"
        heap:remove(items.a)
        heap:remove(items.c)
        heap:remove(items.e)
        heap:remove(items.e)
        assert.equal("bd", drain(heap))
        assert.is_nil(heap:first())
    end)

    it("have the last deadline if they are added again", function ()
        local heap, items = filled "abcd"
        heap:add(items.a, ("c"):byte() + 0.5)
        heap:add(items.d, 0)
        assert.equal("dbca", drain(heap))
    end)

    it("are removed in order", function ()
        local heap = timers.new()
        for name in ("cabd"):gmatch(".") do
            heap:add({ name = name }, name:byte())
        end
        local names = {}
        while heap:first() do
            names[#names + 1] = heap:take_first().name
        end
        assert.equal("abcd", table.concat(names))
        assert.equal(0, heap.count)
    end)

    describe("interrupted by a hook's error during a change", function ()
        local COUNT = 20

        before_each(function ()
            jit.off() -- compiled code does not call hooks
            jit.flush()
        end)

        after_each(function () jit.on() end)

        -- Returns the names of the missing items after an error at the nth step of work(heap, item), or nil if there
        -- are fewer steps.
        local function missing_after(n, work)
            local heap, items = timers.new(), {}
            for i = 1, COUNT do
                items[i] = { name = i }
                heap:add(items[i], i * 7 % COUNT)
            end
            local struck = false
            pcall(function ()
                debug.sethook(function ()
                    debug.sethook()
                    struck = true
                    error("time is over", 0)
                end, "", n)
                work(heap, items)
                debug.sethook()
            end)
            debug.sethook()
            heap:add({ name = "later" }, COUNT)
            if items.mine then
                heap:remove(items.mine)
            end
            local seen, taken = {}, 0
            while heap:first() do
                seen[heap:take_first()] = true
                taken = taken + 1
                assert.is_true(taken <= 2 * COUNT)
            end
            local missing = {}
            for i = 1, COUNT do
                if not seen[items[i]] and items[i] ~= items.mine then
                    missing[#missing + 1] = i
                end
            end
            return struck and missing or nil
        end

        for name, work in pairs {
            add = function (heap, items)
                items.mine = { name = "mine" }
                heap:add(items.mine, -1)
            end,
            remove = function (heap, items)
                items.mine = items[3]
                heap:remove(items.mine)
            end,
            take_first = function (heap, items)
                items.mine = heap:first()
                heap:take_first()
            end,
        } do
            it("by " .. name .. ", lose no other item and keep no item forever", function ()
                local n = 1
                local missing
                repeat
                    missing = missing_after(n, work)
                    assert.same({}, missing or {})
                    n = n + 1
                until not missing
                assert.is_true(n > 20)
            end)
        end
    end)

    it("keep their order through any sequence of insertions and removals", function ()
        local seed = os.time()
        print("seed " .. seed)
        math.randomseed(seed)
        local heap, model = timers.new(), {}
        for _ = 1, 20000 do
            if math.random() < 0.55 or #model == 0 then
                local item = {}
                heap:add(item, math.random(100))
                model[#model + 1] = item
            else
                heap:remove(table.remove(model, math.random(#model)))
            end
        end
        local last = 0
        for _ = 1, #model do
            local item = heap:first()
            assert.is_true(item.deadline >= last)
            last = item.deadline
            heap:remove(item)
        end
        assert.is_nil(heap:first())
    end)
end)
