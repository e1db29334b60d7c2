-- Tests `holdfast top` as text and on a terminal. Also tests that it does not wait for any process.

local command, json, typing, world =
    require "spec.support" ("command", "tools/json", "tools/typing", "tools/world")

local keep, output, rows = world.keep, world.output, world.rows

local STOP, CONTINUE = 19, 18

-- Defines steps that wait for a file in the test's folder, act, and report this.
local STEPS = [[
    local shdict = require "resty.shdict"
    local sleep = require("resty.holdfast.scheduler").sleep
    local folder = "%s/"
    local function await(name)
        while not io.open(folder .. name) do
            sleep(0.005)
        end
    end
    local function done(name)
        io.open(folder .. name, "w"):close()
    end
]]

local function member(code, ...)
    return keep(STEPS:format(command.path "") .. code, ...)
end

-- Returns the lines of batch output that begin with the word `kind`, without this word.
local function those(kind, text)
    local found = {}
    for _, row in ipairs(rows(text)) do
        if table.remove(row, 1) == kind then
            found[#found + 1] = row
        end
    end
    return found
end

-- Returns one field of each row, joined into a line.
local function fields(column, found)
    local list = {}
    for i, row in ipairs(found) do
        list[i] = row[column]
    end
    return table.concat(list, " ")
end

-- Returns the rows with this kind and name from all intervals of `holdfast top` that overlap act(). Each row has the
-- length of its interval in the field "seconds".
local function look_around(act)
    local process = command.start("top", "--batch", "--delay", "0.2")
    local function looks()
        return #those("world", process:out() or "")
    end
    assert(command.await(function () return looks() > 0 end))
    act()
    local before = looks()
    assert(command.await(function () return looks() > before + 2 end))
    process:signal(command.TERM)
    process:wait()
    local text = process:out():match "\n(world.*\n)"
    return function (kind, name)
        local found, seconds = {}, nil
        for _, row in ipairs(rows(text)) do
            seconds = row[1] == "world" and tonumber(row[4]) or seconds
            if table.remove(row, 1) == kind and row[1] == (name or row[1]) then
                row.seconds = seconds
                found[#found + 1] = row
            end
        end
        return found
    end
end

-- Returns the total count in all rows, which it calculates from the rates in the column.
local function total(column, found)
    local sum = 0
    for _, row in ipairs(found) do
        sum = sum + tonumber(row[column]) * row.seconds
    end
    return sum
end

local function go()
    command.write("go", "")
    assert(command.await(function () return command.read "did" end))
end

-- Contends for keys. One key has one waiter, and "slow" has two.
local function contend()
    member [[
        local lock = require "resty.lock"
        for _, name in ipairs { "busy", "free" } do
            assert(shdict.open(name, { size = name == "busy" and "128k" or "64k" }))
        end
        local function hold(dict, key)
            local one = lock:new(dict, { exptime = 3000 })
            assert(one:lock(key, { why = "a\treason" }))
            sleep(0.05)
            return one
        end
        locks = { hold("busy", "slow"), hold("busy", "other"), hold("free", "alone") }
        ready()
    ]]
    for _, key in ipairs { "slow", "slow", "other" } do
        member(([[
            assert(shdict.open "busy")
            ready()
            require("resty.lock"):new("busy", { timeout = 3000, exptime = 3000 }):lock("%s")
        ]]):format(key))
    end
    assert(command.await(function ()
        local waiters = 0
        for _, row in ipairs(rows(output("locks"))) do
            waiters = waiters + tonumber(row[12])
        end
        return waiters == 3
    end))
end


describe("holdfast top --batch with contended locks", function ()
    setup(function ()
        command.set_up()
        contend()
    end)
    teardown(command.tear_down)

    it("prints the same data as JSON, with one object for each refresh", function ()
        local looks = {}
        for line in output("top", "--batch", "-n2", "-d0.1", "--json"):gmatch "[^\n]+" do
            looks[#looks + 1] = json.decode(line)
        end
        assert.equal(2, #looks)
        local lines = output("top", "--batch", "-n1", "-d0.1")
        local locks, dictionaries = those("lock", lines), those("dictionary", lines)
        assert.equal(#locks, #looks[1].locks)
        for i, lock in ipairs(locks) do
            local found = looks[1].locks[i]
            assert.same({ lock[1], lock[2], lock[3], lock[4], lock[5], lock[6], lock[8] },
                        { found.dictionary, found.key, found.kind, tostring(found.holder.pid), found.holder.program,
                          found.holder.state, tostring(found.waiter_count) })
            assert.same({ "a\\x09reason", "a\treason" }, { lock[11], found.why })
            assert.is_true(found.held > 0 and looks[2].locks[i].held >= found.held)
        end
        assert.equal(#dictionaries, #looks[1].dictionaries)
        local one = looks[1].dictionaries[1]
        assert.same({ dictionaries[1][1], tonumber(dictionaries[1][2]), json.null },
                    { one.name, one.size, one.trouble })
        assert.is_true(looks[1].interval >= 0.1 and looks[1].processes >= 1 and looks[1].room_free > 0)
    end)

    it("prints locks with their holder and waiters, and the locks with the most waiters first", function ()
        local found = those("lock", output("top", "--batch", "-n1", "-d0.1"))
        assert.equal("slow other alone", fields(2, found))
        local slow = found[1]
        assert.same({ "busy", "slow", "lock" }, { slow[1], slow[2], slow[3] })
        assert.same({ "ready1.lua", "alive" }, { slow[5], slow[6] })
        assert.is_true(command.alive(tonumber(slow[4])))
        assert.is_true(tonumber(slow[7]) >= tonumber(slow[9]))
        assert.same({ "2", "1", "0" }, { slow[8], found[2][8], found[3][8] })
        assert.equal("-", found[3][9])
    end)

    it("sorts by any column, and shows only rows that contain a text", function ()
        local function top(...)
            return output("top", "--batch", "-n1", "-d0.1", ...)
        end
        assert.equal("alone other slow", fields(2, those("lock", top("--sort", "key"))))
        assert.equal("slow other alone", fields(2, those("lock", top("--sort", "held"))))
        assert.equal("busy free", fields(1, those("dictionary", top("--sort", "name"))))
        assert.equal("busy free", fields(1, those("dictionary", top("--sort=used"))))
        local filtered = top("--filter", "ALON")
        assert.equal("alone", fields(2, those("lock", filtered)))
        assert.equal(0, #those("dictionary", filtered))
        assert.equal("busy", fields(1, those("dictionary", top("busy"))))
        assert.equal("slow other", fields(2, those("lock", top("busy"))))
    end)

    it("refreshes COUNT times, and prints titles for people", function ()
        assert.equal(3, #those("world", output("top", "-n", "3", "-d", "0.1")))
        local text = output("top", "-n", "1", "-d", "0.1", "--color=always")
        assert.truthy(text:find("DICTIONARY", 1, true))
        assert.truthy(text:find("3 keys held", 1, true), text)
        assert.matches("\27%[1mWHY\27%[0m\n[^\n]*a\\x09reason", text)
    end)
end)


describe("holdfast top --batch", function ()
    command.fixture()

    it("shows only the rates of the last interval", function ()
        member [[
            local dict = assert(shdict.open("counted", { size = "1m" }))
            assert(shdict.open("idle", { size = "64k" }))
            dict:set("there", 1)
            for _ = 1, 5000 do dict:get("there") end
            ready()
            await "go"
            for _ = 1, 300 do dict:get("there") end
            for _ = 1, 100 do dict:get("missing") end
            done "did"
        ]]
        local seen = look_around(go)
        local counted, hits = seen("dictionary", "counted"), 0
        for _, row in ipairs(counted) do
            assert.same({ "1048576", "1" }, { row[2], row[4] })
            hits = hits + (row[5] == "-" and 0 or row[5] * row[6] * row.seconds)
        end
        assert.is_near(300, hits, 3)
        assert.is_near(400, total(6, counted), 3)
        assert.is_near(400, total(7, seen "world"), 3)
        for _, idle in ipairs(seen("dictionary", "idle")) do
            assert.same({ "idle", "-", "0.00" }, { idle[1], idle[5], idle[6] })
        end
    end)

    it("shows the waits that ended in the last interval, with their length", function ()
        member [[
            local lock = require "resty.lock"
            assert(shdict.open("waits", { size = "64k" }))
            assert(keep(lock:new("waits", { exptime = 600 })):lock("key"))
            ready()
            await "go"
            local other = lock:new("waits", { timeout = 0.1, exptime = 600, fair = true })
            for _ = 1, 3 do assert(not other:lock("key")) end
            done "did"
        ]]
        local seen = look_around(go)
        local found = seen("dictionary", "waits")
        assert.is_near(3, total(9, found), 0.1)
        for _, row in ipairs(found) do
            local mean, longest = tonumber(row[10]), tonumber(row[11])
            assert.is_true(row[9] == "0.00" and not mean or mean >= 0.095 and longest >= mean, row[10])
        end
        local locks = seen("lock", "waits")
        assert.equal("key", locks[1][2])
        assert.is_near(3, total(10, locks), 0.1)
    end)

    it("treats a recreated dictionary as a new dictionary", function ()
        member [[
            local dict = assert(shdict.open("again", { size = "64k" }))
            for _ = 1, 500 do dict:get("x") end
            ready()
        ]]
        local seen = look_around(function ()
            output("rm", "-f", "again")
            keep [[
                local dict = assert(require("resty.shdict").open("again", { size = "128k" }))
                for _ = 1, 700 do dict:get("x") end
                ready()
            ]]
        end)
        local found = seen("dictionary", "again")
        assert.equal("131072", found[#found][2])
        assert.is_near(700, total(6, found), 5)
    end)

    it("shows a runtime directory that no program uses yet, and later the programs that join it", function ()
        local ended, out, err = command.run("top", "-n", "1", "-d", "0.1")
        assert.same({ code = 0 }, ended)
        assert.matches("^holdfast: no program uses holdfast here yet ", err)
        assert.matches("^world\t[^\n]*\t0\t0\t0\t0.00\t0.00\t0.00\t%d+\t%d+\n$", out)
        local found = json.decode(output("top", "-b", "--json", "-n", "1", "-d", "0.1"))
        assert.same({ command.world(), {}, {} }, { found.directory, found.locks, found.dictionaries })
        local process = command.start("top", "-b", "-d", "0.1")
        assert(command.await(function () return (process:out() or ""):find "world" end))
        member [[ assert(shdict.open("later", { size = "64k" })) ready() ]]
        assert(command.await(function () return process:out():find("\ndictionary\tlater\t", 1, true) end))
    end)

    it("refuses bad options, and lists what it accepts", function ()
        member [[ assert(shdict.open("there", { size = "64k" })) ready() ]]
        for _, case in ipairs {
            { { "--delay", "0" }, 'bad time "0": expected seconds from 0.1 to 3600, as in 0.5' },
            { { "--delay", "nan" }, 'bad time "nan": expected seconds from 0.1 to 3600' },
            { { "--delay", "1x" }, 'bad time "1x": expected seconds' },
            { { "--sort", "age" }, 'bad column "age": expected one of dictionary, key, kind, holder, held, waiters' },
            { { "-n", "0" }, 'bad number "0": expected 1 or more' },
            { { "none" }, 'there is no dictionary "none" in ' .. command.world() .. ': it contains "there"' },
            { { "--color=blue" }, 'bad value "blue": expected always, never or auto' },
            { { "--dir", command.world() .. "/no" }, "there is no runtime directory" },
        } do
            world.refused(2, case[2], "top", "--batch", unpack(case[1]))
        end
    end)

    it("does not wait for a process that is stopped inside a dictionary, and occupies no process slot", function ()
        local process = member [[
            local dict = assert(shdict.open("stopped", { size = "64k" }))
            assert(keep(require("resty.lock"):new("stopped", { exptime = 3000 })):lock("key"))
            ready()
            while true do dict:set("hot", ("x"):rep(20000)) end
        ]]
        local pid = world.worker_of(process)
        for _ = 1, 10 do
            command.kill(pid, STOP)
            local begin = command.now()
            local text = output("top", "-n", "1", "-d", "0.1")
            assert.equal("key", those("lock", text)[1][2])
            assert.equal("stopped", those("lock", text)[1][6])
            assert.equal("2", those("world", text)[1][4])  -- the master and its worker
            assert.is_true(command.now() - begin < 20, "waited")
            command.kill(pid, CONTINUE)
        end
    end)
end)


-- A terminal emulator for the xterm sequences that ncurses uses. All other sequences are errors.
local TERMINAL = [[
import fcntl, os, pty, re, select, signal, struct, subprocess, sys, termios, time
program = sys.argv[1]
class Terminal:
    def __init__(self, rows, columns, *words, **environment):
        self.raw = b""
        self.master, self.slave = pty.openpty()
        self.resize(rows, columns)
        self.before = termios.tcgetattr(self.slave)
        everything = dict(os.environ, TERM="xterm", LC_ALL="C.UTF-8")
        for name in ("NO_COLOR", "COLUMNS", "LINES"): everything.pop(name, None)
        everything.update(environment)
        self.process = subprocess.Popen([program, "top", "-d", "0.2", *words], stdin=self.slave, stdout=self.slave,
            stderr=self.slave, env=everything, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
    def resize(self, rows, columns):
        self.rows, self.columns = rows, columns
        self.cells = [[" "] * columns for _ in range(rows)]
        self.row = self.column = self.top = 0
        self.bottom = rows - 1
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    def take(self, wait):
        if select.select([self.master], [], [], wait)[0]:
            self.raw += os.read(self.master, 65536)
        text, self.raw = self.raw, b""
        at = 0
        pattern = re.compile(rb"\x1b\[([?>]?)([0-9;]*)([A-Za-z@`])|\x1b[()][A-Z0-9]|\x1b[=>78M]|[\x0e\x0f\x07]")
        while at < len(text):
            if text[at] in (0x1b, 0x0e, 0x0f, 0x07):
                found = pattern.match(text, at)
                if not found:
                    if len(text) - at < 16:
                        self.raw = text[at:]
                        return
                    sys.exit("not of ncurses: %r" % text[at:at + 20])
                self.control(found)
                at = found.end()
            elif text[at] in b"\r\n\b":
                if text[at] == 13: self.column = 0
                if text[at] == 10 and self.row == self.bottom:
                    self.cells.pop(self.top)
                    self.cells.insert(self.bottom, [" "] * self.columns)
                elif text[at] == 10: self.row = min(self.row + 1, self.rows - 1)
                if text[at] == 8: self.column = max(self.column - 1, 0)
                at += 1
            else:
                length = 1 if text[at] < 0x80 else 2 if text[at] < 0xe0 else 3 if text[at] < 0xf0 else 4
                if at + length > len(text):
                    self.raw = text[at:]
                    return
                self.show(text[at:at + length].decode())
                at += length
    def show(self, character):
        assert character >= " ", "control byte %r" % character
        if self.column >= self.columns:
            self.column, self.row = 0, min(self.row + 1, self.rows - 1)
        wide = character in "漢字"
        self.last = character
        self.cells[self.row][self.column] = character
        if wide and self.column + 1 < self.columns:
            self.cells[self.row][self.column + 1] = ""
        self.column += 2 if wide else 1
    def control(self, found):
        if found.group(0) == b"\x1bM" and self.row == self.top:
            self.cells.pop(self.bottom)
            self.cells.insert(self.top, [" "] * self.columns)
        elif found.group(0) == b"\x1bM": self.row = max(self.row - 1, 0)
        if found.group(3) is None:
            return
        if found.group(1):
            return
        numbers = [int(n) if n else 0 for n in found.group(2).split(b";")]
        n, kind = max(numbers[0], 1), found.group(3).decode()
        row, line = self.row, self.cells[self.row]
        column = min(self.column, self.columns)
        if kind in "Hf":
            self.row, self.column = min(n, self.rows) - 1, (max(numbers[1], 1) if len(numbers) > 1 else 1) - 1
        elif kind == "d": self.row = n - 1
        elif kind in "G`": self.column = n - 1
        elif kind == "A": self.row = max(row - n, 0)
        elif kind == "B": self.row = min(row + n, self.rows - 1)
        elif kind == "C": self.column += n
        elif kind == "D": self.column = max(self.column - n, 0)
        elif kind == "X": line[column:column + n] = [" "] * min(n, self.columns - column)
        elif kind == "b":
            for _ in range(n): self.show(self.last)
        elif kind == "P": self.cells[row] = (line[:column] + line[column + n:] + [" "] * n)[:self.columns]
        elif kind == "@": self.cells[row] = (line[:column] + [" "] * n + line[column:])[:self.columns]
        elif kind == "K":
            if numbers[0] == 1: line[:column + 1] = [" "] * min(column + 1, self.columns)
            else: line[column:] = [" "] * (self.columns - column)
        elif kind == "J":
            if numbers[0] == 2: self.cells = [[" "] * self.columns for _ in range(self.rows)]
            else:
                line[column:] = [" "] * (self.columns - column)
                for other in self.cells[row + 1:]: other[:] = [" "] * self.columns
        elif kind in "LM":
            for _ in range(n):
                if kind == "L":
                    self.cells.pop(self.bottom); self.cells.insert(row, [" "] * self.columns)
                else:
                    self.cells.pop(row); self.cells.insert(self.bottom, [" "] * self.columns)
        elif kind in "ST":
            for _ in range(n):
                if kind == "S": self.cells.pop(self.top); self.cells.insert(self.bottom, [" "] * self.columns)
                else: self.cells.pop(self.bottom); self.cells.insert(self.top, [" "] * self.columns)
        elif kind == "r":
            self.top, self.bottom = n - 1, (numbers[1] if len(numbers) > 1 else self.rows) - 1
            self.row = self.column = 0
        elif kind in "mhlt": pass
        else: sys.exit("unknown control %r" % found.group(0))
    def lines(self):
        return ["".join(line).rstrip() for line in self.cells]
    def text(self):
        return "\n".join(self.lines())
    def until(self, condition, what="it"):
        end = time.time() + 40
        if isinstance(condition, str):
            what, wanted = condition, condition
            condition = lambda: wanted in self.text()
        while not condition():
            if time.time() > end or self.process.poll() is not None:
                sys.exit("no %s in\n%s\n(ended: %s)" % (what, self.text(), self.process.poll()))
            self.take(0.05)
    def type(self, keys):
        os.write(self.master, keys.encode())
    def row_of(self, text):
        return next((i for i, line in enumerate(self.lines()) if text in line), -1)
    def has_modes(self):
        return termios.tcgetattr(self.slave)[3] & termios.ICANON == 0
    def ends(self, status):
        end = time.time() + 60
        while self.process.poll() is None and time.time() < end:
            self.take(0.05)
        assert self.process.returncode == status, self.process.returncode
        assert termios.tcgetattr(self.slave) == self.before, "other modes than before"
UP, DOWN, END, HOME, PAGE_DOWN, PAGE_UP = "\x1bOA", "\x1bOB", "\x1bOF", "\x1bOH", "\x1b[6~", "\x1b[5~"
F1, F3, F4, F6, F10 = "\x1bOP", "\x1bOR", "\x1bOS", "\x1b[17~", "\x1b[21~"
]]

local function play(script)
    local path = command.write("terminal.py", TERMINAL .. script:gsub("\n        ", "\n"):gsub("^ +", ""))
    output(path, command.program, { PROGRAM = "/usr/bin/python3" })
end


describe("On a terminal holdfast top with contended locks", function ()
    setup(function ()
        command.set_up()
        contend()
    end)
    teardown(command.tear_down)

    it("shows a header, titles and rows at 80x24, and its keys work", function ()
        play [[
        t = Terminal(24, 80)
        t.until("3 keys held")
        t.until(lambda: 0 < t.row_of("slow") < t.row_of("other") < t.row_of("alone"), "order of waiters")
        assert "KEY" in t.lines()[4] and "HOLDER" in t.lines()[4] and "WAITv" in t.lines()[4], t.text()
        t.type("I")
        t.until(lambda: 0 < t.row_of("alone") < t.row_of("other") < t.row_of("slow"), "inverted order")
        t.type("I>")
        t.until("LONGESTv")
        t.type("<<")
        t.until("HELDv")
        t.type(F6)
        t.until("WAITv")
        t.type("\t")
        t.until("[Dictionaries]")
        t.until("free")
        t.until("READSv")
        t.type("\t")
        t.until("[Locks]")
        t.type(F4 + "alone")
        t.until("Filter: alone")
        t.until(lambda: "slow" not in t.text(), "filtered rows")
        t.type("\x7f\x7f\x7f\x7f\x7f\r")
        t.until("slow")
        t.type("\\oth\r")
        t.until("filter: oth")
        t.until(lambda: "slow" not in t.text(), "filtered rows")
        t.type("\\")
        t.until("Filter: oth")
        t.type("\x1b")
        t.until("slow")
        t.type("\\alone\r")
        t.until("filter: alone")
        t.until(lambda: "slow" not in t.text(), "filtered rows")
        t.type("\x1b")
        t.until("slow")
        assert "filter:" not in t.text(), t.text()
        t.type("\x1b\x1b")  # which have nothing to leave
        t.type(F1)
        t.until("quit")
        t.type("x")
        t.until("alone")
        t.type("p")
        t.until("PAUSED")
        t.type(" ")
        t.until(lambda: "PAUSED" not in t.text(), "end of the pause")
        t.type("+")
        t.until("every 0.4 s")
        t.type("-")
        t.until("every 0.2 s")
        t.type("\r")
        t.until("held by pid")
        t.until("a\\x09reason")
        t.until(lambda: t.text().count("has waited for") == 2, "two waiters")
        t.type("\x1b")
        t.until("alone")
        t.type(F3 + "alone\r" + "\r")
        t.until("free alone")
        t.type("xq")
        t.ends(0)
        ]]
    end)

    it("fits into 40x10, into less, and into a new size while it runs", function ()
        play [[
        terminals = [Terminal(*size) for size in ((10, 40), (5, 20), (3, 10), (2, 3), (1, 1))]
        terminals[0].until(lambda: 0 < terminals[0].row_of("slow") < terminals[0].row_of("alone"), "rows")
        assert "HOLDER" in terminals[0].text(), terminals[0].text()
        for t in terminals:
            t.until(t.has_modes, "the modes of the screen")
            for key in "\t\t>>I\r\r?x/a\r\\a\r\\\x1b": t.type(key)
            t.type(PAGE_DOWN + DOWN + END + HOME)
        time.sleep(0.5)  # until each screen is drawn again
        for t in terminals:
            t.take(0)
            t.type("q")
            t.ends(0)
        t = Terminal(24, 80)
        t.until("q Quit")
        assert t.lines()[23].endswith("r Release k Signal p Pause q Quit"), t.text()
        t.resize(10, 40)
        t.until(lambda: "slow" in t.text() and re.match("F1 Help .*….* q Quit$", t.lines()[9]), "40x10")
        t.resize(30, 120)
        t.until(lambda: "slow" in t.text() and "q Quit" in t.lines()[29], "120x30")
        t.type("q")
        t.ends(0)
        t = Terminal(24, 100, COLUMNS="70")
        t.until(lambda: "slow" in t.text() and "q Quit" in t.text(), "70 columns")
        t.resize(24, 110)
        t.until(lambda: "slow" in t.text() and "q Quit" in t.text(), "70 columns again")
        assert all(len(line) <= 70 for line in t.lines()), t.text()
        t.type("q")
        t.ends(0)
        ]]
    end)

    it("restores the terminal after q, Ctrl-C, INT, TERM and HUP, and while it is stopped", function ()
        play [[
        for act, status in (lambda t: t.type("q"), 0), (lambda t: t.type("\x03"), 0), \
                (lambda t: t.process.send_signal(signal.SIGINT), 0), \
                (lambda t: t.process.send_signal(signal.SIGTERM), -signal.SIGTERM), \
                (lambda t: t.process.send_signal(signal.SIGHUP), -signal.SIGHUP):
            t = Terminal(24, 80)
            t.until("slow")
            assert termios.tcgetattr(t.slave) != t.before
            act(t)
            t.ends(status)
        t = Terminal(24, 80)
        t.until("slow")
        os.kill(t.process.pid, signal.SIGSTOP)
        termios.tcsetattr(t.slave, termios.TCSANOW, t.before)
        os.kill(t.process.pid, signal.SIGCONT)
        t.until(t.has_modes, "the modes of the screen")
        t.type("\x13")  # Ctrl-S: the terminal accepts no output
        time.sleep(0.5)
        t.process.terminate()
        t.ends(-signal.SIGTERM)
        ]]
    end)

    it("ends when its terminal is closed", function ()
        play [[
        t = Terminal(24, 80)
        t.until("slow")
        os.close(t.slave)
        os.close(t.master)
        t.process.wait(60)
        t = Terminal(24, 80)
        t.until("slow")
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        ]]
    end)

    it("stops on Ctrl-Z in a shell, and continues", function ()
        typing [[
        say(program + " top -d 0.2\n")
        until("slow")
        say("\x1a")
        until("Stopped")
        until("ready> ")
        say("stty -a | tr ' ' _\n")
        until("_icanon")
        until("ready> ")
        say("fg\n")
        until("slow")
        say("q")
        until("ready> ")
        say("echo status\" \"$?\n")
        until("status 0")
        say("exit\n")
        ]]
    end)

    it("uses colours unless NO_COLOR is set or the terminal has no colours", function ()
        play [[
        def colours(*words, **environment):
            t = Terminal(24, 80, *words, **environment)
            seen = []
            control = t.control
            t.control = lambda found: (seen.append(found.group(0)), control(found))
            t.until("slow")
            t.until("[Locks]")
            t.type("q")
            t.ends(0)
            return any(re.match(rb"\x1b\[[0-9;]*3[1-7]m", each) for each in seen)
        assert colours()
        assert not colours(NO_COLOR="1")
        assert not colours("--color=never")
        assert colours("--color", NO_COLOR="1")
        assert not colours(TERM="vt100")
        t = Terminal(24, 80, TERM="dumb")
        t.process.wait(60)
        end = time.time() + 10
        while "dumb" not in t.text() and time.time() < end: t.take(0.05)
        assert 'cannot draw on a terminal of type "dumb"' in t.text(), t.text()
        t.ends(2)
        ]]
    end)
end)


describe("On a terminal holdfast top", function ()
    command.fixture()

    -- Holds a hundred keys. The argument is an expression for the name of key i.
    local function hold_many(key)
        local code = ([[
            local locks = {}
            assert(shdict.open("many", { size = "1m" }))
            for i = 1, 100 do
                locks[i] = require("resty.lock"):new("many", { exptime = 3000 })
                assert(locks[i]:lock(KEY))
            end
            ready()
        ]]):gsub("KEY", function () return key end)
        member(code)
    end

    it("shows keys, holders and times in full at 80 columns, and marks estimates", function ()
        member [[
            local lock = require "resty.lock"
            local scheduler = require "resty.holdfast.scheduler"
            assert(shdict.open("commands", { size = "1m" }))
            local kept = {}
            for i = 1, 9 do
                kept[i] = lock:new("commands", { exptime = 3000 })
                assert(kept[i]:lock("held key number " .. i))
            end
            scheduler.spawn(function ()
                while true do
                    lock:new("commands", { exptime = 3000, timeout = 0.155 }):lock("held key number 1")
                end
            end)
            scheduler.spawn(ready)
            scheduler.run()
        ]]
        play [[
        t = Terminal(24, 80)
        t.until(lambda: all("held key number %d " % i in t.text() for i in range(1, 10)), "whole keys")
        assert "…" not in t.text(), t.text()
        assert re.search(r" \d+ ready1.lua ", t.text()), t.text()
        assert re.search(r"reads, ~[0-9.]+ locks", t.text()), t.text()
        t.type("\t")
        t.until("~LOCKS")
        t.until(lambda: re.search(r"commands .*\d\.\d ms +-$", t.text(), re.M), "the end of a row")
        assert "P99" in t.text() and "…" not in t.text(), t.text()
        t.type("q")
        t.ends(0)
        ]]
    end)

    it("elides the middle of long keys and reasons at 80 columns, so that all other columns remain", function ()
        member [[
            assert(shdict.open("commands", { size = "1m" }))
            for i = 100, 109 do
                local lock = keep(require("resty.lock"):new("commands", { exptime = 3000 }))
                assert(lock:lock("/var/lib/backup/jobs/of/the/company/" .. i .. ".lock",
                                 { why = "copies the tapes of the week " .. i }))
            end
            ready()
        ]]
        play [[
        t = Terminal(24, 80)
        t.until("109.lock")
        row = r"^commands +/var/\S*…\S*10\d\.lock +\d+ ready1\.lua +\S+ \w+ +0 +- +cop.*….*10\d$"
        t.until(lambda: len(re.findall(row, t.text(), re.M)) == 10, "ten rows")
        assert re.match("DICTIONARY +KEY +HOLDER +HELD +WAITv +LONGEST +WHY", t.lines()[4]), t.text()
        t.type("\\WEEK 103\r")
        t.until(lambda: "103.lock" in t.text() and "104.lock" not in t.text(), "the row with the reason")
        t.resize(24, 200)
        t.until(lambda: re.search(r"/var/lib/backup/jobs/of/the/company/103.lock .* copies the tapes of the week 103$",
            t.text(), re.M), "the whole row")
        t.type("q")
        t.ends(0)
        t = Terminal(24, 80, LC_ALL="C")
        t.until(lambda: re.search(r" /var/\S*~\S*100\.lock ", t.text()), "a row without letters beyond ASCII")
        t.type("q")
        t.ends(0)
        ]]
    end)

    it("drops keys, pids, waiters and reasons after all other columns on narrow terminals", function ()
        member [[
            assert(shdict.open("commands", { size = "1m" }))
            assert(keep(require("resty.lock"):new("commands", { exptime = 3000 })):lock("nightly", { why = "full" }))
            ready()
        ]]
        play [[
        for columns, titles in (60, "DICTIONARY KEY HOLDER HELD WAITv LONGEST WHY"), (40, "KEY HOLDER WAITv WHY"), \
                (30, "KEY HOLDER WAITv"), (25, "KEY HOLDER"), (12, "KEY"):
            t = Terminal(24, columns)
            t.until(lambda: t.lines()[4].split() == titles.split(), titles)
            row = r"^(commands +)?nightly" + (r" +\d+ ready1.lua" if "HOLDER" in titles else "")
            t.until(lambda: re.search(row, t.text(), re.M), "the row of " + titles)
            t.type("q")
            t.ends(0)
        ]]
        local batch = { "top", "-b", "-n1", "-d0.1", "--header" }
        for columns, titles in pairs { [44] = "KEY HOLDER WAIT WHY", [27] = "KEY HOLDER", [10] = "KEY" } do
            batch[6] = { COLUMNS = tostring(columns) }
            assert.equal(titles, (output(unpack(batch)):match("\n\n([^\n]*KEY[^\n]*)"):gsub(" +", " ")))
        end
    end)

    it("shows everything about a lock after Enter, in lines that scroll", function ()
        member [[
            assert(shdict.open("commands", { size = "1m" }))
            local lock = keep(require("resty.lock"):new("commands", { exptime = 3000 }))
            assert(lock:lock(("\1"):rep(30) .. "/end/of/the/key", { why = ("reason "):rep(18) .. "Z" }))
            ready()
        ]]
        play [[
        def seen():
            t.until("Arrows scroll, other keys go back")
            return "".join(t.lines()[:-1])
        t = Terminal(24, 40)
        t.until("HOLDER")
        t.type("\r")
        t.until("held by pid")
        assert r"commands" + r"\x01" * 30 + "/end/of/the/key0 waits" in seen(), t.text()
        assert all(len(line) % 4 == 0 for line in t.lines()[1:3]), t.text()
        assert re.search(r"( *reason){18} *Z$", seen()), t.text()
        t.type("x")
        t.until("HOLDER")
        t.type("q")
        t.ends(0)
        t = Terminal(5, 40)
        t.until("HOLDER")
        t.type("\r")
        t.until("Arrows scroll")
        assert "reason" not in t.text(), t.text()
        t.type(END)
        t.until(lambda: re.search("reason Z$", t.lines()[3]), "the end")
        t.type(UP)
        t.until(lambda: "Z" not in t.text() and t.lines()[3].endswith("reason"), "the line before")
        t.type(HOME)
        t.until("commands")
        t.type("x")
        t.until("HOLDER")
        t.type("q")
        t.ends(0)
        ]]
    end)

    it("releases the selected lock or signals its holder only after a confirmation", function ()
        local other = world.hold("mine", "other")
        local held = world.hold("mine", "nightly", "--why", "full")
        local found = rows(output("locks", "--prefix", "nightly"))[1]
        play(([[
        t = Terminal(24, 80, "mine")
        t.until("nightly")
        t.until("other")
        t.type(F3 + "nightly\r")
        question = "Release nightly of pid PID (sh), token TOKEN? [y/N]"
        for answer in ("n", "\r", "\x1b", "k", " "):
            t.type("r")
            t.until(question)
            t.type(answer)
            t.until("F1 Help")
        def locks():
            return subprocess.run([program, "locks"], capture_output=True, text=True).stdout
        assert "\tTOKEN\tPID\t" in locks(), locks()
        t.type("r")
        t.until(question)
        t.type("y")
        t.until('released "nightly" of pid PID (sh)')
        t.until(lambda: t.row_of("full") < 0, "no lock")
        assert "\tTOKEN\tPID\t" not in locks(), locks()
        os.kill(PID, 0)
        t.type("\x1b")
        t.until("F1 Help")
        t.type("k")
        t.until("Send TERM to pid OTHER (sh), holder of other? [y/N, k: KILL]")
        t.type("k")
        t.until("Send KILL to pid OTHER (sh), holder of other? [y/N, k: CONT]")
        t.type("k")
        t.until("Send CONT to pid OTHER")
        t.type("k")
        t.until("Send TERM to pid OTHER")
        t.type("n")
        t.until("F1 Help")
        os.kill(OTHER, 0)
        t.type("ky")
        t.until("sent TERM to pid OTHER (sh)")
        t.until("no locks are held or waited for")
        t.type("r")
        t.type("k")
        t.until("F1 Help")
        t.type("q")
        t.ends(0)
        ]]):gsub("%u%u%u+", { TOKEN = found[5], PID = found[6],
                              OTHER = rows(output("locks", "--prefix", "other"))[1][6] }))
        assert.same({ code = 128 + command.TERM }, other:wait())
        assert.is_nil(held:wait(0))
    end)

    it("neither releases a later grant nor signals a process that no longer holds the lock", function ()
        local first = command.start("lock", "key", "--", "sh", "-c", "exec sleep 600")
        assert(command.await(function () return #rows(output("locks")) == 1 end))
        play [[
        t = Terminal(24, 80)
        holder = lambda: re.search(r" (\d+) (?:sh|sleep) ", t.text())
        t.until(holder, "the holder")
        pid = int(holder().group(1))
        new = []
        def hand_over():
            new.append(subprocess.Popen([program, "lock", "key", "sleep", "600"], stdin=subprocess.DEVNULL))
            t.until(lambda: re.search(r" 1 +\S+ s", t.text()), "the waiter")
        hand_over()
        t.type("r")
        t.until("Release key of pid %d " % pid)
        subprocess.run([program, "release", "--yes", "commands", "key"], check=True)
        t.until(lambda: holder() and int(holder().group(1)) != pid, "the next holder")
        t.type("y")
        t.until('cannot release "key" with token ')
        t.type("k")
        t.until("holder of key?")
        other = int(re.search(r"Send TERM to pid (\d+) ", t.text()).group(1))
        assert other != pid
        subprocess.run([program, "release", "--yes", "commands", "key"], check=True)
        t.type("y")
        t.until('was not signalled: it no longer holds "key"')
        os.kill(other, 0)
        os.kill(pid, 0)
        t.type("q")
        t.ends(0)
        for process in new: process.terminate()
        ]]
        first:signal_group(command.KILL)
    end)

    it("shows why a holder cannot be signalled", function ()
        local process = member [[
            assert(shdict.open("gone", { size = "64k" }))
            assert(keep(require("resty.lock"):new("gone", { exptime = 3000 })):lock("key"))
            ready()
        ]]
        keep [[ assert(require("resty.shdict").open("gone")) ready() ]]
        world.kill(process)
        play [[
        t = Terminal(24, 80)
        t.until(", dead")
        t.type("k")
        t.until("cannot signal ")
        t.until("it no longer exists")
        t.type("r")
        t.until("Release key of pid")
        t.type("y")
        t.until('released "key"')
        t.type("q")
        t.ends(0)
        ]]
    end)

    it("scrolls with arrows, pages, home and end", function ()
        hold_many "('key%03d'):format(i)"
        play [[
        t = Terminal(24, 80, "--sort", "key")
        t.until("key001")
        t.until("key018")
        assert "key019" not in t.text(), t.text()
        def details(key):
            t.type("\r")
            t.until("many " + key)
            t.type("x")
            t.until("DICTIONARY")
        details("key001")
        t.type(DOWN + DOWN + UP)
        details("key002")
        t.type(PAGE_DOWN)
        t.until("key020")
        details("key020")
        t.type(END)
        t.until("key100")
        details("key100")
        t.type(PAGE_UP)
        details("key082")
        t.type(HOME)
        t.until("key001")
        details("key001")
        t.type(UP)
        details("key001")
        t.type(F10)
        t.ends(0)
        ]]
    end)

    it("exits on TERM even if its terminal has accepted only part of a drawing", function ()
        hold_many "('%03d'):format(i):rep(60)"
        play [[
        t = Terminal(100, 250)
        t.until("050050")
        full = os.open(os.ttyname(t.slave), os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
        try:
            while True: os.write(full, b" " * 4096)
        except BlockingIOError: pass
        t.resize(100, 249)  # makes top draw the whole screen again
        while not select.select([], [full], [], 0)[1]: os.read(t.master, 256)
        time.sleep(1)
        t.process.terminate()
        assert t.process.wait(30) == -signal.SIGTERM
        assert termios.tcgetattr(t.slave) == t.before
        ]]
    end)

    it("never sends the unprintable bytes of a name, and aligns columns even if a name has wide characters", function ()
        member [[
            assert(shdict.open("odd\27]0;x\7", { size = "64k" }))
            local locks = {}
            for i, key in ipairs { "bell\7\27[2J", "csi\194\155A", "\255\254", "漢字", "plain" } do
                locks[i] = require("resty.lock"):new("odd\27]0;x\7", { exptime = 3000 })
                assert(locks[i]:lock(key, { why = "because\27[31m" }))
            end
            ready()
        ]]
        play [[
        t = Terminal(24, 100, "--sort", "key")
        t.until("bell\\x07\\x1B")
        t.until("csi\\xC2\\x9BA")
        t.until(lambda: all(re.search(word + " +lock", t.text()) for word in ("漢字", "plain", r"\\xFF\\xFE")), "rows")
        width = lambda line: sum(2 if c in "漢字" else 1 for c in line[:line.index("lock")])
        wide, plain = (next(line for line in t.lines() if word in line) for word in ("漢字", "plain"))
        assert width(wide) == width(plain), t.text()
        t.type("\r")
        t.until("because\\x1B[31m")
        t.type("x\t")
        t.until("odd\\x1B]0")
        t.type("\\\x07\x01é")
        t.until("Filter: é")
        t.type("\x03")
        t.ends(0)
        ]]
    end)

    it("waits for the first program", function ()
        local script = command.write("come.lua", [[
            assert(require("resty.shdict").open("later", { size = "64k" }))
            while true do require("resty.holdfast.scheduler").sleep(0.1) end
        ]])
        play(([[
        t = Terminal(24, 80)
        t.until("no program uses holdfast here yet")
        new = subprocess.Popen([program, "run", "--workers", "1", "%s"])
        t.until("1 dictionary")
        t.until(lambda: "no program uses" not in t.text(), "end of the message")
        new.terminate()
        new.wait()
        t.type("q")
        t.ends(0)
        ]]):format(script))
    end)

    it("continues when a dictionary is recreated, and when a process is stopped inside a dictionary", function ()
        contend()
        local process = member [[
            local dict = assert(shdict.open("stopped", { size = "64k" }))
            lock = require("resty.lock"):new("stopped", { exptime = 3000 })  -- global, so that it is never collected
            assert(lock:lock("inside"))
            ready()
            while true do dict:set("hot", ("x"):rep(20000)) end
        ]]
        command.kill(world.worker_of(process), STOP)
        command.write("fresh.lua", [[
            assert(require("resty.shdict").open("busy", { size = "64k" }))
            local lock = require("resty.lock"):new("busy", { exptime = 3000 })
            assert(lock:lock("fresh"))
            while true do require("resty.holdfast.scheduler").sleep(0.05) end
        ]])
        play(([[
        t = Terminal(24, 120)
        t.until("inside")
        t.type(F3 + "inside\r\r")
        t.until(", stopped")
        t.type("x")
        subprocess.run([program, "rm", "-f", "busy"], check=True)
        t.until(lambda: "slow" not in t.text(), "end of the dictionary")
        new = subprocess.Popen([program, "run", "--workers", "1", "FRESH"], start_new_session=True)
        try:
            t.until("fresh")
            t.until("inside")
            t.type(F3 + "inside\rk")
            t.until(", stopped, holder of inside? [y/N, k: TERM]")
            t.type("y")
            t.until("sent CONT to pid ")
            t.until(lambda: ", stopped" not in t.text().split("sent CONT")[0], "the end of the stop")
            t.type("q")
            t.ends(0)
        finally:
            os.killpg(new.pid, signal.SIGKILL)
            new.wait()
        ]]):gsub("FRESH", (command.path "fresh.lua")))
    end)
end)
