local timers = require "resty.holdfast.timers"


-- The names of all items in the order in which they are due.
local function drain(heap)
    local names = {}
    while heap:first() do
        local item = heap:first()
        heap:remove(item)
        names[#names + 1] = item.name
    end
    return table.concat(names)
end


describe("timers", function ()
    it("come in the order of their deadlines", function ()
        local heap = timers.new()
        for name, deadline in pairs { c = 3, a = 1, d = 4, b = 2 } do
            heap:add({ name = name }, deadline)
        end
        assert.equal("abcd", drain(heap))
    end)


    it("come in the order of adding when the deadlines are equal", function ()
        local heap = timers.new()
        for name in ("abcdefgh"):gmatch(".") do
            heap:add({ name = name }, 7)
        end
        assert.equal("abcdefgh", drain(heap))
    end)


    it("are gone when removed", function ()
        local heap = timers.new()
        local items = {}
        for name in ("abcde"):gmatch(".") do
            items[name] = { name = name }
            heap:add(items[name], name:byte())
        end
        heap:remove(items.a)
        heap:remove(items.c)
        heap:remove(items.e)
        heap:remove(items.e)
        assert.equal("bd", drain(heap))
        assert.is_nil(heap:first())
    end)


    it("keep their order through any sequence of adding and removing", function ()
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
