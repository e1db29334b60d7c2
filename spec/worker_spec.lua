-- Tests resty.holdfast.worker in a process that `holdfast run` did not start.

local process = require "spec.support.process"

local TELL = [[
    local worker = require "resty.holdfast.worker"
    print(worker.id(), worker.count(), worker.exiting())
]]


describe("resty.holdfast.worker", function ()
    after_each(process.clean_up)

    it("is worker 0 of 1, and is never told to finish", function ()
        assert.equal("0\t1\tfalse\n", (process.run(TELL, {})))
    end)

    it("has the number that the environment names, if this is a number", function ()
        assert.equal("2\t5\tfalse\n", (process.run(TELL, { env = { HOLDFAST_WORKER = "2", HOLDFAST_WORKERS = "5" } })))
        for _, bad in ipairs { "-1", "1.5", "x", "" } do
            local env = { HOLDFAST_WORKER = bad, HOLDFAST_WORKERS = bad }
            assert.equal("0\t1\tfalse\n", (process.run(TELL, { env = env })), bad)
        end
    end)
end)
