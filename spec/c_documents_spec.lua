-- Tests docs/c.md. Its examples must compile and do what the document says.

local command, shell, snippets = require "spec.support" ("command", "shell", "snippets")
local LIBRARY = require("resty.holdfast.core").path
local ffi = require "ffi"

local PATH = "docs/c.md"

-- Replaces the file that `make install` writes.
local PACKAGE = [[
Name: holdfast
Description: the library of this build
Version: 0
Libs: -L%s -lholdfast
Cflags: -I%s/include
]]


describe("the examples of " .. PATH, function ()
    before_each(function ()
        command.set_up()
        local root = shell.output("pwd")
        local folder = LIBRARY:match("^(.*)/")
        command.write("holdfast.pc", PACKAGE:format(folder, root))
        ffi.C.setenv("PKG_CONFIG_PATH", command.path(""), 1)
        ffi.C.setenv("LD_LIBRARY_PATH", folder, 1)
    end)

    after_each(function ()
        ffi.C.unsetenv("PKG_CONFIG_PATH")
        ffi.C.unsetenv("LD_LIBRARY_PATH")
        command.tear_down()
    end)

    snippets.claims(PATH, "is compiled and happens: ")
end)
