-- Tests program.lua. A program with privileges that its caller does not have must not use anything from the
-- environment: no library, no directory, no dictionaries and no options.

local files, shell = require "spec.support" ("files", "shell")
local core = require "resty.holdfast.core"

-- The id of a user that has no other process.
local USER = 54003
local WORLD = "/dev/shm/holdfast-" .. USER

local LOOK = [[
    local folder = os.getenv("SPEC_FOLDER")
    package.path = folder .. "/lua/?.lua"
    package.cpath = folder .. "/?.so"
    local core = require "resty.holdfast.core"
    print(core.path)
    print(require("resty.shdict").open("spec_dict", { size = "100k" }))
    print(require("ffi").string(core.C.holdfast_directory()))
    print(require("resty.lock"):new("declared"))
    print(require("resty.holdfast.worker").id())
    local lock = require("resty.lock"):new("spec_dict")
    print(lock:lock("key"))
    print(lock:holder("key").worker)
]]


describe("a set-uid program", function ()
    local folder

    before_each(function ()
        folder = shell.output("mktemp -d /var/tmp/holdfast-spec.XXXXXX")
    end)

    after_each(function ()
        os.execute(("rm -rf -- '%s' '%s'"):format(folder, WORLD))
    end)

    local function look(program)
        files.write(folder .. "/look.lua", LOOK)
        local variables = "SPEC_FOLDER=%s HOLDFAST_LIB=%s/theirs.so HOLDFAST_DIR=%s HOLDFAST_DICTS=declared=100k "
            .. "HOLDFAST_WORKER=3 HOLDFAST_WAIT=poll HOLDFAST_SHARE=group"
        return shell.output("cd / && env " .. variables:format(folder, folder, folder) .. " " .. program .. " "
                            .. folder .. "/look.lua 2>&1")
    end

    it("uses nothing from the environment", function ()
        if shell.output("id -u") ~= "0" then
            pending("only root can change the owner of a program")
            return
        end
        local program = folder .. "/program"
        shell.output(("chmod 755 %s && cp -r lua %s && cp %s %s/libholdfast.so && chmod -R a+rX %s && "
                .. "cp $(readlink -f $(command -v luajit)) %s && chown %d %s && chmod 4755 %s")
               :format(folder, folder, core.path, folder, folder, program, USER, program, program))
        local read_uid = "io.open([[/proc/self/status]]):read(1) os.execute([[true]]) "
                         .. "print((io.open([[/proc/self/status]]):read([[*a]]):match([[Uid:%s+%d+%s+(%d+)]])))"
        if not shell.output(program .. " -e '" .. read_uid .. "' 2>&1"):find(tostring(USER), 1, true) then
            pending("set-uid programs are not allowed in /var/tmp")
            return
        end
        local text = look(program)
        local lines = {}
        for line in text:gmatch("[^\n]+") do
            lines[#lines + 1] = line
        end
        assert.equal(folder .. "/libholdfast.so", lines[1], text)
        assert.matches("^table", lines[2], text)
        assert.equal(WORLD, lines[3])
        assert.matches("^nil\t.*dictionary not found", lines[4])
        assert.same({ "0", "0", "nil" }, { lines[5], lines[6], lines[7] })
    end)
end)
