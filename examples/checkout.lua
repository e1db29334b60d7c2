-- Lets an example find its own modules, and also holdfast's modules and library in a checkout that was built but not
-- installed. Returns the folder of the examples.

local here = arg[0]:match("^(.*)/") or "."
package.path = package.path .. ";" .. here .. "/../lua/?.lua;" .. here .. "/?.lua"
package.cpath = package.cpath .. ";" .. here .. "/../build/?.so"

return here
