std = "luajit"
max_line_length = 120
codes = true
color = false
exclude_files = { "build*/**" }

files["spec"] = { std = "luajit+busted" }
files["tools/spec"] = { std = "luajit+busted" }
files["cluster/spec"] = { std = "luajit+busted" }
files[".busted"] = { std = "luajit" }
files["rockspec/*.rockspec"] = { std = "rockspec" }
-- Each host adapter uses the globals of its host; other modules use none.
files["lua/resty/holdfast/host/nginx*.lua"] = { read_globals = { "ngx" } }
files["lua/resty/holdfast/host/neovim.lua"] = { read_globals = { "vim" } }
files["lua/resty/holdfast/host.lua"] = { read_globals = { "ngx", "vim" } }
files["tests/peers/lua"] = { globals = { "ngx" } }
files["examples/*/lua"] = { read_globals = { "ngx" } }
-- wrk calls these by name.
files["examples/nginx/load.lua"] = {
  globals = { "done", "init", "request", "setup" },
  read_globals = { "number", "wrk" },
}
