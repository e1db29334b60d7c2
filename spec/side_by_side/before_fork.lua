-- Run by the master of an nginx, in init_by_lua: opens what its workers then use.

local shdict = require "resty.shdict"

local dict = assert(shdict.open("spec_before_fork", { size = "256k" }))
dict:flush_all()
dict:set("from the master", "hello", 0, 7)
dict:rpush("list", "first")
dict:set("rounds", 0)

package.loaded["spec.before_fork"] = dict
