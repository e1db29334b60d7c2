-- Tests locks that http { } and stream { } of one nginx share, although their Lua states are separate. Debian has no
-- Lua module for stream. HOLDFAST_NGINX may name an nginx that has this module, such as OpenResty's.

local fixture, http, shell, site = require "spec.support" ("fixture", "http", "shell", "site")
local resty_lock = require "resty.lock"
local shdict = require "resty.shdict"

local it = fixture.it_unless(site.missing_stream())

local NAME = "holdfast_spec_stream"

-- Returns a stream server at `socket`. It answers in HTTP, so that the specs' client understands it.
local function stream_server(socket, phases)
    return ([[
        server {
            listen unix:%s;
            %s
            content_by_lua_block {
                local body = ngx.ctx.body or content()
                ngx.req.socket():receive()
                ngx.print("HTTP/1.1 200 OK\r\nContent-Length: ", #body, "\r\n\r\n", body)
            }
        }
    ]]):format(socket, phases or "")
end

-- Waits for the lock "key" and reports the result.
local WAIT = [[
    local lock, err = require("resty.lock"):new("holdfast_spec_stream", { timeout = 30 })
    if not lock then
        return err
    end
    local elapsed, err = lock:lock("key")
    if not elapsed then
        return err
    end
    return (elapsed > 0 and "waited " or "did not wait ") .. lock.dict:capacity() .. " " .. tostring(lock:unlock())
]]
local CONTENT = "init_by_lua_block { function content() " .. WAIT .. " end }\n"
local OPEN = [[init_worker_by_lua_block {
    require("resty.shdict").open("holdfast_spec_stream", { size = "100k" })
}
]]


describe("stream and http in one nginx", function ()
    local folder, socket

    before_each(function ()
        folder = shell.output("mktemp -d /dev/shm/holdfast-spec.XXXXXX")
        socket = folder .. "/stream.sock"
    end)

    after_each(function ()
        site.clean_up()
        shdict.remove(NAME)
        shell.succeeds("rm -rf -- '" .. folder .. "'")
    end)

    -- Releases the lock while both servers wait for it, and returns their reports.
    local function forward(here)
        local lock = assert(resty_lock:new(NAME, { exptime = 600 }))
        assert(lock:lock("key"))
        local from_stream, from_http = http.connect(socket), here:connect()
        from_stream:send("/")
        from_http:send("/wait")
        site.await("both wait", function ()
            local holder = lock:holder("key")
            return holder and holder.waiters == 2
        end)
        assert(lock:unlock())
        return (from_stream:receive()), (from_http:receive())
    end

    it("share the locks of a dictionary that one of them declares and the other opens", function ()
        for declared, options in pairs {
            http = { dictionaries = { [NAME] = "100k" }, stream = OPEN },
            stream = { http = OPEN, stream = "lua_shared_dict " .. NAME .. " 100k;\n" },
        } do
            options.stream = options.stream .. CONTENT .. stream_server(socket)
            options.locations = { ["/wait"] = "ngx.print((function () " .. WAIT .. " end)())" }
            local here = site.start(options)
            assert.equal("did not wait 102400 1", (http.connect(socket):get("/")), declared)
            assert.equal("did not wait 102400 1", (here:get("/wait")), declared)
            local from_stream, from_http = forward(here)
            assert.equal("waited 102400 1", from_stream, declared)
            assert.equal("waited 102400 1", from_http, declared)
            assert.falsy(here:log():find("%[error%]"), here:log())
            here:stop()
            os.remove(socket)
        end
    end)

    it("can also wait in the preread phase", function ()
        local here = site.start {
            dictionaries = { [NAME] = "100k" },
            stream = OPEN .. stream_server(socket, "preread_by_lua_block { ngx.ctx.body = (function () " .. WAIT
                                                   .. " end)() .. ' in ' .. ngx.get_phase() }"),
            locations = { ["/wait"] = "ngx.print((function () " .. WAIT .. " end)())" },
        }
        assert.equal("waited 102400 1 in preread", (forward(here)))
        assert.falsy(here:log():find("patch", 1, true))
    end)

    it("do not know each other's zones", function ()
        site.start { dictionaries = { [NAME] = "100k" }, stream = CONTENT .. stream_server(socket) }
        assert.equal("dictionary not found", (http.connect(socket):get("/")))
    end)

    it("cannot both declare a name, because nginx refuses this", function ()
        local ok, err = pcall(site.start, {
            dictionaries = { [NAME] = "100k" },
            stream = "lua_shared_dict " .. NAME .. " 100k;" .. stream_server(socket),
        })
        assert.is_false(ok)
        assert.matches('the shared memory zone "' .. NAME .. '" is already declared for a different use', err, 1, true)
    end)
end)
