rockspec_format = "3.0"
package = "lua-resty-holdfast"
version = "0.2.0-1"

source = {
  url = "git+https://github.com/holdfast-lua/holdfast.git",
  tag = "v0.2.0",
}

description = {
  summary = "Cross-process locks and a shared dictionary for LuaJIT",
  detailed = [[
    resty.lock and ngx.shared.DICT for any LuaJIT process: plain scripts, OpenResty, Neovim, luv, cqueues, copas, or a
    C++ program that embeds LuaJIT. A wait for a lock does not block other coroutines, and ends as soon as the lock is
    free. A lock never outlives its holder.
  ]],
  homepage = "https://github.com/holdfast-lua/holdfast",
  issues_url = "https://github.com/holdfast-lua/holdfast/issues",
  license = "MIT",
  labels = { "luajit", "ffi", "openresty", "concurrency", "linux" },
}

supported_platforms = { "linux" }

-- LuaJIT counts as Lua 5.1.
dependencies = { "lua == 5.1" }

external_dependencies = {
  XXHASH = { header = "xxhash.h" },
}

build = {
  type = "cmake",
  variables = {
    CMAKE_BUILD_TYPE = "Release",
    CMAKE_INSTALL_PREFIX = "$(PREFIX)",
    CMAKE_INSTALL_BINDIR = "$(BINDIR)",
    HOLDFAST_LUADIR = "$(LUADIR)",
    HOLDFAST_CLIBDIR = "$(LIBDIR)",
    -- Not in lib/, because LuaRocks would install every file there as a module.
    HOLDFAST_UNITDIR = "share/systemd/system",
    HOLDFAST_XXHASH_DIR = "$(XXHASH_INCDIR)",
    -- Also builds the command if LuaJIT's headers, fmt and nlohmann-json are installed.
    HOLDFAST_CLI = "AUTO",
    HOLDFAST_TESTS = "OFF",
    HOLDFAST_BENCH = "OFF",
    HOLDFAST_INSTALL_C = "OFF",
  },
}

test = {
  type = "command",
  command = "make test",
}
