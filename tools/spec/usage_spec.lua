-- Tests the options of the holdfast command, and its messages about wrong command lines.

local command, shell, world = require "spec.support" ("command", "shell", "tools/world")

-- The names of the first commands. The commands for clusters exist only with the folder cluster/.
local FIRST = io.open "cluster/README.md" and "agent, cluster, del, doctor, " or "del, doctor, "

-- The arguments, and the message, which names the given and the accepted words.
local REFUSED = {
    { {}, "no command was given: expected one of " .. FIRST },
    { { "" }, 'unknown command "": expected one of ' .. FIRST },
    { { "walk" }, 'unknown command "walk": expected one of ' .. FIRST },
    { { "cluster status" }, 'unknown command "cluster status": expected one of ' .. FIRST },
    { { "--walk" }, 'unknown option "--walk": expected one of --help, --version' },
    { { "run" }, "no SCRIPT and no -e was given" },
    { { "run", "--" }, "no SCRIPT and no -e was given" },
    { { "run", "-e" }, "-e: no CODE was given" },
    { { "run", "-e", "print(1)", "SCRIPT" }, "-e cannot be combined with the script" },
    { { "run", "-e", "print(1)", "a.lua" },
        '-e cannot be combined with the script "a.lua"; put arguments for the CODE of -e after "--"' },
    { { "run", "SCRIPT.lua", "-e", "print(1)" }, 'cannot read the script "SCRIPT.lua"' },
    { { "run", "--fast", "SCRIPT" },
        'unknown option "--fast": expected one of --help, -e, --workers, --dict, --agent, --agent-config, --grace, '
        .. "--respawn" },
    { { "run", "-n", "SCRIPT" }, 'unknown option "-n": expected one of --help' },
    { { "run", "--workers" }, "--workers: no N was given" },
    { { "run", "--workers=", "SCRIPT" }, '--workers: bad number ""' },
    { { "run", "--respawn=1", "SCRIPT" }, 'unexpected "--respawn=1": --respawn takes no value' },
    { { "run", "--agent-config=", "SCRIPT" }, "--agent-config: no FILE was given" },
    { { "--version=1" }, 'unexpected "--version=1": --version takes no value' },
    { { "run", "--workers", "0", "SCRIPT" }, '--workers: bad number "0": expected 1 to 1023' },
    { { "run", "--workers", "1024", "SCRIPT" },
      '--workers: bad number "1024": expected 1 to 1023 (a runtime directory has room for 1024 processes)' },
    { { "run", "--workers", "abc", "SCRIPT" }, '--workers: bad number "abc"' },
    { { "run", "--workers", "2x", "SCRIPT" }, '--workers: bad number "2x"' },
    { { "run", "--workers", "[1,2]", "SCRIPT" }, '--workers: bad number "[1,2]"' },
    { { "run", "--workers=-1", "SCRIPT" }, '--workers: bad number "-1"' },
    { { "run", "--grace", "-1", "SCRIPT" }, '--grace: bad time "-1": expected seconds from 0 to 86400' },
    { { "run", "--grace", "nan", "SCRIPT" }, '--grace: bad time "nan"' },
    { { "run", "--dict", "locks", "SCRIPT" }, '--dict: bad dictionary "locks": expected NAME=SIZE, as in my_locks=1m' },
    { { "run", "--dict", "=1m", "SCRIPT" }, "--dict: empty dictionary name: expected 1 to 250 bytes" },
    { { "run", "--dict", "a b=1m", "SCRIPT" },
      '--dict: bad dictionary name "a b" in a declaration; write blanks, control characters, ",", "=" and "%" in '
      .. "hexadecimal, such as %20 for a blank" },
    { { "run", "--dict", "a,b=1m", "SCRIPT" }, '--dict: bad dictionary name "a,b" in a declaration' },
    { { "run", "--dict", "a%=1m", "SCRIPT" }, '--dict: bad dictionary name "a%" in a declaration' },
    { { "run", "--dict", "a\27=1m", "SCRIPT" }, '--dict: bad dictionary name "a\\x1B" in a declaration' },
    { { "run", "--dict", "a%00=1m", "SCRIPT" }, '--dict: bad dictionary name "a\\x00", with a zero byte: expected' },
    { { "run", "--dict", "a=b=1m", "SCRIPT" }, '--dict: bad size "b=1m"' },
    { { "run", "--dict", ("x"):rep(251) .. "=1m", "SCRIPT" }, "--dict: dictionary name of 251 bytes" },
    { { "run", "--dict", "a=", "SCRIPT" }, '--dict: bad size "": expected a number of bytes above 0' },
    { { "run", "--dict", "a=1x", "SCRIPT" }, '--dict: bad size "1x": expected a number of bytes above 0' },
    { { "run", "--dict", "a=-1", "SCRIPT" }, '--dict: bad size "-1": expected a number of bytes above 0' },
    { { "run", "--dict", "a=0", "SCRIPT" }, '--dict: bad size "0": expected a number of bytes above 0' },
    { { "run", "--dict", "a=1k", "SCRIPT" },
      '--dict: bad size "1k" for dictionary "a": expected at least 12288 bytes (12k)' },
    { { "run", "--dict", "a=1m", "--dict", "a=2m", "SCRIPT" },
        '--dict: dictionary "a" is declared twice, with sizes 1m and 2m' },
    { { "run", "--dict", "a=1m:largest=0", "SCRIPT" }, '--dict: bad largest value "0": expected a number of bytes' },
    { { "run", "--dict", "a=1m:largest=", "SCRIPT" }, '--dict: bad largest value "": expected a number of bytes' },
    { { "run", "--dict", "a=1m:large=1k", "SCRIPT" },
      '--dict: bad dictionary option "large=1k": expected largest=BYTES, as in pages=500m:largest=200m' },
    { { "run", "--dict", "a=1m:", "SCRIPT" }, '--dict: bad dictionary option "": expected largest=BYTES' },
    { { "run", "--dict", "a=:largest=1k", "SCRIPT" }, '--dict: bad size "": expected a number of bytes above 0' },
    { { "run", "--dict", "a=1m:largest=1k", "--dict", "a=1m", "SCRIPT" },
        '--dict: dictionary "a" is declared twice, with sizes 1m:largest=1k and 1m' },
    { { "run", "--dict", "a:%0A=1m", "--dict", "a%3A%0a=2m", "SCRIPT" },
        '--dict: dictionary "a:\\x0A" is declared twice, with sizes 1m and 2m' },
    { { "run", "no_such.lua" }, 'cannot read the script "no_such.lua": No such file or directory' },
    { { "run", "" }, 'cannot read the script "": No such file or directory' },
    { { "run", "/tmp" }, 'cannot run "/tmp": expected a file with a Lua script' },
    { { "run", "/dev/null" }, 'cannot run "/dev/null": expected a file with a Lua script' },
}

describe("The command line", function()
    command.fixture()

    for _, case in ipairs(REFUSED) do
        local arguments, wanted = case[1], case[2]
        it("refuses: holdfast " .. table.concat(arguments, " "), function()
            local script = command.write("script.lua", "print('ran')")
            local given = {}
            for i, argument in ipairs(arguments) do
                given[i] = argument == "SCRIPT" and script or argument
            end
            local err = world.refused(2, "holdfast: " .. wanted, unpack(given))
            local hint = arguments[1] == "run" and 'Try "holdfast run --help".' or 'Try "holdfast --help".'
            assert.truthy(err:find(hint, 1, true), err)
        end)
    end

    it("refuses a script that it may not read", function()
        local script = command.write("script.lua", "print('ran')")
        os.execute("chmod 000 '" .. script .. "'")
        local file = io.open(script)
        if file then
            file:close()
            return  -- this user may read every file
        end
        world.refused(2, 'cannot read the script "' .. script .. '": Permission denied', "run", script)
    end)

    for _, case in ipairs({
        { "a=1m,b", 'HOLDFAST_DICTS: bad dictionary "b": expected NAME=SIZE' },
        { "a=1m,a=2m", 'HOLDFAST_DICTS: dictionary "a" is declared twice' },
        { "a=1x", 'HOLDFAST_DICTS: bad size "1x"' },
        { "a=1m:largest=1x", 'HOLDFAST_DICTS: bad largest value "1x"' },
    }) do
        it("refuses HOLDFAST_DICTS=" .. case[1], function()
            local script = command.write("script.lua", "print('ran')")
            world.refused(2, "holdfast: " .. case[2], "run", script, { HOLDFAST_DICTS = case[1] })
        end)
    end

    it("may contain an empty value in the same word or in the next word, with the same meaning", function()
        for _, line in ipairs {
            "locks --max", "locks --prefix", "top --delay", "top --sort", "serve --listen", "serve --token-file",
            "ls --dir", "ls --user", "stat --dir", "keys --max NAME", "set --type NAME KEY VALUE",
            "set --exptime NAME KEY VALUE", "set --flags NAME KEY VALUE", "release --token NAME KEY",
            "set --size --create NAME KEY VALUE", "incr --size --create NAME KEY", "doctor --held", "doctor --waiting",
            "incr --init NAME KEY", "incr --init-ttl NAME KEY", "lock --wait KEY",
            "lock --exptime KEY", "lock --dir KEY", "lock --user KEY", "lock --cluster KEY", "lock --agent-config KEY",
            "lock --conflict-exit-code KEY",
        } do
            local before, option, after = line:match "^(.-) (%-%-%S+) ?(.*)$"
            local function said(value)
                local words = ('"%s" %s %s%s %s -- true'):format(command.program, before, option, value, after)
                local _, out, err = command.run("-c", words, { PROGRAM = "/bin/sh" })
                return out .. err
            end
            local apart = said " ''"
            assert.equal(apart, said "=", line)
            assert.falsy(apart:find "required", apart)
        end
    end)

    it("prints help on standard output", function()
        for _, arguments in ipairs({ { "--help" }, { "-h" } }) do
            local ended, out, err = command.run(unpack(arguments))
            assert.same({ code = 0 }, ended)
            assert.equal("", err)
            assert.matches("Usage: holdfast %[OPTIONS%] COMMAND", out)
            assert.matches("\n  run ", out)
            local names = {}
            for name in out:match "\nCommands:\n(.-)\n\n":gmatch "  (%l+) [^\n]+" do
                names[#names + 1] = name
            end
            table.sort(names)
            local _, _, why = command.run("walk")
            assert.truthy(why:find("expected one of " .. table.concat(names, ", ") .. "\n", 1, true), why)
        end
    end)

    it("prints help for run, with every option, the signals, and the exit status", function()
        local ended, out, err = command.run("run", "--help")
        assert.same({ code = 0 }, ended)
        assert.equal("", err)
        for _, text in ipairs({ "Usage: holdfast run [OPTIONS] SCRIPT [ARGUMENTS...]",
            "holdfast run [OPTIONS] -e CODE [-- ARGUMENTS...]", "-e CODE", "--workers N",
            "--dict NAME=SIZE", "--grace SECONDS", "--respawn", "TERM, INT", "QUIT", "HUP", "Exit status" }) do
            assert.truthy(out:find(text, 1, true), text)
        end
    end)

    it("prints the version", function()
        local ended, out = command.run("--version")
        assert.same({ code = 0 }, ended)
        assert.matches("^holdfast %d+%.%d+%.%d+\n$", out)
    end)

    it("fails if the output cannot be written", function()
        for _, asked in ipairs { "--help", "--version", "run --help", "lock --help", "ls --help" } do
            local out = shell.output(('"%s" %s 2>&1 >/dev/full || echo failed'):format(command.program, asked))
            assert.equal("holdfast: cannot write the result: No space left on device\nfailed", out, asked)
        end
    end)

    it("prints the output that the manual shows", function()
        local manual = assert(io.open("tools/docs/holdfast.md")):read("*a")
        local source = manual:match("file: count.lua %-%->\n```lua\n(.-)```")
        local line = manual:match("```sh\nholdfast (.-)\n```")
        local output = manual:match("output like %-%->\n```\n(.-)```")
        local arguments = {}
        for word in line:gsub("count.lua", command.write("count.lua", source)):gmatch("%S+") do
            arguments[#arguments + 1] = word
        end
        local ended, out, err = command.run(unpack(arguments))
        assert.same({ code = 0 }, ended, err)
        -- The order of the workers differs from run to run.
        assert.equal((output:gsub("%d", "N")), (out:gsub("%d", "N")))
    end)
end)
