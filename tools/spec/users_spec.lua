-- Tests that root sees the runtime directories of all users, and that nothing in such a directory harms root. Each test
-- has its own /dev/shm and its own process ids, so that it does not see other directories.

local command, json, shell, typing, world =
    require "spec.support" ("command", "tools/json", "shell", "tools/typing", "tools/world")

local run, rows = command.run, world.rows

-- These users need not exist, because a directory is named after a number.
local ONE, OTHER = 4000001, 4000002

local UNSHARE = "unshare --mount --pid --fork --kill-child --mount-proc"
local may_unshare = shell.output "id -u" == "0" and shell.succeeds(UNSHARE .. " true 2>/dev/null")
local it_as_root = may_unshare and it or function (name)
    pending(name .. ": only root can act as several users")
end

-- as USER COMMAND...: runs a command as the user. hold USER KEY [OPTIONS]: holds the lock until the end. create USER:
-- creates a dictionary.
local PRELUDE = [[
set -eu
unset HOLDFAST_DIR HOLDFAST_SHARE HOLDFAST_OWNER
mount -t tmpfs -o mode=1777,size=64m tmpfs /dev/shm
as() { local user=$1; shift; setpriv --reuid "$user" --regid "$user" --clear-groups "$@"; }
holdfast() { "$PROGRAMS/holdfast" "$@"; }
create() { as "$1" "$PROGRAMS/holdfast" set --create "${2-values}" key "$1"; }
hold() {
  local user=$1 key=$2; shift 2
  as "$user" "$PROGRAMS/holdfast" lock "$@" "$key" -- sh -c "touch /dev/shm/held-$user-$key; exec sleep 600" &
  timeout 20 sh -c "until [ -e /dev/shm/held-$user-$key ]; do sleep 0.02; done"
}
]]


describe("Runtime directories of several users", function ()
    local programs

    lazy_setup(function ()
        programs = shell.output "mktemp -d /var/tmp/holdfast-spec.XXXXXX"
        os.execute(("cp %s %s-tools %s/libholdfast.so* %s && chmod -R a+rX %s"):format(
            command.program, command.program, command.program:match "^(.*)/", programs, programs))
    end)
    lazy_teardown(function () os.execute("rm -rf " .. programs) end)
    command.fixture()

    -- Runs the shell script as root, as if it had a machine of its own. Returns its output, and the text on standard
    -- error.
    local function machine(script)
        local path = command.write("machine.sh", PRELUDE .. script)
        local ended, out, err = run("-c", UNSHARE .. " bash " .. path, { PROGRAM = "/bin/sh", PROGRAMS = programs })
        assert.same({ code = 0 }, ended, err)
        return out, err
    end

    local function users_of(list)
        local users = {}
        for _, one in ipairs(list) do
            users[#users + 1] = one.user
        end
        return users
    end

    it_as_root("are all shown to root, with the user in a last field, in JSON, and in the first column", function ()
        local out = machine(([[
            hold 0 mine
            hold %d theirs --why report
            create %d; create %d; create 0
            holdfast ls; echo; holdfast locks; echo
            holdfast ls --json; holdfast locks --json; holdfast doctor --json; echo
            holdfast ls --color=always; holdfast locks --color=always; holdfast doctor --color=always
        ]]):format(ONE, ONE, OTHER))
        local ls, locks, objects, people = out:match "^(.-\n)\n(.-\n)\n(.-\n)\n(.*)$"
        local seen = {}
        for _, row in ipairs(rows(ls)) do
            seen[#seen + 1] = row[1] .. " " .. row[11]
        end
        assert.same({ "commands root", "values root", "commands " .. ONE, "values " .. ONE, "values " .. OTHER }, seen)
        local mine, theirs = unpack(rows(locks))
        assert.same({ "mine", "-", "root" }, { mine[2], mine[13], mine[14] })
        assert.same({ "theirs", "report", tostring(ONE) }, { theirs[2], theirs[13], theirs[14] })
        local all, held, health = objects:match "^(.-)\n(.-)\n(.-)\n"
        all, held, health = json.decode(all), json.decode(held), json.decode(health)
        assert.equal("/dev/shm/holdfast-0", all.directory)
        assert.same({ "root", "root", tostring(ONE), tostring(ONE), tostring(OTHER) }, users_of(all.dictionaries))
        assert.same({ "root", tostring(ONE), tostring(OTHER) }, users_of(all.directories))
        assert.equal("/dev/shm/holdfast-" .. OTHER, all.directories[3].directory)
        assert.same({ "root", tostring(ONE) }, users_of(held.locks))
        assert.same({ "ok", all.directories }, { health.status, health.directories })
        people = people:gsub("\27%[%d*m", "")
        assert.matches("^USER +NAME +SIZE.-\nroot +commands ", people)
        assert.matches("\n" .. ONE .. " +values ", people)
        assert.matches("\nUSER +DICTIONARY +KEY .-\n" .. ONE .. " +commands +theirs ", people)
        assert.matches("\nno problems in 3 runtime directories: 5 dictionaries\n$", people)
    end)

    it_as_root("are found by the names of dictionaries, which need exist in only one directory", function ()
        local out, err = machine(([[
            create %d; create %d; create %d only
            holdfast ls only; holdfast ls values only | cut -f1,11; holdfast locks values
            holdfast ls none values || echo "$?"; holdfast locks none || echo "$?"
        ]]):format(ONE, OTHER, OTHER))
        assert.equal(3, select(2, out:gsub("\n", "\n", 3)))
        assert.matches("^only\t[^\n]*\t" .. OTHER .. "\n", out)
        assert.matches(("\nvalues\t%d\nvalues\t%d\nonly\t%d\n2\n2\n$"):format(ONE, OTHER, OTHER), out)
        local none = 'holdfast: there is no dictionary "none" in any runtime directory\n'
        assert.equal(none .. none, err)
    end)

    it_as_root("are limited to one by --user, --dir and $HOLDFAST_DIR, without a field for the user", function ()
        local out = machine(([[
            hold %d key; create 0
            for narrow in "--user=%d" "--dir=/dev/shm/holdfast-0" "--user=root"; do
              holdfast ls "$narrow" | cut -f1,10-; holdfast locks "$narrow" | cut -f2,13-
              holdfast doctor "$narrow" | cut -f1,5-
            done
            HOLDFAST_DIR=/dev/shm/holdfast-0 holdfast ls --json
        ]]):format(ONE, ONE))
        local narrow, object = out:match "^(.-)({.*)\n$"
        assert.equal("commands\t-\nkey\t-\nvalues\t-\nnote\nvalues\t-\nnote\n", narrow)
        object = json.decode(object)
        assert.same({ nil, nil }, { object.directories, object.dictionaries[1].user })
    end)

    it_as_root("are all in the completion of ls, locks and top, but not of other commands", function ()
        local out = machine(([[
            create 0 mine; create %d theirs
            PATH=$PROGRAMS:$PATH; unset -f holdfast; set +e
            compopt() { :; }
            . %s/tools/share/holdfast.bash
            for words in "ls" "locks" "top" "stat" "get" "rm" "ls --user %d" "stat --user %d"; do
              COMP_WORDS=(holdfast $words ""); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _holdfast; echo "${COMPREPLY[@]}"
            done
        ]]):format(ONE, command.repository, ONE, ONE))
        assert.equal("mine theirs\nmine theirs\nmine theirs\nmine\nmine\nmine\ntheirs\ntheirs\n", out)
    end)

    it_as_root("are shown with their trees of waits, below each user", function ()
        local out = machine(([[
            hold 0 free; hold %d key
            as %d "$PROGRAMS/holdfast" lock key true & sleep 0.01
            timeout 20 sh -c 'until "$0" locks -w | grep -q has.waited; do sleep 0.02; done' "$PROGRAMS/holdfast"
            holdfast locks --waiting
        ]]):format(ONE, ONE))
        assert.matches("^user " .. ONE .. ":\ncommands key has been held by pid %d+ %(%S+%) for [^\n]+\n"
                       .. "  pid %d+ [^\n]+\n$", out)
    end)

    it_as_root("are all in top, with the user in the last field and column, and in JSON", function ()
        local out, err = machine(([[
            hold 0 mine; hold %d theirs; hold %d theirs --permits 3; create %d
            as %d "$PROGRAMS/holdfast" lock theirs true & sleep 0.01
            for words in "" "values" "--json" "--header" "--user=%d" "--sort=user values"; do
              holdfast top --batch --delay 0.2 --count 1 $words; echo ---
            done
            holdfast top --batch none || echo "$?"
        ]]):format(ONE, OTHER, OTHER, ONE, ONE))
        local parts = {}
        for part in out:gmatch "(.-)%-%-%-\n" do
            parts[#parts + 1] = part
        end
        local locks, dictionaries = {}, {}
        for _, row in ipairs(rows(parts[1])) do
            if row[1] == "lock" then
                locks[#locks + 1] = row[3] .. " " .. row[#row]
            elseif row[1] == "dictionary" then
                dictionaries[#dictionaries + 1] = row[2] .. " " .. row[#row]
            end
        end
        assert.same({ "mine root", "theirs " .. ONE, "theirs " .. OTHER },
                    (table.sort(locks) or locks))
        assert.same({ "commands " .. ONE, "commands " .. OTHER, "commands root", "values " .. OTHER },
                    (table.sort(dictionaries) or dictionaries))
        assert.matches("^world\t[^\t]+\t/dev/shm/holdfast%-0\t[%d.]+\t4\t4\t3\t", parts[1])
        assert.matches("^world[^\n]*\ndictionary\tvalues[^\n]*\t" .. OTHER .. "\n$", parts[2])
        local object = json.decode(parts[3])
        local users = {}
        for _, list in ipairs { object.locks, object.dictionaries } do
            for _, one in ipairs(list) do
                users[one.user .. " " .. (one.key or one.name)] = one.waiter_count or true
            end
        end
        assert.same({ ["root mine"] = 0, [ONE .. " theirs"] = 1, [OTHER .. " theirs"] = 0, ["root commands"] = true,
                      [ONE .. " commands"] = true, [OTHER .. " commands"] = true, [OTHER .. " values"] = true }, users)
        assert.matches("^3 runtime directories\n", parts[4])
        assert.matches("\nDICTIONARY [^\n]* USER *\n.-commands +theirs [^\n]* " .. ONE .. " *\n", parts[4])
        assert.falsy(parts[5]:find("\t" .. ONE .. "\n", 1, true))
        assert.matches("\n2\n$", out)
        assert.equal('holdfast: there is no dictionary "none" in any runtime directory\n', err)
    end)

    -- The user may have forged the pid, so top must not signal the process.
    it_as_root("are not changed by the keys r and k of top, which suggest --user instead", function ()
        local path = command.write("machine.sh", PRELUDE .. ([[
            hold %d theirs
            PATH=$PROGRAMS:$PATH exec "$PROGRAMS/holdfast" top
        ]]):format(ONE))
        typing(([[
            say("PROGRAMS=%s %s bash %s\r")
            until("theirs")
            say("r")
            until("to release this lock or signal its holder, run: holdfast top --user %d")
            say("p")
            until("PAUSED")
            say("k")
            until("to release this lock or signal its holder, run: holdfast top --user %d")
            say("q")
            until("ready> ")
            say("exit\r")
        ]]):format(programs, UNSHARE, path, ONE, ONE))
    end)

    it_as_root("that cannot be read are named, even in JSON, and the status is 2", function ()
        local out, err = machine(([[
            hold 0 mine; create %d; mkdir /dev/shm/holdfast-%d; chown %d /dev/shm/holdfast-%d
            chmod 777 /dev/shm/holdfast-%d; mkdir /dev/shm/holdfast-%d; mkdir -m 700 /dev/shm/holdfast-4000009
            chown 4000009 /dev/shm/holdfast-4000009; mkdir /dev/shm/holdfast-{31,32,33}
            for words in ls locks "locks -w" "top -b -n1 -d0.2" doctor; do
                status=0; holdfast $words --json || status=$?; echo "$status"
            done
            COLUMNS=60 holdfast doctor --header || true
        ]]):format(ONE, OTHER, OTHER, OTHER, OTHER, ONE + 10))
        local why = ("runtime directory /dev/shm/holdfast-%d has mode 0777, "):format(OTHER)
        local objects = {}
        for object, status in out:gmatch "({[^\n]*})\n(%d)\n" do
            objects[#objects + 1] = json.decode(object)
            assert.equal("2", status)
        end
        assert.equal(5, #objects)
        for _, object in ipairs(objects) do
            assert.equal(4, #object.directories)
            for _, one in ipairs(object.directories) do
                if one.user == tostring(OTHER) then
                    assert.truthy(one.trouble:find(why, 1, true), one.trouble)
                else
                    assert.equal(json.null, one.trouble)
                end
            end
        end
        assert.is_true(objects[4].room > 0)
        assert.equal(4, select(2, err:gsub("holdfast: " .. OTHER .. ": " .. why:gsub("%p", "%%%0"), "")))
        local people = out:match "%d\n(warning.*)$"
        assert.matches("^warning: root: /dev/shm/holdfast%-31: .* mount point; %-%-json shows 3 more like it remove",
                       (people:gsub("%s+", " ")))
        assert.matches("\nerror: " .. OTHER .. ": ", people)
        assert.equal(1, select(2, people:gsub("0777", "")))
    end)

    it_as_root("that cannot be read have their own line in top, above the titles", function ()
        local path = command.write("machine.sh", PRELUDE .. ([[
            hold 0 mine; mkdir /dev/shm/holdfast-%d; chown %d /dev/shm/holdfast-%d; chmod 777 /dev/shm/holdfast-%d
            PATH=$PROGRAMS:$PATH exec "$PROGRAMS/holdfast" top
        ]]):format(OTHER, OTHER, OTHER, OTHER))
        typing(([[
            say("PROGRAMS=%s %s bash %s\r")
            until("%d: runtime directory")
            until("0777")
            until("DICTIONARY")
            until("mine")
            until("F1 Help")
            say("q")
            until("ready> ")
            say("exit\r")
        ]]):format(programs, UNSHARE, path, OTHER))
    end)

    it_as_root("are hidden from other users, which columns and doctor report", function ()
        local out = machine(([[
            create %d; create %d; create 0
            for words in ls "ls --json" locks doctor \
                         "ls --color=always" "locks --color=always" "doctor --color=always" \
                         "ls --color=always --dir /dev/shm/holdfast-%d" "top --header -d 0.2 -n 1"; do
              as %d "$PROGRAMS/holdfast" $words
              echo ---
            done
        ]]):format(ONE, OTHER, ONE, ONE))
        local told = {}
        for part in out:gsub("\27%[%d*m", ""):gmatch "(.-)%-%-%-\n" do
            told[#told + 1] = part
        end
        assert.same({ 1, 10 }, { #rows(told[1]), #rows(told[1])[1] })
        assert.equal(1, #json.decode(told[2]).dictionaries)
        assert.equal("", told[3])
        local more, how = "2 more runtime directories belong to other users", "run this command as root to see all"
        assert.equal(("note\t-\t%s\t%s\n"):format(more, how), told[4]:match "\n(.*)$")
        for i = 5, 6 do
            assert.equal(("%s; %s"):format(more, how), told[i]:match "([^\n]*)\n$")
        end
        assert.matches(("\nnote: %s\n    %s\nno problems in /dev/shm/holdfast%%-%d: 1 dictionary\n$"):format(
            more, how, ONE), told[7])
        assert.falsy(told[8]:find("more", 1, true))
        assert.equal(("/dev/shm/holdfast-%d; %s"):format(ONE, more), told[9]:match "^[^\n]*")
    end)

    it_as_root("are neither changed nor created by commands that read", function ()
        machine(([[
            hold %d key; create %d; mkdir -m 700 /dev/shm/holdfast-%d; chown %d /dev/shm/holdfast-%d
            state() { find /dev/shm -mindepth 1 -printf '%%p %%i %%m %%U %%s %%b %%T@ %%C@\n' | sort; sync
                      find /dev/shm -type f -exec md5sum {} + | sort; }
            before=$(state)
            holdfast ls -p > ls; holdfast locks; holdfast locks -w; holdfast doctor
            [ "$(state)" = "$before" ] || { state | diff - <(echo "$before") >&2; exit 1; }
            ! holdfast prune 2>/dev/null
        ]]):format(ONE, ONE, OTHER, OTHER, OTHER):gsub("> ls", ">/dev/null"))
    end)

    it_as_root("are not repaired, because doctor --repair covers only root's own directory", function ()
        local out = machine(([[
            for user in 0 %d; do
              as "$user" "$PROGRAMS/holdfast" lock -F key -- \
                sh -c 'echo $$ > /dev/shm/pid-$0; exec sleep 600' "$user" &
              timeout 20 sh -c "until [ -s /dev/shm/pid-$user ]; do sleep 0.02; done"
              kill -9 "$(cat "/dev/shm/pid-$user")"
            done
            timeout 20 sh -c 'until [ "$("$0" locks | grep -c dead)" = 2 ]; do sleep 0.02; done' "$PROGRAMS/holdfast"
            holdfast doctor --repair --json 2>/dev/null
            holdfast locks | cut -f2,9,14
        ]]):format(ONE))
        local report, locks = out:match "^([^\n]*)\n(.*)$"
        report = json.decode(report)
        assert.same({ "/dev/shm/holdfast-0", "ok" }, { report.directory, report.status })
        assert.is_nil(report.directories)
        assert.equal("key\tdead\t" .. ONE .. "\n", locks)
    end)

    -- A hostile user can do all of this in /dev/shm. The directories of the honest user and of root must still be shown
    -- soon.
    it_as_root("neither stop nor mislead root, whatever a hostile user does to them", function ()
        local out, err = machine(([[
            create 0 mine; create %d honest
            echo secret > $PROGRAMS/secret; chmod 600 $PROGRAMS/secret
            evil() { user=$1 d=/dev/shm/holdfast-$1; }
            evil 4000010; create $user; rm $d/processes; mkfifo $d/processes; chown $user $d/processes
            evil 4000011; create $user
            mkfifo $d/fifo.dict; ln -s $PROGRAMS/secret $d/link.dict; mkdir $d/folder.dict
            truncate -s 1T $d/huge.dict; head -c 100000 /dev/urandom > $d/noise.dict
            ln -s /dev/zero $d/names-00.dict; ln $d/values.dict $d/linked.dict
            chown -h $user $d/*
            evil 4000012; create $user; truncate -s 100 $d/processes
            noise() { dd if=/dev/urandom of=$d/$1 bs=4k seek=1 count=$2 conv=notrunc status=none; }
            evil 4000013; create $user; noise processes 190
            evil 4000014; create $user; noise values.dict 50
            evil 4000015; ln -s /dev/shm/holdfast-%d $d; chown -h $user $d
            evil 4000016; create $user; chown 4000017 $d
            evil 4000018; touch $d; chown $user $d
            evil 4000019; mkdir -m 700 $d; mount -t tmpfs -o uid=$user,mode=700 tmpfs $d; create $user
            evil 4000020; create $user; chmod 777 $d
            evil 4000021; mkdir $d; mkfifo $d/processes; chmod 700 $d; chown $user $d
            evil 04000022; mkdir $d; evil x; mkdir $d; evil 99999999999; mkdir $d; evil ""; mkdir $d; evil -1; mkdir $d
            for i in $(seq 50); do evil $((4000100 + i)); mkdir -m 700 $d; chown $user $d; done
            for words in ls "ls -p --json" locks "locks --json" "locks -w" "top -d 0.2 -n 2" doctor "doctor --json"; do
              status=0; timeout 60 "$PROGRAMS/holdfast" $words || status=$?
              echo "--- $words: $status"
            done
            rm $PROGRAMS/secret
        ]]):format(ONE, ONE))
        local ls, ls_json, locks = out:match "^(.-)%-%-%- ls: 2\n(.-)%-%-%- ls %-p %-%-json: 2\n(.-)%-%-%- locks: 2\n"
        assert.truthy(ls, out .. err)
        assert.equal("", locks)
        local seen = {}
        for _, row in ipairs(rows(ls)) do
            seen[row[11] .. " " .. row[1]] = row[10]
        end
        assert.equal("-", seen["root mine"])
        assert.equal("-", seen[ONE .. " honest"])
        assert.matches("hard links", seen["4000011 linked"], 1, true)
        for _, user in ipairs { "4000010", "4000015", "4000016", "4000018", "4000019", "4000020", "x" } do
            assert.is_nil(seen[user .. " values"], user)
            assert.is_nil(seen[user .. " honest"], user)
        end
        assert.equal(9 + 50, #json.decode(ls_json).directories)
        assert.falsy((out .. err):find("secret\n", 1, true))
        for _, user in ipairs { "4000015", "4000016", "4000018", "4000019" } do
            assert.matches(("\nwarning\t/dev/shm/holdfast%%-%s\tdoes not belong to the user in its name, or is a mount "
                            .. "point\t[^\t\n]+\troot\n"):format(user), out)
        end
        assert.matches("holdfast: 4000020: runtime directory /dev/shm/holdfast%-4000020 has mode 0777", err)
        assert.falsy(out:find("--- [^\n]*: 124\n"), out .. err)
    end)
end)
